//===- Ranks.h - Worlds of forked processes for tests
//---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIME_COLLECTIVES_RANKS_H
#define INTARSIA_TEST_UNIT_RUNTIME_COLLECTIVES_RANKS_H

#include "lib/Runtime/Collectives/World.h"

#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace intarsia::testing {

/// How a rank of a test ended.
struct RankResult {
  std::string message; ///< what its function returned
  int signal = 0;      ///< that ended it; 0: none
  double seconds = 0;  ///< how long its function ran
};

/// Processes that each run a function as a rank.
class Ranks {
public:
  /// Returns a message for the test; empty if all went well.
  using Function = std::function<std::string(runtime::World &world)>;

  explicit Ranks(int32_t size, double deadlineS = 60) : settings_{size, 0, runtime::newWorldAddress(), deadlineS} {
    shared_ = static_cast<Slot *>(
        mmap(nullptr, sizeof(Slot) * size_t(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~Ranks() { munmap(shared_, sizeof(Slot) * size_t(settings_.size)); }

  /// Starts one rank; `change` may change its settings before it joins.
  void start(int32_t rank, const Function &function,
             const std::function<void(runtime::WorldSettings &)> &change = nullptr) {
    pid_t process = fork();
    if (process == 0) {
      runtime::WorldSettings own = settings_;
      own.rank = rank;
      if (change)
        change(own);
      auto begin = std::chrono::steady_clock::now();
      std::string message = join(own, function);
      Slot &slot = shared_[rank];
      slot.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      message.copy(slot.message, sizeof(slot.message) - 1);
      _exit(0);
    }
    processes_.push_back({rank, process});
  }

  /// Starts all ranks and waits for them.
  std::vector<RankResult> run(const Function &function) {
    for (int32_t rank = 0; rank < settings_.size; ++rank)
      start(rank, function);
    return wait();
  }

  /// Waits for the ranks that were started.
  std::vector<RankResult> wait() {
    std::vector<RankResult> results(size_t(settings_.size));
    for (auto [rank, process] : processes_) {
      int status = 0;
      waitpid(process, &status, 0);
      results[rank] = {shared_[rank].message, WIFSIGNALED(status) ? WTERMSIG(status) : 0, shared_[rank].seconds};
      // A sanitizer that finds an error ends the rank before it can write its message.
      if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        results[rank].message += "ended with status " + std::to_string(WEXITSTATUS(status));
    }
    processes_.clear();
    return results;
  }

  pid_t process(int32_t rank) const {
    for (auto [other, process] : processes_)
      if (other == rank)
        return process;
    return -1;
  }

private:
  struct Slot {
    char message[4096];
    double seconds;
  };

  static std::string join(const runtime::WorldSettings &settings, const Function &function) {
    std::shared_ptr<runtime::World> world;
    Status status = runtime::World::join(settings, world);
    return status.ok() ? function(*world) : status.message();
  }

  runtime::WorldSettings settings_;
  Slot *shared_;
  std::vector<std::pair<int32_t, pid_t>> processes_;
};

} // namespace intarsia::testing

#endif
