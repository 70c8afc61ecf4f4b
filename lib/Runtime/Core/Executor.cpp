//===- Executor.cpp - Threads for asynchronous calls --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Executor.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <thread>

namespace intarsia::runtime {

namespace {

class Executor {
public:
  void submit(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    if (idle_ >= tasks_.size()) {
      lock.unlock();
      wake_.notify_one();
      return;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this] { work(); }).detach();
    } catch (...) {
      tasks_.pop_back();
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (tasks_.empty()) {
        ++idle_;
        // Idle threads leave after a while.
        bool woken = wake_.wait_for(lock, std::chrono::seconds(5), [this] { return !tasks_.empty(); });
        --idle_;
        if (!woken)
          return;
      }
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  size_t idle_ = 0;
};

} // namespace

/// Returns the executor. It is never destroyed: its threads may outlive static objects. A child of a fork, which has
/// none of the threads, gets a new one.
static Executor *&executor() {
  static Executor *instance = [] {
    pthread_atfork(nullptr, nullptr, [] { executor() = new Executor; });
    return new Executor;
  }();
  return instance;
}

void runInBackground(std::function<void()> task) { executor()->submit(std::move(task)); }

} // namespace intarsia::runtime
