//===- DeviceHealth.h - Whether a device still works -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_DEVICEHEALTH_H
#define INTARSIA_RUNTIME_HOSTED_DEVICEHEALTH_H

#include "lib/Runtime/Hosted/HostedSettings.h"
#include "lib/Support/Status.h"

#include <atomic>
#include <mutex>

namespace intarsia::runtime {

/// Knows whether a device is lost, and which command is to fail. All members may be called from several threads at
/// once.
class DeviceHealth {
public:
  /// A command's number, from 1 on, and what is to go wrong at it.
  struct Numbered {
    uint64_t number = 0;
    Fault fault = Fault::None;
  };

  /// `text` is the device in messages: "the reference device".
  explicit DeviceHealth(const char *text) : text_(text) {}

  /// Returns ITX_DEVICE_LOST, with the reason, if the device is lost.
  Status status() const;
  /// Makes the device lost in children of a fork from now on: they have none of its threads.
  void bindToProcess();
  /// Returns true in a child of the process that bound the device. What other threads had locked stays locked there.
  bool isForked() const;

  /// Loses the device; later reasons are dropped.
  void lose(const std::string &reason);
  /// Makes a lost device work again.
  void restore();
  /// Injects a fault at a command, counted from the next one, which is number 1.
  void failAt(Fault fault, uint64_t command);
  /// Counts a command.
  Numbered countCommand();

private:
  Status lost(const std::string &reason) const;

  const char *const text_;
  std::atomic<uint64_t> process_{0}; ///< processNumber() of the one process that has the device; 0: none has it
  mutable std::mutex mutex_;
  std::string reason_; ///< why the device is lost; empty: it works
  uint64_t commands_ = 0;
  Numbered next_;
};

} // namespace intarsia::runtime

#endif
