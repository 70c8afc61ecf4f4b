//===- GpuState.cpp - Whether a GPU still works -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuState.h"

namespace intarsia::runtime {

Status GpuState::status() const {
  if (isForked())
    return error(ITX_DEVICE_LOST,
                 "the device '%s' is lost (its driver was started before this process was forked, and works in the "
                 "parent alone; use the device first in the child, or start the child with exec)",
                 device_.c_str());
  if (!isLost_.load(std::memory_order_acquire))
    return Status::success();
  std::lock_guard lock(mutex_);
  return error(ITX_DEVICE_LOST, "the device '%s' is lost (%s); a new process can use it again", device_.c_str(),
               reason_.c_str());
}

void GpuState::lose(const std::string &reason) {
  std::lock_guard lock(mutex_);
  if (isLost_.load())
    return;
  reason_ = reason;
  isLost_.store(true, std::memory_order_release);
}

Status GpuState::fail(const GpuResult &result, const std::string &what) {
  std::string reason = driver_.explain(result);
  if (result.failure == GpuFailure::Lost) {
    lose(reason + "; " + history_.suspects());
    return status();
  }
  itx_status code = result.failure == GpuFailure::OutOfMemory   ? ITX_OUT_OF_MEMORY
                    : result.failure == GpuFailure::Unsupported ? ITX_UNSUPPORTED
                                                                : ITX_INTERNAL;
  return error(code, "the device '%s' cannot %s: %s", device_.c_str(), what.c_str(), reason.c_str());
}

} // namespace intarsia::runtime
