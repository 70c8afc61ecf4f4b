//===- ThreadPool.h - Threads that run the tiles of one launch ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Workers spin for a bounded time, then park in the kernel. The caller takes part. Each participant owns a contiguous
// range of tiles, so that a thread finds its output of one kernel in its own cache during the next. A participant that
// is done early takes tiles of others. A worker that wakes too late is not waited for.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_THREADPOOL_H
#define INTARSIA_RUNTIME_HOSTED_THREADPOOL_H

#include "lib/Runtime/Core/ProcessNumber.h"
#include "lib/Support/Status.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace intarsia::runtime {

class ThreadPool {
public:
  /// Runs tiles begin … end - 1.
  using Function = void (*)(void *context, int64_t begin, int64_t end);

  /// `threads` includes the caller. Threads are made at the first launch that has work for them; their names are `name`
  /// and a number. They run on `processors`, unless that is empty; the caller's thread is left where it is.
  explicit ThreadPool(int32_t threads, std::string name = "itx", std::vector<int> processors = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// Runs all tiles and returns when they are done. May be called by several threads at once and from inside a tile: a
  /// caller that finds the pool busy runs its tiles alone. The first exception of a tile is thrown here.
  void run(int64_t tiles, Function function, void *context);

  /// The same for a callable (begin, end).
  template <typename Callable> void forEach(int64_t tiles, Callable &&callable) {
    run(
        tiles,
        [](void *context, int64_t begin, int64_t end) {
          (*static_cast<std::remove_reference_t<Callable> *>(context))(begin, end);
        },
        const_cast<void *>(static_cast<const void *>(&callable)));
  }

  /// Takes effect at the next launch.
  void setThreads(int32_t threads) { wanted_.store(threads, std::memory_order_relaxed); }
  int32_t threads() const { return wanted_.load(std::memory_order_relaxed); }

private:
  struct alignas(64) Range {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  void resize(int32_t threads);
  void stopWorkers();
  void prepareWorker(int32_t self) const;
  void work(int32_t self, uint32_t seen);
  void drain(int32_t self);
  bool claim(Range &range, int64_t &begin, int64_t &end);
  void runTiles(int64_t begin, int64_t end);
  void waitForWorkers();

  static constexpr uint32_t open = 1u << 31;

  // Counts launches; parked workers wait for it to change.
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  // `open` while workers may join the launch, plus the number of workers that are in it.
  alignas(64) std::atomic<uint32_t> gate_{0};
  std::atomic<uint32_t> callerParked_{0};
  alignas(64) std::atomic<bool> taken_{false};
  std::atomic<int32_t> wanted_;

  // Written by the launching thread before the gate opens.
  Function function_ = nullptr;
  void *context_ = nullptr;
  int32_t participants_ = 0; // number of ranges; 0 before the first launch
  std::unique_ptr<Range[]> ranges_;
  std::exception_ptr exception_;
  std::atomic<bool> failed_{false};
  std::mutex exceptionMutex_;

  std::vector<std::thread> workers_;
  int32_t spinMicroseconds_;
  std::string name_;
  std::vector<int> processors_;
};

/// The pool of a device. A child of a fork gets another one: the parent's workers do not exist in the child, and the
/// parent's pool may have been in the middle of a launch, so the child never touches it.
class DevicePool {
public:
  /// For `threads` 0 the pool has defaultThreads() when it is first needed.
  DevicePool(int32_t threads, std::string name, std::vector<int> processors)
      : threads_(threads), name_(std::move(name)), processors_(std::move(processors)) {}
  /// Ends the workers. No launch may be running.
  ~DevicePool();
  DevicePool(const DevicePool &) = delete;
  DevicePool &operator=(const DevicePool &) = delete;

  ThreadPool &get() {
    Owned *owned = owned_.load(std::memory_order_acquire);
    return owned && owned->process == processNumber() ? owned->pool : renew(owned);
  }

private:
  /// A pool and the process that its threads are in.
  struct Owned {
    Owned(int32_t threads, const std::string &name, const std::vector<int> &processors)
        : pool(threads, name, processors) {}
    uint64_t process = processNumber();
    ThreadPool pool;
  };
  ThreadPool &renew(Owned *old);

  const int32_t threads_;
  const std::string name_;
  const std::vector<int> processors_;
  std::atomic<Owned *> owned_{nullptr};
};

/// Most threads of a pool.
inline constexpr int32_t maximumThreads = 1024;

/// Returns an error unless a pool can have so many threads; 0 stands for a default.
Status checkThreads(int32_t threads);

/// Returns ITX_THREADS if it is set, else the threads that the affinity mask and the cgroup's CPU quota allow; at least
/// 1.
int32_t defaultThreads();
/// Returns how long an idle worker spins, in microseconds: ITX_SPIN_US, or 1000.
int32_t spinMicroseconds();
/// Returns an error if one of these variables is not a number in its range. The functions above then ignore it; loading
/// a module reports the error.
Status checkThreadVariables();

} // namespace intarsia::runtime

#endif
