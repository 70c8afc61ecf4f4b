//===- HipApi.h - The functions of the HIP runtime that are used ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HIP_HIPAPI_H
#define INTARSIA_RUNTIME_HIP_HIPAPI_H

#include "lib/Runtime/GPU/GpuApi.h"
#include "lib/Support/Status.h"

// The prototypes are the library's by name and number, so that no header of ROCm is needed;
// test/unit/Runtime/HIP/HipHeaderTest.cpp compares them with hip_runtime_api.h where there is one.
namespace intarsia::runtime::hip {

using namespace gpu;

/// Addresses of devices, and memory of the host that is read, which no function writes to.
using Address = void *;
using HostSource = void *;

/// hipDeviceAttribute_t, with the same numbers from HIP 5.2 on
enum Attribute : int {
  attributeMultiprocessorCount = 63,
  attributeMaxSharedMemoryPerBlock = 74,
  attributeWarpSize = 87,
  attributeMemoryPoolsSupported = 88,
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
  using Address = hip::Address;
  using AttributeNumber = Attribute;
  using Node = KernelNode;
  static constexpr Attribute poolsAttribute = attributeMemoryPoolsSupported;

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
