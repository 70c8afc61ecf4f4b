//===- CudaDriver.cpp - The CUDA driver -------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CUDA/CudaDriver.h"

#include "lib/Runtime/GPU/GpuLibrary.h"

#include <algorithm>

namespace intarsia::runtime::cuda {

Status Api::find(Api &api) {
  GpuLibrary library;
  ITX_RETURN_IF_ERROR(GpuLibrary::open({"libcuda.so.1", "libcuda.so"}, "CUDA driver", library));
  Api found;
#define INTARSIA_CUDA_FUNCTION(name, symbol, isRequired, arguments) library.bind(#symbol, found.name, isRequired);
#include "lib/Runtime/CUDA/CudaFunctions.def"
  ITX_RETURN_IF_ERROR(library.check());
  api = found;
  return Status::success();
}

std::string CudaDriver::explain(const GpuResult &result) const {
  const char *name = nullptr, *text = nullptr;
  if (api_.errorName(result.code, &name) != 0 || !name)
    name = "an unknown error";
  if (api_.errorText(result.code, &text) != 0 || !text)
    text = "";
  return format("%s (%d) at %s: %s", name, result.code, result.call, text);
}

Status CudaDriver::init() {
  GpuResult result = start(api_.driverVersion, Symbols::driverVersion);
  if (result.code == errorStubLibrary)
    return error(ITX_NOT_FOUND,
                 "there is no CUDA driver: the libcuda.so that was found is the toolkit's, for linking; is "
                 "its folder in LD_LIBRARY_PATH?");
  if (result.code == errorNoDevice || (result.ok() && count_ == 0))
    return error(ITX_NOT_FOUND, "the CUDA driver sees no GPU (is CUDA_VISIBLE_DEVICES set?)");
  if (!result.ok())
    return error(ITX_UNSUPPORTED, "the CUDA driver does not start: %s", explain(result).c_str());
  contexts_.assign(size_t(count_), nullptr);
  return Status::success();
}

GpuResult CudaDriver::readProperties(int device, GpuProperties &properties) {
  int major = 0, minor = 0, shared = 0, allowedShared = 0;
  GpuResult result = readFacts(device, properties,
                               {{attributeComputeCapabilityMajor, major},
                                {attributeComputeCapabilityMinor, minor},
                                {attributeMaxSharedMemoryPerBlock, shared},
                                {attributeMaxSharedMemoryPerBlockOptin, allowedShared},
                                {attributeMultiprocessorCount, properties.processors},
                                {attributeWarpSize, properties.warpThreads}});
  properties.architecture = format("sm_%d%d", major, minor);
  properties.defaultSharedBytes = uint64_t(shared);
  properties.sharedBytes = uint64_t(std::max(shared, allowedShared));
  properties.details = {format("compute capability %d.%d", major, minor), properties.pciBus};
  return result;
}

GpuResult CudaDriver::open(int device) {
  std::lock_guard lock(mutex_);
  DeviceNumber number = 0;
  GpuResult result = INTARSIA_GPU_CALL(deviceOf, &number, device);
  if (result.ok() && !contexts_[size_t(device)])
    result = INTARSIA_GPU_CALL(retainContext, &contexts_[size_t(device)], number);
  return result;
}

void CudaDriver::leave(int, void *) {
  Handle context = nullptr;
  (void)api_.popContext(&context); // what was pushed can be popped
}

GpuResult CudaDriver::copyToPeer(void *destination, int destinationDevice, const void *source, int sourceDevice,
                                 uint64_t bytes, void *stream) {
  Handle to = nullptr, from = nullptr;
  {
    std::lock_guard lock(mutex_); // other threads may be opening devices
    to = contexts_[size_t(destinationDevice)];
    from = contexts_[size_t(sourceDevice)];
  }
  return INTARSIA_GPU_CALL(copyToPeer, addressOf(destination), to, addressOf(source), from, bytes, stream);
}

GpuResult CudaDriver::describeTensor(void *address, const GpuTensorBox &box, GpuTensorDescriptor &descriptor) {
  if (!api_.encodeTensorMap)
    return unsupported(Symbols::encodeTensorMap);
  // The first dimension is that whose elements are neighbours. Strides are those of the others, in bytes.
  uint64_t extents[] = {box.columns, box.rows}, strides[] = {box.columns * box.elementBytes};
  unsigned sizes[] = {box.boxColumns, box.boxRows}, elementStrides[] = {1, 1};
  TensorElement element = box.elementBytes == 1 ? tensorUint8 : box.elementBytes == 2 ? tensorUint16 : tensorUint32;
  TensorSwizzle swizzle = box.swizzleBytes == 32   ? tensorSwizzle32
                          : box.swizzleBytes == 64 ? tensorSwizzle64
                                                   : tensorSwizzle128;
  TensorMap map;
  GpuResult result =
      INTARSIA_GPU_CALL(encodeTensorMap, &map, element, /*rank=*/2, address, extents, strides, sizes, elementStrides,
                        tensorNotInterleaved, swizzle, tensorPromotion256, tensorFillZeros);
  std::copy(std::begin(map.opaque), std::end(map.opaque), descriptor.begin());
  return result;
}

GpuResult CudaDriver::loadModule(const std::string &code, std::string &log, void *&module) {
  char errors[8192] = "";
  JitOption options[] = {jitErrorLogBuffer, jitErrorLogBufferBytes};
  void *values[] = {errors, reinterpret_cast<void *>(uintptr_t(sizeof(errors) - 1))};
  GpuResult result = INTARSIA_GPU_CALL(loadModule, &module, code.c_str(), 2, options, values);
  log = errors;
  return result;
}

} // namespace intarsia::runtime::cuda

const intarsia::runtime::FoundGpus &intarsia::runtime::cudaDevices() {
  static const FoundGpus found = gpu::findGpus<cuda::CudaDriver, cuda::Api>();
  return found;
}
