//===- HostedDevice.h - What devices that compute on the host share --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory with addresses of its own, asynchronous queues, copies and fills. A device adds how kernels are loaded and
// run.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_HOSTEDDEVICE_H
#define INTARSIA_RUNTIME_HOSTED_HOSTEDDEVICE_H

#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/Hosted/CommandQueues.h"
#include "lib/Runtime/Hosted/DeviceHealth.h"
#include "lib/Runtime/Hosted/HostedMemory.h"
#include "lib/Runtime/Hosted/HostedSettings.h"

#include <mutex>
#include <optional>

namespace intarsia::runtime {

/// An operand of a kernel in the device's memory.
struct HostedOperand {
  void *address = nullptr;
  std::optional<uint64_t> bytes; ///< nothing if the manifest does not say them
};

/// A launch that begins.
struct HostedLaunch {
  uint32_t queue = 0;
  const std::string &text; ///< for messages: "kernel 'x' (layer.3)"
  const std::vector<HostedOperand> &operands;
  const std::vector<void *> &buffers; ///< of the operands, at addresses that the host can follow
  const std::vector<int64_t> &sizes;
};

/// A device that computes on the host. Memory and threads are made when they are first needed. Addresses are checked
/// twice, when a command is submitted and when it begins, so that memory which is freed too early is found.
class HostedDevice : public Device {
public:
  /// Takes its settings from the environment. The names must outlive the device.
  explicit HostedDevice(const HostedNames &names);
  HostedDevice(const HostedNames &names, const HostedSettings &settings);
  ~HostedDevice() override;

  const char *kind() const override { return names_.kind; }
  const char *name() const override { return names_.kind; }
  std::string info() const override;
  Status checkEnvironment() const override;
  bool usesHostMemory() const override { return false; }
  Status allocate(uint64_t bytes, void *&address) override;
  /// Freeing an address that allocate() did not return loses the device.
  void release(void *address) override;
  int32_t dlpackType() const override;
  bool owns(const void *address, uint64_t bytes) const override;
  Status load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) override;
  uint32_t queueCount() const override { return uint32_t(settings_.queues); }
  Status dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                  itx_event &event) override;
  Status copy(uint32_t queue, void *destination, MemoryKind destinationKind, const void *source, MemoryKind sourceKind,
              uint64_t bytes, const itx_event *after, uint32_t afterCount, itx_event &event) override;
  Status fill(uint32_t queue, void *destination, uint8_t value, uint64_t bytes, const itx_event *after,
              uint32_t afterCount, itx_event &event) override;
  Status wait(itx_event event) override;

  /// Sets the largest random delay before a command, for tests.
  Status setDelay(uint64_t microseconds, uint64_t seed);
  /// Returns what makes the device fail, for tests.
  DeviceHealth &health() { return health_; }

protected:
  /// Runs a kernel on the calling thread, which is that of a queue.
  using Body = std::function<Status(const HostedLaunch &launch)>;

  /// Says what the device is, for people.
  virtual const char *description() const = 0;
  /// Loads kernels, once the device has started.
  virtual Status loadObject(const ExecutableSource &source, std::unique_ptr<Executable> &executable) = 0;
  /// Returns what runs the kernel of a launch. `text` is the kernel in messages.
  virtual Status bind(const Launch &launch, const std::string &text, Body &body) = 0;

  /// Keeps the error in the environment of a setting of the device's own; the device then does not start.
  void refuse(Status status);
  /// Waits until all commands are done and ends the queues; every class that has a body calls it when it is destroyed.
  void finish();
  const HostedNames &names() const { return names_; }
  const HostedSettings &settings() const { return settings_; }
  /// Returns the memory; null before the device is used.
  HostedMemory *memory() const { return memory_.get(); }

private:
  Status start();
  /// Makes a command of work that is done for the device's queue number `queue`.
  Status submit(uint32_t queue, CommandQueues::Work work, const itx_event *after, uint32_t afterCount,
                itx_event &event);

  const HostedNames &names_;
  HostedSettings settings_;
  Status settingsStatus_; ///< the error in the environment; the device then does not start
  DeviceHealth health_;
  mutable std::mutex startMutex_;
  std::mutex submitMutex_; ///< commands reach the queues in the order of their numbers, or a fault would come late
  std::unique_ptr<HostedMemory> memory_;
  std::unique_ptr<CommandQueues> queues_;
};

} // namespace intarsia::runtime

#endif
