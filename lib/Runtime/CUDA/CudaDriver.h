//===- CudaDriver.h - The CUDA driver ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CUDA_CUDADRIVER_H
#define INTARSIA_RUNTIME_CUDA_CUDADRIVER_H

#include "lib/Formats/DLPack.h"
#include "lib/Runtime/CUDA/CudaApi.h"
#include "lib/Runtime/GPU/GpuLibraryDriver.h"

#include <mutex>

namespace intarsia::runtime {

namespace cuda {

/// Returns how well code for an architecture ("sm_80", "sm_90a", "sm_100f") runs on a device ("sm_90"): 0 if it was
/// compiled for it, 1 if for an earlier one of its family, 2 if the driver must compile it; none if it does not run.
/// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capability (5.1, compatibility)
std::optional<int> rankCode(GpuCodeKind kind, const std::string &code, const std::string &device);

/// Returns the newest version of PTX that a driver compiles ("8.7"), by the version of CUDA that it says it has
/// (12080); empty for drivers that are newer than this table or older than CUDA 11.
/// https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes
std::string newestPtx(int driverVersion);

/// The CUDA driver API as a driver of GPUs. Devices are used through their primary contexts, which the CUDA runtime and
/// frameworks built on it use too, so that addresses mean the same to all.
class CudaDriver final : public GpuLibraryDriver<Api, Symbols> {
public:
  /// Takes the functions of a driver. init() must succeed before any other call.
  explicit CudaDriver(const Api &api) : GpuLibraryDriver(api) {}
  /// Starts the driver. ITX_NOT_FOUND if there is no device.
  Status init();

  const char *kind() const override { return "cuda"; }
  std::string version() const override { return format("CUDA %d.%d", version_ / 1000, version_ % 1000 / 10); }
  std::string ptxVersion() const override { return newestPtx(version_); }
  int32_t dlpackType() const override { return kDLCUDA; }
  std::string explain(const GpuResult &result) const override;
  GpuResult readProperties(int device, GpuProperties &properties) override;
  std::optional<int> rank(GpuCodeKind kind, const std::string &code, const std::string &device) const override {
    return rankCode(kind, code, device);
  }
  GpuResult open(int device) override;
  GpuResult enter(int device, void *&) override { return INTARSIA_GPU_CALL(pushContext, contexts_[size_t(device)]); }
  void leave(int device, void *previous) override;
  GpuResult copyToPeer(void *destination, int destinationDevice, const void *source, int sourceDevice, uint64_t bytes,
                       void *stream) override;
  GpuResult describeTensor(void *address, const GpuTensorBox &box, GpuTensorDescriptor &descriptor) override;
  GpuResult loadModule(const std::string &code, std::string &log, void *&module) override;
  GpuResult allowShared(void *function, uint32_t bytes) override {
    return INTARSIA_GPU_CALL(setFunctionAttribute, function, functionMaxDynamicSharedBytes, int(bytes));
  }
  const nccl::Api *exchangeLibrary(std::string &problem) override {
    return findExchange({"libnccl.so.2", "libnccl.so"}, "NCCL", problem);
  }

private:
  GpuResult numberOf(int device, int &number) override { return INTARSIA_GPU_CALL(deviceOf, &number, device); }

  std::mutex mutex_;
  std::vector<Handle> contexts_; ///< of each device that was opened
};

} // namespace cuda

/// Returns the devices of kind "cuda". The first call looks for the driver and starts it.
const FoundGpus &cudaDevices();

} // namespace intarsia::runtime

#endif
