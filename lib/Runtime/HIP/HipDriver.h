//===- HipDriver.h - The HIP runtime ----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HIP_HIPDRIVER_H
#define INTARSIA_RUNTIME_HIP_HIPDRIVER_H

#include "lib/Runtime/GPU/GpuDriver.h"
#include "lib/Runtime/HIP/HipApi.h"

namespace intarsia::runtime::hip {

/// The HIP runtime of ROCm as a driver of GPUs.
class HipDriver final : public GpuDriver {
public:
  /// Takes the functions of a library. init() must succeed before any other call.
  explicit HipDriver(const Api &api) : api_(api) {}
  /// Starts the library. ITX_NOT_FOUND if there is no device.
  Status init();

  const char *kind() const override { return "hip"; }
  std::string version() const override;
  std::string ptxVersion() const override { return {}; }
  int32_t dlpackType() const override;
  std::string explain(const GpuResult &result) const override;
  GpuResult countDevices(int &count) override;
  GpuResult readProperties(int device, GpuProperties &properties) override;
  std::optional<int> rank(GpuCodeKind kind, const std::string &code, const std::string &device) const override;
  GpuResult open(int device) override;
  GpuResult enter(int device, void *&previous) override;
  void leave(int device, void *previous) override;
  GpuResult createStream(void *&stream) override;
  GpuResult createEvent(bool isTimed, void *&event) override;
  void destroyEvent(void *event) override;
  GpuResult recordEvent(void *event, void *stream) override;
  GpuResult streamWait(void *stream, void *event) override;
  GpuResult queryEvent(void *event) override;
  GpuResult synchronizeEvent(void *event) override;
  GpuResult elapsed(void *begin, void *end, float &milliseconds) override;
  GpuResult createPool(int device, void *&pool) override;
  GpuResult trimPool(void *pool) override;
  GpuResult allocate(void *pool, uint64_t bytes, void *stream, void *&address) override;
  GpuResult free(void *pool, void *address, void *stream) override;
  GpuResult memoryInfo(uint64_t &freeBytes, uint64_t &totalBytes) override;
  GpuResult allocateHost(uint64_t bytes, void *&address) override;
  GpuResult copyToDevice(void *destination, const void *source, uint64_t bytes, void *stream) override;
  GpuResult copyToHost(void *destination, const void *source, uint64_t bytes, void *stream) override;
  GpuResult copyOnDevice(void *destination, const void *source, uint64_t bytes, void *stream) override;
  GpuResult copyToPeer(void *destination, int destinationDevice, const void *source, int sourceDevice, uint64_t bytes,
                       void *stream) override;
  GpuResult fill(void *destination, uint8_t value, uint64_t bytes, void *stream) override;
  GpuResult launch(void *function, const GpuGrid &grid, void *stream, void **arguments) override;
  GpuResult describeTensor(void *address, const GpuTensorBox &box, GpuTensorDescriptor &descriptor) override;
  GpuResult createGraph(void *&graph) override;
  GpuResult addGraphNode(void *graph, void *previous, void *function, const GpuGrid &grid, void **arguments,
                         void *&node) override;
  GpuResult instantiateGraph(void *graph, void *&instance) override;
  GpuResult setGraphNode(void *instance, void *node, void *function, const GpuGrid &grid, void **arguments) override;
  GpuResult launchGraph(void *instance, void *stream) override;
  void destroyGraph(void *graph, void *instance) override;
  GpuResult loadModule(const std::string &code, std::string &log, void *&module) override;
  void unloadModule(void *module) override;
  GpuResult findFunction(void *module, const char *name, void *&function) override;
  GpuResult allowShared(void *function, uint32_t bytes) override;
  const nccl::Api *exchangeLibrary(std::string &problem) override;

private:
  const Api api_;
  int version_ = 0;
  int count_ = 0; ///< of devices
};

/// Returns what the runtime makes of an error of the library.
GpuFailure failureOf(Result result);

} // namespace intarsia::runtime::hip

#endif
