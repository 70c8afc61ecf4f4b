//===- GpuDevice.h - A GPU behind the interface of devices ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUDEVICE_H
#define INTARSIA_RUNTIME_GPU_GPUDEVICE_H

#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/GPU/GpuExecutable.h"
#include "lib/Runtime/GPU/GpuQueues.h"

#include <functional>

namespace intarsia::runtime {

/// A GPU of a driver. It is opened when it is first used: describing it costs no memory on it.
class GpuDevice final : public Device {
public:
  /// The queues: one for kernels, one for copies.
  static constexpr uint32_t queues = 2;

  /// `number` is the driver's; the first device of a driver has the kind as its name, others the kind and the number.
  GpuDevice(GpuDriver &driver, int number, GpuProperties properties);
  /// Waits until all work is done.
  ~GpuDevice() override;

  const char *kind() const override { return driver_.kind(); }
  const char *name() const override { return name_.c_str(); }
  std::string info() const override;
  Status checkEnvironment() const override;
  bool usesHostMemory() const override { return false; }
  Status allocate(uint64_t bytes, void *&address) override;
  /// Freeing an address that allocate() did not return loses the device.
  void release(void *address) override;
  int32_t dlpackType() const override { return driver_.dlpackType(); }
  bool owns(const void *address, uint64_t bytes) const override;
  bool supports(const std::string &variant) const override;
  Status load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) override;
  uint32_t queueCount() const override { return queues; }
  Status dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                  itx_event &event) override;
  Status copy(uint32_t queue, void *destination, MemoryKind destinationKind, const void *source, MemoryKind sourceKind,
              uint64_t bytes, const itx_event *after, uint32_t afterCount, itx_event &event) override;
  /// Copies to another device of the same driver, directly where the machine can do that.
  Status copyTo(Device &other, void *destination, const void *source, uint64_t bytes, itx_event &event) override;
  Status fill(uint32_t queue, void *destination, uint8_t value, uint64_t bytes, const itx_event *after,
              uint32_t afterCount, itx_event &event) override;
  Status wait(itx_event event) override;
  DeviceLinks links() override;
  Status makeGroupId(DeviceGroupId &id) override;
  Status joinGroup(const DeviceGroupId &id, size_t index, size_t size, std::unique_ptr<DeviceGroup> &group) override;
  /// Puts work of a library on the stream of a queue, after the given events.
  Status submit(uint32_t queue, const char *category, const char *work, const char *label, const itx_event *after,
                uint32_t afterCount, itx_event &event, const std::function<Status(void *stream)> &put);
  /// Puts a copy within the device's memory on a stream; the device must have been entered.
  Status copyInStream(void *destination, const void *source, uint64_t bytes, void *stream);
  /// Does something with the device as the calling thread's own; nothing in a child of the process.
  void useFor(const std::function<void()> &action);
  Status setThreads(int32_t) override { return Status::success(); }
  int32_t threads() const override { return 1; }

private:
  Status start();
  Status checkOwned(const char *what, const void *address, uint64_t bytes) const;
  Status copyBetween(GpuQueues::Submission &work, void *destination, MemoryKind destinationKind, const void *source,
                     MemoryKind sourceKind, uint64_t bytes, bool &begun);
  /// Makes the tensor maps that a function takes.
  Status describeTensors(const GpuLaunch &shape, const Launch &launch, std::vector<uint64_t> &tensors);
  Status launchAll(GpuQueues::Submission &work, GpuExecutable &executable, const GpuExecutable::Kernel &kernel,
                   const Launch &launch, bool &begun);

  GpuDriver &driver_;
  const int number_;
  const std::string name_;
  const GpuProperties properties_;
  GpuState state_;
  GpuMemory memory_;
  GpuQueues queues_;
  bool isSynchronous_ = false; ///< each launch is waited for
  std::mutex startMutex_;
  std::atomic<bool> isStarted_{false};
};

/// The devices of one kind on this machine.
struct FoundGpus {
  std::vector<Device *> devices; ///< they live as long as the process
  std::string problem;           ///< why there are none, or not all; empty if nothing is wrong
};

/// Returns the devices of a driver that was started. A device that the driver does not describe is left out.
FoundGpus makeGpuDevices(GpuDriver &driver);

} // namespace intarsia::runtime

#endif
