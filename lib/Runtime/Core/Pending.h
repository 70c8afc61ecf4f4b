//===- Pending.h - Work in the background, as the C interface shows it --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_PENDING_H
#define INTARSIA_RUNTIME_CORE_PENDING_H

#include "lib/Runtime/Core/Tensor.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <sys/types.h>
#include <unistd.h>

namespace intarsia::runtime {

/// Work that another thread does, and its results. The handle and that thread keep it, so either may end first.
class Pending {
public:
  /// Gives the work's results. What it has captured is freed before the work counts as done.
  using Work = std::function<Status(std::vector<Tensor> &results)>;

  /// `name` says for messages whose results they are: "function 'main'".
  Pending(std::string name, size_t resultCount) : name_(std::move(name)), resultCount_(resultCount) {}

  const std::string &name() const { return name_; }
  size_t resultCount() const { return resultCount_; }
  bool isDone() const { return done_; }
  /// True if the thread is in another process: this one is a child of a fork.
  bool isForeign() const { return process_ != getpid(); }
  pid_t process() const { return process_; }

  void run(Work work) noexcept;
  /// Waits for at most so long; returns isDone().
  bool waitFor(std::chrono::microseconds time);
  /// Waits, and gives the results. May be called once.
  Status take(std::vector<Tensor> &results);

private:
  const std::string name_;
  const size_t resultCount_;
  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_{false}; // set under the mutex
  Status status_;
  std::vector<Tensor> results_;
};

/// Starts work on another thread. `cancelled` is set when the caller does not want it any more; null if nothing asks.
void startPending(std::string name, size_t resultCount, Pending::Work work, itx_pending **pending,
                  std::shared_ptr<std::atomic<bool>> cancelled = nullptr);

/// Makes handles of tensors.
void giveTensors(std::vector<Tensor> &from, itx_tensor **to);

} // namespace intarsia::runtime

#endif
