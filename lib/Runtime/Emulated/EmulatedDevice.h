//===- EmulatedDevice.h - A GPU whose threads take turns on the host -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_EMULATEDDEVICE_H
#define INTARSIA_RUNTIME_EMULATED_EMULATEDDEVICE_H

#include "lib/Runtime/Emulated/EmulatedObject.h"
#include "lib/Runtime/Emulated/WarpMachine.h"
#include "lib/Runtime/Hosted/HostedDevice.h"
#include "lib/Runtime/Hosted/ThreadPool.h"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace intarsia::runtime {

/// The names of the emulated device.
inline constexpr HostedNames emulatedNames = {"emulated", "the emulated device", "ITX_EMULATED"};

/// An emulated GPU. It takes objects of each architecture that GPUs have.
class EmulatedDevice final : public HostedDevice {
public:
  /// Takes its settings from the environment; those of machines each time an object is loaded.
  EmulatedDevice();
  EmulatedDevice(const HostedSettings &settings, const MachineSettings &machine);
  /// Waits until all commands are done.
  ~EmulatedDevice() override;

  Status checkEnvironment() const override;
  bool supports(const std::string &variant) const override { return warpSizeOf(variant) != 0; }
  Status setThreads(int32_t threads) override;
  int32_t threads() const override { return pool_.get().threads(); }

protected:
  const char *description() const override;
  Status loadObject(const ExecutableSource &source, std::unique_ptr<Executable> &executable) override;
  Status bind(const Launch &launch, const std::string &text, Body &body) override;

private:
  /// Memory that kernels of a queue use one after the other. The thread of the queue alone touches it.
  struct Scratch {
    void *address = nullptr;
    uint64_t bytes = 0;
  };

  Status prepareScratch(uint32_t queue, uint64_t bytes, void *&memory);
  Status runKernel(const EmulatedObject &object, const GpuKernel &kernel, const HostedLaunch &launch);
  /// Returns the machine with these settings.
  WarpMachine &machineWith(const MachineSettings &settings);

  const std::optional<MachineSettings> machine_; ///< those of all objects; none if the environment says them
  std::mutex mutex_;
  std::vector<std::unique_ptr<WarpMachine>> machines_; ///< guarded by the mutex; one for each of the settings in use
  mutable DevicePool pool_;
  std::vector<Scratch> scratch_; ///< by queue
};

/// Returns the process's emulated device, with settings from the environment.
Device &emulatedDevice();

} // namespace intarsia::runtime

#endif
