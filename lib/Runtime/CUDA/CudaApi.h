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

/// What functions return: 0, or an error.
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

/// The functions: name here, symbol of the library, whether nothing works without it, arguments. Pools are of
/// CUDA 11.2.
#define INTARSIA_CUDA_FUNCTIONS(function)                                                                              \
  function(init, cuInit, true, (unsigned flags)) function(driverVersion, cuDriverGetVersion, true, (int *version))     \
      function(errorName, cuGetErrorName, true, (Result result, const char **name)) function(                          \
          errorText, cuGetErrorString, true,                                                                           \
          (Result result, const char **text)) function(deviceCount, cuDeviceGetCount, true,                            \
                                                       (int *count)) function(deviceOf, cuDeviceGet, true,             \
                                                                              (DeviceNumber * device, int ordinal))    \
          function(deviceName, cuDeviceGetName, true, (char *name, int bytes, DeviceNumber device)) function(          \
              deviceMemory, cuDeviceTotalMem_v2, true,                                                                 \
              (size_t *bytes, DeviceNumber device)) function(deviceAttribute, cuDeviceGetAttribute, true,              \
                                                             (int *value, Attribute attribute, DeviceNumber device))   \
              function(devicePciBus, cuDeviceGetPCIBusId, true,                                                        \
                       (char *name, int bytes,                                                                         \
                        DeviceNumber device)) function(retainContext, cuDevicePrimaryCtxRetain, true,                  \
                                                       (Handle * context, DeviceNumber device))                        \
                  function(pushContext, cuCtxPushCurrent_v2, true,                                                     \
                           (Handle context)) function(popContext, cuCtxPopCurrent_v2, true, (Handle * context))        \
                      function(createStream, cuStreamCreate, true, (Handle * stream, unsigned flags)) function(        \
                          createEvent,                                                                                 \
                          cuEventCreate, true,                                                                         \
                          (Handle * event,                                                                             \
                           unsigned flags)) function(destroyEvent, cuEventDestroy_v2, true, (Handle event))            \
                          function(recordEvent, cuEventRecord, true, (Handle event, Handle stream)) function(          \
                              streamWait,                                                                              \
                              cuStreamWaitEvent, true,                                                                 \
                              (Handle stream, Handle event,                                                            \
                               unsigned flags)) function(queryEvent, cuEventQuery, true, (Handle event))               \
                              function(synchronizeEvent, cuEventSynchronize, true, (Handle event)) function(           \
                                  elapsed, cuEventElapsedTime,                                                         \
                                  true,                                                                                \
                                  (                                                                                    \
                                      float *milliseconds,                                                             \
                                      Handle begin,                                                                    \
                                      Handle end)) function(createPool, cuMemPoolCreate, false,                        \
                                                            (Handle * pool, const PoolProperties *properties))         \
                                  function(setPoolAttribute, cuMemPoolSetAttribute, false,                             \
                                           (Handle pool, PoolAttribute attribute, void *value))                        \
                                      function(trimPool, cuMemPoolTrimTo, false, (Handle pool, size_t keptBytes))      \
                                          function(                                                                    \
                                              allocateFromPool, cuMemAllocFromPoolAsync,                               \
                                              false,                                                                   \
                                              (Address * address, size_t bytes, Handle pool,                           \
                                               Handle stream)) function(freeToPool, cuMemFreeAsync, false,             \
                                                                        (Address address, Handle stream))              \
                                              function(allocate, cuMemAlloc_v2, true,                                  \
                                                       (Address * address, size_t bytes))                              \
                                                  function(free, cuMemFree_v2, true, (Address address)) function(      \
                                                      memoryInfo,                                                      \
                                                      cuMemGetInfo_v2,                                                 \
                                                      true, (size_t *freeBytes, size_t *totalBytes))                   \
                                                      function(allocateHost, cuMemHostAlloc, true,                     \
                                                               (void **address, size_t bytes, unsigned flags))         \
                                                          function(                                                    \
                                                              copyToDevice, cuMemcpyHtoDAsync_v2, true,                \
                                                              (Address destination, const void *source, size_t bytes,  \
                                                               Handle stream))                                         \
                                                              function(                                                \
                                                                  copyToHost,                                          \
                                                                  cuMemcpyDtoHAsync_v2,                                \
                                                                  true,                                                \
                                                                  (void *destination, Address source, size_t bytes,    \
                                                                   Handle stream))                                     \
                                                                  function(                                            \
                                                                      copyOnDevice, cuMemcpyDtoDAsync_v2, true,        \
                                                                      (Address destination, Address source,            \
                                                                       size_t bytes,                                   \
                                                                       Handle stream))                                 \
                                                                      function(                                        \
                                                                          fill, cuMemsetD8Async,                       \
                                                                          true,                                        \
                                                                          (Address destination, unsigned char value,   \
                                                                           size_t bytes,                               \
                                                                           Handle stream))                             \
                                                                          function(                                    \
                                                                              launch,                                  \
                                                                              cuLaunchKernel,                          \
                                                                              true,                                    \
                                                                              (Handle function, unsigned blocksX,      \
                                                                               unsigned blocksY, unsigned blocksZ,     \
                                                                               unsigned threadsX,                      \
                                                                               unsigned threadsY,                      \
                                                                               unsigned threadsZ,                      \
                                                                               unsigned sharedBytes, Handle stream,    \
                                                                               void **arguments, void **extra))        \
                                                                              function(                                \
                                                                                  loadModule,                          \
                                                                                  cuModuleLoadDataEx, true,            \
                                                                                  (Handle * module, const void *image, \
                                                                                   unsigned optionCount,               \
                                                                                   JitOption                           \
                                                                                       *options,                       \
                                                                                   void **values))                     \
                                                                                  function(unloadModule,               \
                                                                                           cuModuleUnload, true,       \
                                                                                           (Handle module))            \
                                                                                      function(findFunction,           \
                                                                                               cuModuleGetFunction,    \
                                                                                               true,                   \
                                                                                               (Handle * function,     \
                                                                                                Handle                 \
                                                                                                    module,            \
                                                                                                const char *name))     \
                                                                                          function(                    \
                                                                                              setFunctionAttribute,    \
                                                                                              cuFuncSetAttribute,      \
                                                                                              true,                    \
                                                                                              (Handle function,        \
                                                                                               FunctionAttribute       \
                                                                                                   attribute,          \
                                                                                               int value))

/// The functions of a driver that was found.
struct Api {
#define INTARSIA_MEMBER(name, symbol, isRequired, arguments) Result(*name) arguments = nullptr;
  INTARSIA_CUDA_FUNCTIONS(INTARSIA_MEMBER)
#undef INTARSIA_MEMBER

  /// Finds the driver's library and its functions.
  static Status find(Api &api);
};

/// The symbols of the functions, by their names here, for messages.
struct Symbols {
#define INTARSIA_SYMBOL(name, symbol, isRequired, arguments) static constexpr const char *name = #symbol;
  INTARSIA_CUDA_FUNCTIONS(INTARSIA_SYMBOL)
#undef INTARSIA_SYMBOL
};

} // namespace intarsia::runtime::cuda

#endif
