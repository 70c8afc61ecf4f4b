//===- HipDriver.h - The HIP runtime ----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HIP_HIPDRIVER_H
#define INTARSIA_RUNTIME_HIP_HIPDRIVER_H

#include "lib/Formats/DLPack.h"
#include "lib/Runtime/GPU/GpuLibraryDriver.h"
#include "lib/Runtime/HIP/HipApi.h"

namespace intarsia::runtime {

namespace hip {

/// Returns how well code for an architecture ("gfx942", "gfx11-generic") runs on a device ("gfx942"): 0 if it was
/// compiled for it, 1 if for its family; none if it does not run. https://llvm.org/docs/AMDGPUUsage.html (generic
/// processors)
std::optional<int> rankCode(GpuCodeKind kind, const std::string &code, const std::string &device);

/// The HIP runtime of ROCm as a driver of GPUs.
class HipDriver final : public GpuLibraryDriver<Api, Symbols> {
public:
  /// Takes the functions of a library. init() must succeed before any other call.
  explicit HipDriver(const Api &api) : GpuLibraryDriver(api) {}
  /// Starts the library. ITX_NOT_FOUND if there is no device.
  Status init();

  const char *kind() const override { return "hip"; }
  std::string version() const override {
    return format("HIP %d.%d.%d", version_ / 10000000, version_ / 100000 % 100, version_ % 100000);
  }
  std::string ptxVersion() const override { return {}; }
  int32_t dlpackType() const override { return kDLROCM; }
  std::string explain(const GpuResult &result) const override;
  GpuResult readProperties(int device, GpuProperties &properties) override;
  std::optional<int> rank(GpuCodeKind kind, const std::string &code, const std::string &device) const override {
    return rankCode(kind, code, device);
  }
  /// Does nothing: the library prepares a device when it is first used.
  GpuResult open(int) override { return {}; }
  GpuResult enter(int device, void *&previous) override;
  void leave(int device, void *previous) override;
  GpuResult copyToPeer(void *destination, int destinationDevice, const void *source, int sourceDevice, uint64_t bytes,
                       void *stream) override {
    return INTARSIA_GPU_CALL(copyToPeer, destination, destinationDevice, source, sourceDevice, bytes, stream);
  }
  GpuResult describeTensor(void *, const GpuTensorBox &, GpuTensorDescriptor &) override {
    return unsupported("tensor maps");
  }
  GpuResult loadModule(const std::string &code, std::string &log, void *&module) override {
    log.clear(); // the library compiles nothing
    return INTARSIA_GPU_CALL(loadModule, &module, code.data());
  }
  /// Does nothing: each block may have all that the device has.
  GpuResult allowShared(void *, uint32_t) override { return {}; }
  const nccl::Api *exchangeLibrary(std::string &problem) override {
    return findExchange({"librccl.so.1", "/opt/rocm/lib/librccl.so.1"}, "RCCL", problem);
  }
};

} // namespace hip

/// Returns the devices of kind "hip". The first call looks for the library and starts it.
const FoundGpus &hipDevices();

} // namespace intarsia::runtime

#endif
