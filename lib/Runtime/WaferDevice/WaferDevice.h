//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A simulated wafer. A launch executes the kernel's program with the values of its operands, which lie in the memory
// beside the wafer: weights and caches are placed on the cores in each launch. Profiles have the cycles that the
// compiler has predicted.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_WAFERDEVICE_WAFERDEVICE_H
#define INTARSIA_RUNTIME_WAFERDEVICE_WAFERDEVICE_H

#include "lib/Runtime/Hosted/HostedDevice.h"

namespace intarsia::runtime {

/// The names of the simulated wafer.
inline constexpr HostedNames waferNames = {"wafer", "the simulated wafer", "ITX_WAFER"};

/// A simulated wafer. It takes programs for each wafer of the catalogue.
class WaferDevice final : public HostedDevice {
public:
  /// Takes its settings from the environment.
  WaferDevice() : HostedDevice(waferNames) {}
  explicit WaferDevice(const HostedSettings &settings) : HostedDevice(waferNames, settings) {}
  /// Waits until all commands are done.
  ~WaferDevice() override { finish(); }

  bool supports(const std::string &variant) const override { return variant.rfind("wse-", 0) == 0; }
  Status setThreads(int32_t) override { return Status::success(); }
  int32_t threads() const override { return 1; }

protected:
  const char *description() const override;
  Status loadObject(const ExecutableSource &source, std::unique_ptr<Executable> &executable) override;
  Status bind(const Launch &launch, const std::string &text, Body &body) override;
};

/// Returns the process's simulated wafer, with settings from the environment.
Device &waferDevice();

} // namespace intarsia::runtime

#endif
