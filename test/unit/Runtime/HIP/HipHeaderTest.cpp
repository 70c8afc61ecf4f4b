//===- HipHeaderTest.cpp - Our prototypes of the HIP runtime are those of ROCm ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
// The compiler compares; a difference is an error at the line that names the function or the number.
#include "lib/Runtime/HIP/HipApi.h"
#include "test/unit/Runtime/GPU/ComparePrototypes.h"

#include "gtest/gtest.h"
#include <cstddef>
#ifdef INTARSIA_HIP_HEADER
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1
#include INTARSIA_HIP_HEADER
#endif

using namespace intarsia::runtime::hip;

#ifdef INTARSIA_HIP_HEADER

#if HIP_VERSION_MAJOR >= 6
#define INTARSIA_PROPERTIES propertiesOf6
#else
#define INTARSIA_PROPERTIES propertiesOf5
// It has a new name from HIP 6 on.
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_t *properties, int device);
#endif

// The one of several overloads that the library exports.
static constexpr hipError_t (*allocateFromPool)(void **, size_t, hipMemPool_t, hipStream_t) = &hipMallocFromPoolAsync;
#define hipMallocFromPoolAsync allocateFromPool

#define INTARSIA_HIP_FUNCTION(name, symbol, isRequired, arguments)                                                     \
  static_assert(intarsia::testing::Prototypes<decltype(Api::name), decltype(&*::symbol)>::isSame(), #symbol);
#include "lib/Runtime/HIP/HipFunctions.def"
static_assert(
    intarsia::testing::isSameToCallers<decltype(Api::errorName(0)), decltype(::hipGetErrorName(hipSuccess))>());
static_assert(
    intarsia::testing::isSameToCallers<decltype(Api::errorText(0)), decltype(::hipGetErrorString(hipSuccess))>());

static_assert(int(intarsia::runtime::hip::errorInvalidValue) == int(hipErrorInvalidValue));
static_assert(int(intarsia::runtime::hip::errorOutOfMemory) == int(hipErrorOutOfMemory));
static_assert(int(intarsia::runtime::hip::errorDeinitialized) == int(hipErrorDeinitialized));
static_assert(int(intarsia::runtime::hip::errorNoDevice) == int(hipErrorNoDevice));
static_assert(int(intarsia::runtime::hip::errorInvalidDevice) == int(hipErrorInvalidDevice));
static_assert(int(intarsia::runtime::hip::errorInvalidImage) == int(hipErrorInvalidImage));
static_assert(int(intarsia::runtime::hip::errorNoBinaryForGpu) == int(hipErrorNoBinaryForGpu));
static_assert(int(intarsia::runtime::hip::errorEccUncorrectable) == int(hipErrorECCNotCorrectable));
static_assert(int(intarsia::runtime::hip::errorInvalidPtx) == int(hipErrorInvalidKernelFile));
static_assert(int(intarsia::runtime::hip::errorNotFound) == int(hipErrorNotFound));
static_assert(int(intarsia::runtime::hip::errorNotReady) == int(hipErrorNotReady));
static_assert(int(intarsia::runtime::hip::errorIllegalAddress) == int(hipErrorIllegalAddress));
static_assert(int(intarsia::runtime::hip::errorLaunchTimeout) == int(hipErrorLaunchTimeOut));
static_assert(int(intarsia::runtime::hip::errorContextIsDestroyed) == int(hipErrorContextIsDestroyed));
static_assert(int(intarsia::runtime::hip::errorAssert) == int(hipErrorAssert));
static_assert(int(intarsia::runtime::hip::errorLaunchFailed) == int(hipErrorLaunchFailure));
static_assert(int(intarsia::runtime::hip::errorNotSupported) == int(hipErrorNotSupported));
static_assert(int(intarsia::runtime::hip::attributeMultiprocessorCount) == int(hipDeviceAttributeMultiprocessorCount));
static_assert(int(intarsia::runtime::hip::attributeMaxSharedMemoryPerBlock) ==
              int(hipDeviceAttributeMaxSharedMemoryPerBlock));
static_assert(int(intarsia::runtime::hip::attributeWarpSize) == int(hipDeviceAttributeWarpSize));
static_assert(int(intarsia::runtime::hip::attributeMemoryPoolsSupported) ==
              int(hipDeviceAttributeMemoryPoolsSupported));
static_assert(int(intarsia::runtime::hip::poolReleaseThreshold) == int(hipMemPoolAttrReleaseThreshold));
static_assert(int(intarsia::runtime::hip::streamNonBlocking) == int(hipStreamNonBlocking));
static_assert(int(intarsia::runtime::hip::eventDisableTiming) == int(hipEventDisableTiming));
static_assert(int(intarsia::runtime::hip::hostPortable) == int(hipHostMallocPortable));
static_assert(int(intarsia::runtime::hip::allocationPinned) == int(hipMemAllocationTypePinned));
static_assert(int(intarsia::runtime::hip::locationDevice) == int(hipMemLocationTypeDevice));

static_assert(sizeof(hipDeviceProp_t) == INTARSIA_PROPERTIES.bytes);
static_assert(offsetof(hipDeviceProp_t, gcnArchName) == INTARSIA_PROPERTIES.architectureName);
static_assert(sizeof(hipDeviceProp_t::gcnArchName) == 256);
static_assert(sizeof(PoolProperties) == sizeof(hipMemPoolProps));
static_assert(offsetof(PoolProperties, allocationType) == offsetof(hipMemPoolProps, allocType));
static_assert(offsetof(PoolProperties, handleTypes) == offsetof(hipMemPoolProps, handleTypes));
static_assert(offsetof(PoolProperties, locationType) == offsetof(hipMemPoolProps, location.type));
static_assert(offsetof(PoolProperties, location) == offsetof(hipMemPoolProps, location.id));
static_assert(sizeof(KernelNode) == sizeof(hipKernelNodeParams));
static_assert(offsetof(KernelNode, threads) == offsetof(hipKernelNodeParams, blockDim));
static_assert(offsetof(KernelNode, extra) == offsetof(hipKernelNodeParams, extra));
static_assert(offsetof(KernelNode, function) == offsetof(hipKernelNodeParams, func));
static_assert(offsetof(KernelNode, blocks) == offsetof(hipKernelNodeParams, gridDim));
static_assert(offsetof(KernelNode, arguments) == offsetof(hipKernelNodeParams, kernelParams));
static_assert(offsetof(KernelNode, sharedBytes) == offsetof(hipKernelNodeParams, sharedMemBytes));

TEST(HipHeader, HasOurPrototypes) { EXPECT_GE(HIP_VERSION, 50200000) << "older headers have no pools"; }

#else

TEST(HipHeader, HasOurPrototypes) {
  GTEST_SKIP() << "hip/hip_runtime_api.h (Debian's libamdhip64-dev) was not found when this was configured";
}

#endif
