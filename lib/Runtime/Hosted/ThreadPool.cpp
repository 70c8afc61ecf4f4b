//===- ThreadPool.cpp - Threads that run the tiles of one launch --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace intarsia::runtime {

static void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory"); // a delay like x86's pause; `yield` is a no-op on most cores
#endif
}

static void futexWait(std::atomic<uint32_t> &word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

static void futexWake(std::atomic<uint32_t> &word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

/// Spins until `done` holds or the time is over; returns false if it is over. Reading the clock costs more than a
/// pause. After `politeMicroseconds` each reading also yields the core: on a busy machine the scheduler may have put
/// the thread that is waited for onto this core, and a launch then took as long as the whole spin (1 ms measured).
template <typename Done> static bool spinUntil(Done done, int32_t microseconds) {
  constexpr int32_t politeMicroseconds = 20;
  for (int i = 0; i < 64; ++i) {
    if (done())
      return true;
    pauseCpu();
  }
  if (microseconds == 0)
    return false;
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now(), now = start;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done())
        return true;
      pauseCpu();
    }
    now = Clock::now();
    if (now - start > std::chrono::microseconds(politeMicroseconds))
      sched_yield();
  } while (now - start < std::chrono::microseconds(microseconds));
  return done();
}

ThreadPool::ThreadPool(int32_t threads, std::string name, std::vector<int> processors)
    : wanted_(threads), spinMicroseconds_(spinMicroseconds()), name_(std::move(name)),
      processors_(std::move(processors)) {}

ThreadPool::~ThreadPool() { stopWorkers(); }

void ThreadPool::stopWorkers() {
  stop_.store(true);
  generation_.fetch_add(1);
  futexWake(generation_, INT_MAX);
  for (std::thread &worker : workers_)
    worker.join();
  workers_.clear();
  stop_.store(false);
}

void ThreadPool::resize(int32_t threads) {
  stopWorkers();
  ranges_ = std::make_unique<Range[]>(threads);
  participants_ = threads;
  // Signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  uint32_t seen = generation_.load();
  for (int32_t i = 1; i < threads; ++i) {
    try {
      workers_.emplace_back([this, i, seen] { work(i, seen); });
    } catch (const std::system_error &) {
      break; // the process may not have more threads: the existing ones do the work
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool ThreadPool::claim(Range &range, int64_t &begin, int64_t &end) {
  int64_t next = range.next.load(std::memory_order_relaxed);
  for (;;) {
    int64_t left = range.end - next;
    if (left <= 0)
      return false;
    // Claims a quarter of the remaining tiles: few claims, and single tiles at the end so that all finish together.
    int64_t count = std::max<int64_t>(1, left / 4);
    if (range.next.compare_exchange_weak(next, next + count, std::memory_order_relaxed)) {
      begin = next;
      end = next + count;
      return true;
    }
  }
}

void ThreadPool::runTiles(int64_t begin, int64_t end) {
  try {
    function_(context_, begin, end);
  } catch (...) {
    std::lock_guard lock(exceptionMutex_);
    if (!failed_.exchange(true))
      exception_ = std::current_exception();
  }
}

void ThreadPool::drain(int32_t self) {
  int64_t begin, end;
  for (int32_t i = 0; i < participants_; ++i) {
    Range &range = ranges_[(self + i) % participants_];
    while (claim(range, begin, end))
      runTiles(begin, end);
  }
}

/// Gives a worker its name and its processors.
void ThreadPool::prepareWorker(int32_t self) const {
  char name[16];
  std::snprintf(name, sizeof(name), "%s-%d", name_.c_str(), self);
  pthread_setname_np(pthread_self(), name);
  if (processors_.empty())
    return;
  int most = *std::max_element(processors_.begin(), processors_.end()) + 1;
  cpu_set_t *set = CPU_ALLOC(most);
  if (!set)
    return;
  size_t bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, set);
  for (int processor : processors_)
    CPU_SET_S(processor, bytes, set);
  // The processors were allowed when the device was made. If all have been taken away since, the system has moved the
  // process elsewhere, and the worker stays there with it.
  (void)sched_setaffinity(0, bytes, set);
  CPU_FREE(set);
}

void ThreadPool::work(int32_t self, uint32_t seen) {
  prepareWorker(self);
  for (;;) {
    auto changed = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!spinUntil(changed, spinMicroseconds_)) {
      sleepers_.fetch_add(1);
      while (generation_.load() == seen)
        futexWait(generation_, seen);
      sleepers_.fetch_sub(1);
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed))
      return;
    uint32_t gate = gate_.load(std::memory_order_relaxed);
    bool joined = false;
    while ((gate & open) && !joined)
      joined = gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire, std::memory_order_relaxed);
    if (!joined)
      continue;
    drain(self);
    // Sequentially consistent with the caller's store to callerParked_: one of the two sees the other.
    if (gate_.fetch_sub(1) == 1 && callerParked_.load())
      futexWake(gate_, 1);
  }
}

void ThreadPool::waitForWorkers() {
  uint32_t gate = gate_.fetch_and(~open) & ~open;
  if (gate == 0)
    return;
  // Tiles take microseconds; a longer wait means that the worker lost its core to another thread.
  if (spinUntil([&] { return gate_.load(std::memory_order_acquire) == 0; }, 200))
    return;
  callerParked_.store(1);
  while ((gate = gate_.load()) != 0)
    futexWait(gate_, gate);
  callerParked_.store(0);
}

void ThreadPool::run(int64_t tiles, Function function, void *context) {
  if (tiles <= 0)
    return;
  int32_t wanted = wanted_.load(std::memory_order_relaxed);
  if (tiles == 1 || wanted <= 1 || taken_.exchange(true, std::memory_order_acquire)) {
    function(context, 0, tiles);
    return;
  }
  struct Release {
    std::atomic<bool> &taken;
    ~Release() { taken.store(false, std::memory_order_release); }
  } release{taken_};

  if (participants_ != wanted)
    resize(wanted);
  int32_t active = int32_t(std::min<int64_t>(wanted, tiles));
  function_ = function;
  context_ = context;
  for (int32_t i = 0; i < wanted; ++i) {
    // Needs 128 bits: tiles * thread count may not fit in 64.
    bool used = i < active;
    ranges_[i].next.store(used ? int64_t(__int128(tiles) * i / active) : 0, std::memory_order_relaxed);
    ranges_[i].end = used ? int64_t(__int128(tiles) * (i + 1) / active) : 0;
  }
  gate_.store(open, std::memory_order_release);
  generation_.fetch_add(1);
  if (sleepers_.load() != 0)
    futexWake(generation_, active - 1);
  drain(0);
  waitForWorkers();
  if (failed_.load(std::memory_order_relaxed)) {
    std::exception_ptr exception = std::exchange(exception_, nullptr);
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(exception);
  }
}

// ---- The pool of a device ---------------------------------------------------------------------------------

DevicePool::~DevicePool() {
  Owned *owned = owned_.load();
  if (owned && owned->process == processNumber())
    delete owned;
}

/// Makes a pool for this process, with as many threads as the parent's. Takes no lock, which a child of a fork might
/// find held for ever; of several threads that make one, the first wins.
ThreadPool &DevicePool::renew(Owned *old) {
  int32_t threads = old ? old->pool.threads() : threads_ != 0 ? threads_ : defaultThreads();
  auto made = std::make_unique<Owned>(threads, name_, processors_);
  if (owned_.compare_exchange_strong(old, made.get(), std::memory_order_acq_rel))
    return made.release()->pool;
  return old->pool;
}

} // namespace intarsia::runtime
