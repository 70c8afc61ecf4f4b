//===- CudaApi.h - The functions of the CUDA driver that are used -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CUDA_CUDAAPI_H
#define INTARSIA_RUNTIME_CUDA_CUDAAPI_H

#include "lib/Runtime/GPU/GpuApi.h"
#include "lib/Support/Status.h"

// The prototypes are the driver's by name and number, so that no header of the toolkit is needed;
// test/unit/Runtime/CUDA/CudaHeaderTest.cpp compares them with cuda.h where there is one.
namespace intarsia::runtime::cuda {

using namespace gpu;

/// Devices are numbered.
using DeviceNumber = int;
/// Addresses of devices.
using Address = unsigned long long;
/// Memory of the host that is read.
using HostSource = const void *;

/// CUdevice_attribute
enum Attribute : int {
  attributeMaxSharedMemoryPerBlock = 8,
  attributeWarpSize = 10,
  attributeMultiprocessorCount = 16,
  attributeComputeCapabilityMajor = 75,
  attributeComputeCapabilityMinor = 76,
  attributeMaxSharedMemoryPerBlockOptin = 97,
  attributeMemoryPoolsSupported = 115,
};

/// CUfunction_attribute
enum FunctionAttribute : int { functionMaxDynamicSharedBytes = 8 };

/// CUjit_option
enum JitOption : int {
  jitInfoLogBuffer = 3,
  jitInfoLogBufferBytes = 4,
  jitErrorLogBuffer = 5,
  jitErrorLogBufferBytes = 6,
};

/// CUtensorMap: bits for the device
struct alignas(128) TensorMap {
  uint64_t opaque[16];
};

/// CUtensorMapDataType: elements are copied as they are, so that only their size counts.
enum TensorElement : int { tensorUint8 = 0, tensorUint16 = 1, tensorUint32 = 2 };
/// CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill: what is outside is zero.
enum TensorInterleave : int { tensorNotInterleaved = 0 };
enum TensorSwizzle : int { tensorSwizzle32 = 1, tensorSwizzle64 = 2, tensorSwizzle128 = 3 };
enum TensorPromotion : int { tensorPromotion256 = 3 };
enum TensorFill : int { tensorFillZeros = 0 };

/// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNode {
  Handle function = nullptr;
  unsigned blocks[3] = {};
  unsigned threads[3] = {};
  unsigned sharedBytes = 0;
  void **arguments = nullptr;
  void **extra = nullptr;
  Handle kernel = nullptr;
  Handle context = nullptr;
};

/// The functions of a driver that was found.
struct Api {
  using Address = cuda::Address;
  using AttributeNumber = Attribute;
  using Node = KernelNode;
  static constexpr Attribute poolsAttribute = attributeMemoryPoolsSupported;

#define INTARSIA_CUDA_FUNCTION(name, symbol, isRequired, arguments) Result(*name) arguments = nullptr;
#include "lib/Runtime/CUDA/CudaFunctions.def"

  /// Finds the driver's library and its functions.
  static Status find(Api &api);
};

/// The symbols of the functions, by their names here, for messages.
struct Symbols {
#define INTARSIA_CUDA_FUNCTION(name, symbol, isRequired, arguments) static constexpr const char *name = #symbol;
#include "lib/Runtime/CUDA/CudaFunctions.def"
};

} // namespace intarsia::runtime::cuda

#endif
