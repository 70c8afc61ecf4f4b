//===- GpuApi.h - Types and numbers that the libraries of CUDA and HIP have in common ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUAPI_H
#define INTARSIA_RUNTIME_GPU_GPUAPI_H

#include "lib/Runtime/GPU/GpuDriver.h"

#include <cstddef>
#include <cstdint>

// HIP has taken over CUDA's numbers, so that they have one name here. The tests of each library's prototypes compare
// them with its header where there is one.
namespace intarsia::runtime::gpu {

/// The result of a function: 0, or the number of an error.
using Result = int;
/// Contexts, streams, events, modules, functions, pools: what they point to is the library's.
using Handle = void *;

/// CUresult, hipError_t, and what the runtime makes of them. After those that are Lost a context returns the same error
/// from every call.
#define INTARSIA_GPU_ERRORS(ERROR)                                                                                     \
  ERROR(errorInvalidValue, 1, Other)                                                                                   \
  ERROR(errorOutOfMemory, 2, OutOfMemory)                                                                              \
  ERROR(errorDeinitialized, 4, Lost)                                                                                   \
  ERROR(errorStubLibrary, 34, Other)                                                                                   \
  ERROR(errorNoDevice, 100, Other)                                                                                     \
  ERROR(errorInvalidDevice, 101, Other)                                                                                \
  ERROR(errorInvalidImage, 200, BadCode)                                                                               \
  ERROR(errorNoBinaryForGpu, 209, NoCode)                                                                              \
  ERROR(errorEccUncorrectable, 214, Lost)                                                                              \
  ERROR(errorInvalidPtx, 218, BadCode)                                                                                 \
  ERROR(errorNvlinkUncorrectable, 220, Lost)                                                                           \
  ERROR(errorJitCompilerNotFound, 221, NoCode)                                                                         \
  ERROR(errorUnsupportedPtxVersion, 222, OldDriver)                                                                    \
  ERROR(errorJitCompilationDisabled, 223, NoCode)                                                                      \
  ERROR(errorInvalidSource, 300, BadCode)                                                                              \
  ERROR(errorNotFound, 500, NotFound)                                                                                  \
  ERROR(errorNotReady, 600, NotReady)                                                                                  \
  ERROR(errorIllegalAddress, 700, Lost)                                                                                \
  ERROR(errorLaunchTimeout, 702, Lost)                                                                                 \
  ERROR(errorContextIsDestroyed, 709, Lost)                                                                            \
  ERROR(errorAssert, 710, Lost)                                                                                        \
  ERROR(errorHardwareStack, 714, Lost)                                                                                 \
  ERROR(errorIllegalInstruction, 715, Lost)                                                                            \
  ERROR(errorMisalignedAddress, 716, Lost)                                                                             \
  ERROR(errorInvalidAddressSpace, 717, Lost)                                                                           \
  ERROR(errorInvalidPc, 718, Lost)                                                                                     \
  ERROR(errorLaunchFailed, 719, Lost)                                                                                  \
  ERROR(errorNotSupported, 801, Unsupported)                                                                           \
  ERROR(errorMpsClientTerminated, 810, Lost)                                                                           \
  ERROR(errorExternalDevice, 911, Lost)
#define INTARSIA_GPU_ERROR(name, number, failure) name = number,
enum : Result { INTARSIA_GPU_ERRORS(INTARSIA_GPU_ERROR) };
#undef INTARSIA_GPU_ERROR

/// Returns what the runtime makes of an error.
inline GpuFailure failureOf(Result result) {
#define INTARSIA_GPU_ERROR(name, number, failure) {name, GpuFailure::failure},
  static constexpr struct {
    Result result;
    GpuFailure failure;
  } meanings[] = {{0, GpuFailure::None}, INTARSIA_GPU_ERRORS(INTARSIA_GPU_ERROR)};
#undef INTARSIA_GPU_ERROR
  for (const auto &meaning : meanings)
    if (meaning.result == result)
      return meaning.failure;
  return GpuFailure::Other;
}

/// CUmemPool_attribute, hipMemPoolAttr
enum PoolAttribute : int { poolReleaseThreshold = 4 };

/// CU_STREAM_NON_BLOCKING: the stream does not wait for the default stream, which other code of the process may use.
inline constexpr unsigned streamNonBlocking = 1;
/// CU_EVENT_DISABLE_TIMING
inline constexpr unsigned eventDisableTiming = 2;
/// CU_MEMHOSTALLOC_PORTABLE: pinned for all contexts.
inline constexpr unsigned hostPortable = 1;
/// CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int allocationPinned = 1, locationDevice = 1;

/// CUmemPoolProps, hipMemPoolProps; before HIP 6 the limit is among bytes that are reserved.
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

} // namespace intarsia::runtime::gpu

#endif
