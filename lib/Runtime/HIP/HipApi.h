//===- HipApi.h - The functions of the HIP runtime that are used ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HIP_HIPAPI_H
#define INTARSIA_RUNTIME_HIP_HIPAPI_H

#include "lib/Support/Status.h"

#include <cstddef>
#include <cstdint>

// The prototypes are the library's by name and number, so that no header of ROCm is needed;
// test/unit/Runtime/HIP/HipHeaderTest.cpp compares them with hip_runtime_api.h where there is one.
namespace intarsia::runtime::hip {

/// The result of a function: 0, or the number of an error.
using Result = int;
/// hipStream_t, hipEvent_t, hipModule_t, hipFunction_t, hipMemPool_t: what they point to is the library's.
using Handle = void *;

/// hipError_t
enum : Result {
  errorInvalidValue = 1,
  errorOutOfMemory = 2,
  errorDeinitialized = 4,
  errorNoDevice = 100,
  errorInvalidDevice = 101,
  errorInvalidImage = 200,
  errorNoBinaryForGpu = 209,
  errorEccNotCorrectable = 214,
  errorInvalidKernelFile = 218,
  errorNotFound = 500,
  errorNotReady = 600,
  errorIllegalAddress = 700,
  errorLaunchTimeOut = 702,
  errorContextIsDestroyed = 709,
  errorAssert = 710,
  errorLaunchFailure = 719,
  errorNotSupported = 801,
};

/// hipDeviceAttribute_t, with the same numbers from HIP 5.2 on
enum Attribute : int {
  attributeMultiprocessorCount = 63,
  attributeMaxSharedMemoryPerBlock = 74,
  attributeWarpSize = 87,
  attributeMemoryPoolsSupported = 88,
};

/// hipMemPoolAttr
enum PoolAttribute : int { poolReleaseThreshold = 4 };

/// hipStreamNonBlocking: the stream does not wait for the default stream, which other code of the process may use.
inline constexpr unsigned streamNonBlocking = 1;
/// hipEventDisableTiming
inline constexpr unsigned eventDisableTiming = 2;
/// hipHostMallocPortable: pinned for all devices.
inline constexpr unsigned hostPortable = 1;
/// hipMemAllocationTypePinned, hipMemLocationTypeDevice
inline constexpr int allocationPinned = 1, locationDevice = 1;

/// hipMemPoolProps; HIP 6 has a limit in its first reserved bytes, where 0 is none.
struct PoolProperties {
  int allocationType = allocationPinned;
  int handleTypes = 0;
  int locationType = locationDevice;
  int location = 0;
  void *securityAttributes = nullptr;
  unsigned char reserved[64] = {};
};

/// The name of the architecture inside hipDeviceProp_t. Nothing else in the library says it. HIP 6 changed the
/// structure, and the name of the function that fills it.
struct PropertiesLayout {
  size_t bytes;            ///< of the structure
  size_t architectureName; ///< where it begins; 256 bytes with a zero at their end
};
inline constexpr PropertiesLayout propertiesOf5 = {792, 396}, propertiesOf6 = {1472, 1160};

/// hipKernelNodeParams
struct KernelNode {
  unsigned threads[3] = {};
  void **extra = nullptr;
  void *function = nullptr;
  unsigned blocks[3] = {};
  void **arguments = nullptr;
  unsigned sharedBytes = 0;
};

/// The functions of a library that was found.
struct Api {
#define INTARSIA_HIP_FUNCTION(name, symbol, isRequired, arguments) Result(*name) arguments = nullptr;
#include "lib/Runtime/HIP/HipFunctions.def"
  const char *(*errorName)(Result result) = nullptr; ///< hipGetErrorName
  const char *(*errorText)(Result result) = nullptr; ///< hipGetErrorString

  /// Finds the library and its functions.
  static Status find(Api &api);
};

/// The symbols of the functions, by their names here, for messages.
struct Symbols {
#define INTARSIA_HIP_FUNCTION(name, symbol, isRequired, arguments) static constexpr const char *name = #symbol;
#include "lib/Runtime/HIP/HipFunctions.def"
};

} // namespace intarsia::runtime::hip

#endif
