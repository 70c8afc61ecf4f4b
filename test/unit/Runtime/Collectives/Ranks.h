//===- Ranks.h - Worlds of forked processes for tests ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIME_COLLECTIVES_RANKS_H
#define INTARSIA_TEST_UNIT_RUNTIME_COLLECTIVES_RANKS_H

#include "lib/Runtime/Collectives/Connection.h"
#include "lib/Runtime/Collectives/World.h"

#include <cstdlib>
#include <functional>
#include <random>
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

  /// `hosts`: one letter for each rank's host, "aab"; empty: all ranks are on one, and share memory.
  explicit Ranks(int32_t size, double deadlineS = 60, std::string hosts = "")
      : settings_{size, 0, runtime::newWorldAddress(), deadlineS}, hosts_(std::move(hosts)) {
    if (!hosts_.empty()) {
      settings_.address = format("tcp:localhost:%d", freePort());
      settings_.token = "a token for tests";
    }
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
      if (!hosts_.empty())
        setenv("ITX_WORLD_HOST", std::string(1, hosts_[size_t(rank)]).c_str(), 1);
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

  const runtime::WorldSettings &settings() const { return settings_; }

  pid_t process(int32_t rank) const {
    for (auto [other, process] : processes_)
      if (other == rank)
        return process;
    return -1;
  }

private:
  /// Returns a port that nobody listens at. It is below those that the system gives to connections (32768 and more),
  /// one of which could take it before the ranks listen.
  static int freePort() {
    std::random_device random;
    while (true) {
      int port = 20000 + int(random() % 12000);
      runtime::Socket listener;
      if (runtime::listenAt("localhost", std::to_string(port), listener).ok())
        return port;
    }
  }

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
  std::string hosts_;
  Slot *shared_;
  std::vector<std::pair<int32_t, pid_t>> processes_;
};

} // namespace intarsia::testing

#endif
