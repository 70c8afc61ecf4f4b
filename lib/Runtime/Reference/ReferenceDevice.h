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

#include "lib/Runtime/Hosted/HostedDevice.h"

namespace intarsia::runtime {

/// The names of the reference device.
inline constexpr HostedNames referenceNames = {"reference", "the reference device", "ITX_REFERENCE"};

/// A reference device.
class ReferenceDevice final : public HostedDevice {
public:
  /// Takes its settings from the environment.
  ReferenceDevice() : HostedDevice(referenceNames) {}
  explicit ReferenceDevice(const HostedSettings &settings) : HostedDevice(referenceNames, settings) {}
  /// Waits until all commands are done.
  ~ReferenceDevice() override { finish(); }

  bool supports(const std::string &variant) const override;
  Status setThreads(int32_t) override { return Status::success(); }
  int32_t threads() const override { return 1; }

protected:
  const char *description() const override;
  Status loadObject(const ExecutableSource &source, std::unique_ptr<Executable> &executable) override;
  Status bind(const Launch &launch, const std::string &text, Body &body) override;
};

/// Returns the process's reference device, with settings from the environment.
Device &referenceDevice();

} // namespace intarsia::runtime

#endif
