//===- GpuState.h - Whether a GPU still works -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUSTATE_H
#define INTARSIA_RUNTIME_GPU_GPUSTATE_H

#include "lib/Runtime/Core/ProcessNumber.h"
#include "lib/Runtime/GPU/GpuDriver.h"
#include "lib/Runtime/GPU/GpuHistory.h"
#include "lib/Support/Status.h"

#include <atomic>
#include <mutex>

namespace intarsia::runtime {

/// Knows whether a device is lost, and turns what a driver returns into statuses. All members may be called from
/// several threads at once.
class GpuState {
public:
  /// Belongs to the process that makes it, whose driver `driver` is. `device` is the device's name in messages.
  GpuState(const GpuDriver &driver, std::string device)
      : driver_(driver), device_(std::move(device)), process_(processNumber()) {}

  /// Returns ITX_DEVICE_LOST, with the reason, if the device cannot be used any more.
  Status status() const;
  /// Returns true in a child of the process: no call of the driver succeeds there, and its locks may be held for ever.
  bool isForked() const { return process_ != processNumber(); }
  /// Loses the device; later reasons are dropped.
  void lose(const std::string &reason);

  /// Returns the status for what a call returned; `what` says what was to be done ("start a copy"). A device that the
  /// driver says is lost is lost from now on; the reason names the launches that may have caused it.
  Status check(const GpuResult &result, const char *what) {
    return result.ok() ? Status::success() : fail(result, what);
  }
  /// Returns the status for a call that has failed.
  Status fail(const GpuResult &result, const std::string &what);

  GpuHistory &history() { return history_; }
  /// Notes that code is unloaded, and returns how often that was.
  void noteUnload() { ++unloads_; }
  uint64_t unloads() const { return unloads_; }

private:
  const GpuDriver &driver_;
  const std::string device_;
  const uint64_t process_;
  std::atomic<bool> isLost_{false};
  std::atomic<uint64_t> unloads_{0};
  mutable std::mutex mutex_;
  std::string reason_;
  GpuHistory history_;
};

/// Makes a device the calling thread's own for a scope. Whatever device the thread's other code uses it has again
/// afterwards.
class EnteredGpu {
public:
  EnteredGpu(GpuDriver &driver, int device)
      : driver_(driver), device_(device), result_(driver.enter(device, before_)) {}
  ~EnteredGpu() {
    if (result_.ok())
      driver_.leave(device_, before_);
  }
  EnteredGpu(const EnteredGpu &) = delete;
  EnteredGpu &operator=(const EnteredGpu &) = delete;

  const GpuResult &result() const { return result_; }

private:
  GpuDriver &driver_;
  int device_;
  void *before_ = nullptr;
  GpuResult result_;
};

} // namespace intarsia::runtime

#endif
