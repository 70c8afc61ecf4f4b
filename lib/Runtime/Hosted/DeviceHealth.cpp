//===- DeviceHealth.cpp - Whether a device still works ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/DeviceHealth.h"

#include "lib/Runtime/Core/ProcessNumber.h"

namespace intarsia::runtime {

Status DeviceHealth::lost(const std::string &reason) const {
  return error(ITX_DEVICE_LOST, "%s is lost (%s)", text_, reason.c_str());
}

bool DeviceHealth::isForked() const {
  uint64_t process = process_.load();
  return process != 0 && process != processNumber();
}

void DeviceHealth::bindToProcess() {
  uint64_t none = 0;
  process_.compare_exchange_strong(none, processNumber());
}

Status DeviceHealth::status() const {
  if (isForked())
    return lost("it was in use when this process was forked, and its threads are in the parent alone; use it first in "
                "the child, or start the child with exec");
  std::lock_guard lock(mutex_);
  return reason_.empty() ? Status::success() : lost(reason_);
}

void DeviceHealth::lose(const std::string &reason) {
  std::lock_guard lock(mutex_);
  if (reason_.empty())
    reason_ = reason;
}

void DeviceHealth::restore() {
  std::lock_guard lock(mutex_);
  reason_.clear();
}

void DeviceHealth::failAt(Fault fault, uint64_t command) {
  std::lock_guard lock(mutex_);
  commands_ = 0;
  next_ = {command, fault};
}

DeviceHealth::Numbered DeviceHealth::countCommand() {
  std::lock_guard lock(mutex_);
  uint64_t number = ++commands_;
  return {number, number == next_.number ? next_.fault : Fault::None};
}

} // namespace intarsia::runtime
