//===- CudaApi.h - The functions of the CUDA driver that are used -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CUDA_CUDAAPI_H
#define INTARSIA_RUNTIME_CUDA_CUDAAPI_H

#include "lib/Support/Status.h"

#include <cstddef>
#include <cstdint>

// The prototypes are the driver's by name and number, so that no header of the toolkit is needed;
// test/unit/Runtime/CUDA/CudaHeaderTest.cpp compares them with cuda.h where there is one.
namespace intarsia::runtime::cuda {

/// The result of a function: 0, or the number of an error.
using Result = int;
/// Devices are numbered.
using DeviceNumber = int;
/// Addresses of devices.
using Address = unsigned long long;
/// CUcontext, CUstream, CUevent, CUmodule, CUfunction, CUmemoryPool: what they point to is the driver's.
using Handle = void *;

/// CUresult
enum : Result {
  errorInvalidValue = 1,
  errorOutOfMemory = 2,
  errorDeinitialized = 4,
  errorStubLibrary = 34,
  errorNoDevice = 100,
  errorInvalidImage = 200,
  errorNoBinaryForGpu = 209,
  errorEccUncorrectable = 214,
  errorInvalidPtx = 218,
  errorNvlinkUncorrectable = 220,
  errorJitCompilerNotFound = 221,
  errorUnsupportedPtxVersion = 222,
  errorJitCompilationDisabled = 223,
  errorInvalidSource = 300,
  errorNotFound = 500,
  errorNotReady = 600,
  errorIllegalAddress = 700,
  errorLaunchTimeout = 702,
  errorContextIsDestroyed = 709,
  errorAssert = 710,
  errorHardwareStack = 714,
  errorIllegalInstruction = 715,
  errorMisalignedAddress = 716,
  errorInvalidAddressSpace = 717,
  errorInvalidPc = 718,
  errorLaunchFailed = 719,
  errorNotSupported = 801,
  errorMpsClientTerminated = 810,
  errorExternalDevice = 911,
};

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

/// CUmemPool_attribute
enum PoolAttribute : int { poolReleaseThreshold = 4 };

/// CU_STREAM_NON_BLOCKING: the stream does not wait for the default stream, which other code of the process may use.
inline constexpr unsigned streamNonBlocking = 1;
/// CU_EVENT_DISABLE_TIMING
inline constexpr unsigned eventDisableTiming = 2;
/// CU_MEMHOSTALLOC_PORTABLE: pinned for all contexts.
inline constexpr unsigned hostPortable = 1;
/// CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int allocationPinned = 1, locationDevice = 1;

/// CUmemPoolProps
struct PoolProperties {
  int allocationType = allocationPinned;
  int handleTypes = 0;
  int locationType = locationDevice;
  int location = 0;
  void *securityAttributes = nullptr;
  size_t largestBytes = 0; ///< 0: no limit
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
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
