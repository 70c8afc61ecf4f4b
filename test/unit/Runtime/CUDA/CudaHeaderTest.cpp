//===- CudaHeaderTest.cpp - Our prototypes of the CUDA driver are those of cuda.h ------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
// The compiler compares; a difference is an error at the line that names the function or the number.
#include "lib/Runtime/CUDA/CudaApi.h"
#include "test/unit/Runtime/GPU/ComparePrototypes.h"

#include "gtest/gtest.h"
#include <cstddef>
#include <dlfcn.h>
#ifdef INTARSIA_CUDA_HEADER
#include INTARSIA_CUDA_HEADER
#endif

using namespace intarsia::runtime::cuda;

#ifdef INTARSIA_CUDA_HEADER

#define INTARSIA_CUDA_FUNCTION(name, symbol, isRequired, arguments)                                                    \
  static_assert(intarsia::testing::Prototypes<decltype(Api::name), decltype(&*::symbol)>::isSame(), #symbol);
#include "lib/Runtime/CUDA/CudaFunctions.def"

static_assert(int(intarsia::runtime::cuda::errorInvalidValue) == int(CUDA_ERROR_INVALID_VALUE));
static_assert(int(intarsia::runtime::cuda::errorOutOfMemory) == int(CUDA_ERROR_OUT_OF_MEMORY));
static_assert(int(intarsia::runtime::cuda::errorDeinitialized) == int(CUDA_ERROR_DEINITIALIZED));
static_assert(int(intarsia::runtime::cuda::errorStubLibrary) == int(CUDA_ERROR_STUB_LIBRARY));
static_assert(int(intarsia::runtime::cuda::errorNoDevice) == int(CUDA_ERROR_NO_DEVICE));
static_assert(int(intarsia::runtime::cuda::errorInvalidImage) == int(CUDA_ERROR_INVALID_IMAGE));
static_assert(int(intarsia::runtime::cuda::errorNoBinaryForGpu) == int(CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(int(intarsia::runtime::cuda::errorEccUncorrectable) == int(CUDA_ERROR_ECC_UNCORRECTABLE));
static_assert(int(intarsia::runtime::cuda::errorInvalidPtx) == int(CUDA_ERROR_INVALID_PTX));
static_assert(int(intarsia::runtime::cuda::errorNvlinkUncorrectable) == int(CUDA_ERROR_NVLINK_UNCORRECTABLE));
static_assert(int(intarsia::runtime::cuda::errorJitCompilerNotFound) == int(CUDA_ERROR_JIT_COMPILER_NOT_FOUND));
static_assert(int(intarsia::runtime::cuda::errorUnsupportedPtxVersion) == int(CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(int(intarsia::runtime::cuda::errorJitCompilationDisabled) == int(CUDA_ERROR_JIT_COMPILATION_DISABLED));
static_assert(int(intarsia::runtime::cuda::errorInvalidSource) == int(CUDA_ERROR_INVALID_SOURCE));
static_assert(int(intarsia::runtime::cuda::errorNotFound) == int(CUDA_ERROR_NOT_FOUND));
static_assert(int(intarsia::runtime::cuda::errorNotReady) == int(CUDA_ERROR_NOT_READY));
static_assert(int(intarsia::runtime::cuda::errorIllegalAddress) == int(CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(int(intarsia::runtime::cuda::errorLaunchTimeout) == int(CUDA_ERROR_LAUNCH_TIMEOUT));
static_assert(int(intarsia::runtime::cuda::errorContextIsDestroyed) == int(CUDA_ERROR_CONTEXT_IS_DESTROYED));
static_assert(int(intarsia::runtime::cuda::errorAssert) == int(CUDA_ERROR_ASSERT));
static_assert(int(intarsia::runtime::cuda::errorHardwareStack) == int(CUDA_ERROR_HARDWARE_STACK_ERROR));
static_assert(int(intarsia::runtime::cuda::errorIllegalInstruction) == int(CUDA_ERROR_ILLEGAL_INSTRUCTION));
static_assert(int(intarsia::runtime::cuda::errorMisalignedAddress) == int(CUDA_ERROR_MISALIGNED_ADDRESS));
static_assert(int(intarsia::runtime::cuda::errorInvalidAddressSpace) == int(CUDA_ERROR_INVALID_ADDRESS_SPACE));
static_assert(int(intarsia::runtime::cuda::errorInvalidPc) == int(CUDA_ERROR_INVALID_PC));
static_assert(int(intarsia::runtime::cuda::errorLaunchFailed) == int(CUDA_ERROR_LAUNCH_FAILED));
static_assert(int(intarsia::runtime::cuda::errorNotSupported) == int(CUDA_ERROR_NOT_SUPPORTED));
static_assert(int(intarsia::runtime::cuda::errorMpsClientTerminated) == int(CUDA_ERROR_MPS_CLIENT_TERMINATED));
static_assert(int(intarsia::runtime::cuda::errorExternalDevice) == int(CUDA_ERROR_EXTERNAL_DEVICE));
static_assert(int(intarsia::runtime::cuda::attributeMaxSharedMemoryPerBlock) ==
              int(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
static_assert(int(intarsia::runtime::cuda::attributeWarpSize) == int(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
static_assert(int(intarsia::runtime::cuda::attributeMultiprocessorCount) ==
              int(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(int(intarsia::runtime::cuda::attributeComputeCapabilityMajor) ==
              int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(int(intarsia::runtime::cuda::attributeComputeCapabilityMinor) ==
              int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(int(intarsia::runtime::cuda::attributeMaxSharedMemoryPerBlockOptin) ==
              int(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
static_assert(int(intarsia::runtime::cuda::attributeMemoryPoolsSupported) ==
              int(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));
static_assert(int(intarsia::runtime::cuda::functionMaxDynamicSharedBytes) ==
              int(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(int(intarsia::runtime::cuda::jitInfoLogBuffer) == int(CU_JIT_INFO_LOG_BUFFER));
static_assert(int(intarsia::runtime::cuda::jitInfoLogBufferBytes) == int(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES));
static_assert(int(intarsia::runtime::cuda::jitErrorLogBuffer) == int(CU_JIT_ERROR_LOG_BUFFER));
static_assert(int(intarsia::runtime::cuda::jitErrorLogBufferBytes) == int(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES));
static_assert(int(intarsia::runtime::cuda::poolReleaseThreshold) == int(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
static_assert(int(intarsia::runtime::cuda::streamNonBlocking) == int(CU_STREAM_NON_BLOCKING));
static_assert(int(intarsia::runtime::cuda::eventDisableTiming) == int(CU_EVENT_DISABLE_TIMING));
static_assert(int(intarsia::runtime::cuda::hostPortable) == int(CU_MEMHOSTALLOC_PORTABLE));
static_assert(int(intarsia::runtime::cuda::allocationPinned) == int(CU_MEM_ALLOCATION_TYPE_PINNED));
static_assert(int(intarsia::runtime::cuda::locationDevice) == int(CU_MEM_LOCATION_TYPE_DEVICE));

static_assert(sizeof(PoolProperties) == sizeof(CUmemPoolProps));
static_assert(offsetof(PoolProperties, allocationType) == offsetof(CUmemPoolProps, allocType));
static_assert(offsetof(PoolProperties, handleTypes) == offsetof(CUmemPoolProps, handleTypes));
static_assert(offsetof(PoolProperties, locationType) == offsetof(CUmemPoolProps, location.type));
static_assert(offsetof(PoolProperties, location) == offsetof(CUmemPoolProps, location.id));
static_assert(offsetof(PoolProperties, largestBytes) == offsetof(CUmemPoolProps, maxSize));
static_assert(int(intarsia::runtime::cuda::tensorUint8) == int(CU_TENSOR_MAP_DATA_TYPE_UINT8));
static_assert(int(intarsia::runtime::cuda::tensorUint16) == int(CU_TENSOR_MAP_DATA_TYPE_UINT16));
static_assert(int(intarsia::runtime::cuda::tensorUint32) == int(CU_TENSOR_MAP_DATA_TYPE_UINT32));
static_assert(int(intarsia::runtime::cuda::tensorNotInterleaved) == int(CU_TENSOR_MAP_INTERLEAVE_NONE));
static_assert(int(intarsia::runtime::cuda::tensorSwizzle32) == int(CU_TENSOR_MAP_SWIZZLE_32B));
static_assert(int(intarsia::runtime::cuda::tensorSwizzle64) == int(CU_TENSOR_MAP_SWIZZLE_64B));
static_assert(int(intarsia::runtime::cuda::tensorSwizzle128) == int(CU_TENSOR_MAP_SWIZZLE_128B));
static_assert(int(intarsia::runtime::cuda::tensorPromotion256) == int(CU_TENSOR_MAP_L2_PROMOTION_L2_256B));
static_assert(int(intarsia::runtime::cuda::tensorFillZeros) == int(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
// Headers before CUDA 13 ask for half of the alignment.
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
static_assert(sizeof(KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(offsetof(KernelNode, function) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, func));
static_assert(offsetof(KernelNode, blocks) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX));
static_assert(offsetof(KernelNode, threads) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX));
static_assert(offsetof(KernelNode, sharedBytes) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes));
static_assert(offsetof(KernelNode, arguments) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kernelParams));
static_assert(offsetof(KernelNode, extra) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, extra));
static_assert(offsetof(KernelNode, kernel) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern));
static_assert(offsetof(KernelNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ctx));

TEST(CudaHeader, HasOurPrototypes) { EXPECT_GE(CUDA_VERSION, 12000) << "older headers have no such graphs"; }

#else

TEST(CudaHeader, HasOurPrototypes) {
  GTEST_SKIP() << "cuda.h of the CUDA toolkit was not found when this was configured";
}

#endif

TEST(CudaHeader, LibraryHasOurSymbols) {
#ifdef INTARSIA_CUDA_STUB
  void *stub = dlopen(INTARSIA_CUDA_STUB, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(stub, nullptr) << dlerror();
#define INTARSIA_CUDA_FUNCTION(name, symbol, isRequired, arguments) EXPECT_NE(dlsym(stub, #symbol), nullptr) << #symbol;
#include "lib/Runtime/CUDA/CudaFunctions.def"
#else
  GTEST_SKIP() << "the toolkit's libcuda.so for linking was not found when this was configured";
#endif
}
