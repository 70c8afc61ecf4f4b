//===- ReferenceDevice.h - A device that every machine has ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Its memory has addresses of its own, its queues are asynchronous, its kernels are slow and exact. It shows whether
// the compiler or the runtime takes a device for the host, and computes every kernel a second time.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_REFERENCE_REFERENCEDEVICE_H
#define INTARSIA_RUNTIME_REFERENCE_REFERENCEDEVICE_H

#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/Reference/CommandQueues.h"
#include "lib/Runtime/Reference/DeviceHealth.h"
#include "lib/Runtime/Reference/ReferenceMemory.h"
#include "lib/Runtime/Reference/ReferenceSettings.h"

#include <mutex>

namespace intarsia::runtime {

/// A reference device. Memory and threads are made when they are first needed. Addresses are checked twice, when a
/// command is submitted and when it begins, so that memory which is freed too early is found.
class ReferenceDevice final : public Device {
public:
  /// Takes its settings from the environment.
  ReferenceDevice();
  explicit ReferenceDevice(const ReferenceSettings &settings);
  /// Waits until all commands are done.
  ~ReferenceDevice() override;

  const char *kind() const override { return "reference"; }
  const char *name() const override { return "reference"; }
  std::string info() const override;
  Status checkEnvironment() const override;
  bool usesHostMemory() const override { return false; }
  Status allocate(uint64_t bytes, void *&address) override;
  /// Freeing an address that allocate() did not return loses the device.
  void release(void *address) override;
  int32_t dlpackType() const override;
  bool owns(const void *address, uint64_t bytes) const override;
  bool supports(const std::string &variant) const override;
  Status load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) override;
  uint32_t queueCount() const override { return uint32_t(settings_.queues); }
  Status dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                  itx_event &event) override;
  Status copy(uint32_t queue, void *destination, MemoryKind destinationKind, const void *source, MemoryKind sourceKind,
              uint64_t bytes, const itx_event *after, uint32_t afterCount, itx_event &event) override;
  Status fill(uint32_t queue, void *destination, uint8_t value, uint64_t bytes, const itx_event *after,
              uint32_t afterCount, itx_event &event) override;
  Status wait(itx_event event) override;
  Status setThreads(int32_t) override { return Status::success(); }
  int32_t threads() const override { return 1; }

  /// Sets the largest random delay before a command, for tests.
  Status setDelay(uint64_t microseconds, uint64_t seed);
  /// Returns what makes the device fail, for tests.
  DeviceHealth &health() { return health_; }

private:
  Status start();
  /// Makes a command of work that is done for the device's queue number `queue`.
  Status submit(uint32_t queue, CommandQueues::Work work, const itx_event *after, uint32_t afterCount,
                itx_event &event);

  ReferenceSettings settings_;
  Status settingsStatus_; ///< the error in the environment; the device then does not start
  DeviceHealth health_;
  mutable std::mutex startMutex_;
  std::unique_ptr<ReferenceMemory> memory_;
  std::unique_ptr<CommandQueues> queues_;
};

/// Returns the process's reference device, with settings from the environment.
Device &referenceDevice();

} // namespace intarsia::runtime

#endif
