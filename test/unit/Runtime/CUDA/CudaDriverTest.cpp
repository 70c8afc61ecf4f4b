//===- CudaDriverTest.cpp - What is made of the answers of the CUDA driver -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CUDA/CudaDriver.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::runtime::cuda;
using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- Which code runs where ------------------------------------------------------------------------------------

TEST(CudaArchitecture, MachineCodeRunsInItsFamily) {
  auto rank = [](const char *code, const char *device) { return rankCode(GpuCodeKind::Cubin, code, device); };
  EXPECT_EQ(rank("sm_80", "sm_80"), 0);
  EXPECT_EQ(rank("sm_90a", "sm_90"), 0);
  EXPECT_EQ(rank("sm_100f", "sm_100"), 0);
  EXPECT_EQ(rank("sm_80", "sm_86"), 1);
  EXPECT_EQ(rank("sm_80", "sm_89"), 1);
  EXPECT_EQ(rank("sm_100f", "sm_103"), 1);
  EXPECT_EQ(rank("sm_120", "sm_121"), 1);
  EXPECT_EQ(rank("sm_86", "sm_80"), std::nullopt) << "the device is older";
  EXPECT_EQ(rank("sm_80", "sm_90"), std::nullopt) << "another family";
  EXPECT_EQ(rank("sm_100a", "sm_103"), std::nullopt) << "for one architecture alone";
  EXPECT_EQ(rank("sm_100f", "sm_120"), std::nullopt);
  EXPECT_EQ(rank("sm_86", "sm_87"), std::nullopt) << "a system on a chip";
  EXPECT_EQ(rank("sm_87", "sm_87"), 0);
}

TEST(CudaArchitecture, PtxRunsOnAllThatFollow) {
  auto rank = [](const char *code, const char *device) { return rankCode(GpuCodeKind::Ptx, code, device); };
  for (const char *device : {"sm_80", "sm_86", "sm_90", "sm_100", "sm_120"})
    EXPECT_EQ(rank("sm_80", device), 2) << device;
  EXPECT_EQ(rank("sm_80", "sm_75"), std::nullopt);
  EXPECT_EQ(rank("sm_90a", "sm_90"), 2);
  EXPECT_EQ(rank("sm_90a", "sm_100"), std::nullopt) << "for one architecture alone";
  EXPECT_EQ(rank("sm_100f", "sm_103"), 2);
  EXPECT_EQ(rank("sm_100f", "sm_120"), std::nullopt);
}

TEST(CudaArchitecture, OtherNamesAreNotTaken) {
  for (const char *name :
       {"", "sm_", "sm_8", "sm_80b", "sm_80aa", "sm_8x", "sm_80 ", "sm_12345", "compute_80", "gfx942"}) {
    EXPECT_EQ(rankCode(GpuCodeKind::Cubin, name, "sm_80"), std::nullopt) << name;
    EXPECT_EQ(rankCode(GpuCodeKind::Ptx, name, "sm_120"), std::nullopt) << name;
  }
  EXPECT_EQ(rankCode(GpuCodeKind::Hsaco, "sm_80", "sm_80"), std::nullopt);
  EXPECT_EQ(rankCode(GpuCodeKind::Host, "sm_80", "sm_80"), std::nullopt);
}

TEST(CudaArchitecture, DriversHaveVersionsOfPtx) {
  EXPECT_EQ(newestPtx(12020), "8.2");
  EXPECT_EQ(newestPtx(12060), "8.5");
  EXPECT_EQ(newestPtx(99990), "") << "not known yet";
}

// ---- Answers --------------------------------------------------------------------------------------------------

namespace {

Result initResult = 0;
int deviceCount = 1;
Result version(int *value) { return *value = 12040, 0; }
Result name(Result result, const char **text) {
  *text = result == errorOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : nullptr;
  return *text ? 0 : errorInvalidValue;
}
Result text(Result, const char **value) { return *value = "out of memory", 0; }
Result attribute(int *value, Attribute wanted, DeviceNumber) {
  *value = wanted == attributeComputeCapabilityMajor         ? 9
           : wanted == attributeMaxSharedMemoryPerBlock      ? 49152
           : wanted == attributeMaxSharedMemoryPerBlockOptin ? 232448
                                                             : 0;
  return 0;
}
Result load(Handle *, const void *, unsigned count, JitOption *options, void **values) {
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == jitErrorLogBuffer)
      std::strcpy(static_cast<char *>(values[i]), "ptxas fatal: line 3");
  return errorInvalidPtx;
}

/// Functions of a driver with one device of compute capability 9.0, of which some do nothing.
Api sampleApi() {
  Api api;
  api.init = [](unsigned) { return initResult; };
  api.driverVersion = version;
  api.errorName = name;
  api.errorText = text;
  api.deviceCount = [](int *count) { return *count = deviceCount, 0; };
  api.deviceOf = [](DeviceNumber *device, int ordinal) { return *device = ordinal, 0; };
  api.deviceName = [](char *value, int, DeviceNumber) { return std::strcpy(value, "NVIDIA H200"), 0; };
  api.deviceMemory = [](size_t *bytes, DeviceNumber) { return *bytes = 141 << 20, 0; };
  api.deviceAttribute = attribute;
  api.devicePciBus = [](char *value, int, DeviceNumber) { return std::strcpy(value, "0000:1b:00.0"), 0; };
  api.loadModule = load;
  return api;
}

} // namespace

TEST(CudaDriver, StartsOnlyWithDevices) {
  struct {
    Result init;
    int devices;
    itx_status status;
    const char *message;
  } cases[] = {{0, 1, ITX_OK, ""},
               {0, 0, ITX_NOT_FOUND, "sees no GPU"},
               {errorNoDevice, 1, ITX_NOT_FOUND, "CUDA_VISIBLE_DEVICES"},
               {errorStubLibrary, 1, ITX_NOT_FOUND, "the toolkit's, for linking"},
               {803, 1, ITX_UNSUPPORTED, "does not start: an unknown error (803) at cuInit"}};
  for (const auto &one : cases) {
    initResult = one.init;
    deviceCount = one.devices;
    CudaDriver driver(sampleApi());
    Status status = driver.init();
    EXPECT_EQ(status.code(), one.status) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(one.message));
  }
  initResult = 0;
  deviceCount = 1;
}

TEST(CudaDriver, ReadsProperties) {
  CudaDriver driver(sampleApi());
  ASSERT_TRUE(driver.init().ok());
  GpuProperties properties;
  ASSERT_TRUE(driver.readProperties(0, properties).ok());
  EXPECT_EQ(properties.name, "NVIDIA H200");
  EXPECT_EQ(properties.architecture, "sm_90");
  EXPECT_EQ(properties.sharedBytes, 232448u);
  EXPECT_EQ(properties.defaultSharedBytes, 49152u);
  EXPECT_EQ(properties.pciBus, "0000:1b:00.0");
  EXPECT_EQ(driver.version(), "CUDA 12.4");
  EXPECT_EQ(driver.ptxVersion(), "8.4");
}

TEST(CudaDriver, DescribesTensors) {
  // Arguments of cuTensorMapEncodeTiled() of the CUDA driver API: the dimension of neighbouring elements first, strides
  // of the others in bytes.
  static std::vector<uint64_t> seen;
  Api api = sampleApi();
  api.encodeTensorMap = [](TensorMap *map, TensorElement element, unsigned rank, void *address, const uint64_t *extents,
                           const uint64_t *strides, const unsigned *box, const unsigned *elementStrides,
                           TensorInterleave interleave, TensorSwizzle swizzle, TensorPromotion, TensorFill fill) {
    seen = {uint64_t(element),
            rank,
            reinterpret_cast<uintptr_t>(address),
            extents[0],
            extents[1],
            strides[0],
            box[0],
            box[1],
            elementStrides[0],
            elementStrides[1],
            uint64_t(swizzle),
            reinterpret_cast<uintptr_t>(map) % 64,
            uint64_t(interleave),
            uint64_t(fill)};
    *map = {{7, 8}};
    return 0;
  };
  CudaDriver driver(api);
  GpuTensorDescriptor descriptor;
  ASSERT_TRUE(driver.describeTensor(reinterpret_cast<void *>(0x7000), {300, 768, 2, 128, 64, 128}, descriptor).ok());
  EXPECT_EQ(seen, (std::vector<uint64_t>{1, 2, 0x7000, 768, 300, 1536, 64, 128, 1, 1, 3, 0, 0, 0}));
  EXPECT_EQ(descriptor[0], 7u);
  EXPECT_EQ(descriptor[1], 8u);
  ASSERT_TRUE(driver.describeTensor(reinterpret_cast<void *>(0x7000), {3, 64, 1, 8, 32, 32}, descriptor).ok());
  EXPECT_EQ(seen, (std::vector<uint64_t>{0, 2, 0x7000, 64, 3, 64, 32, 8, 1, 1, 1, 0, 0, 0}));
  GpuResult result = CudaDriver(sampleApi()).describeTensor(nullptr, {3, 64, 1, 8, 32, 32}, descriptor);
  EXPECT_EQ(result.failure, GpuFailure::Unsupported) << "a driver before CUDA 12.0";
  EXPECT_STREQ(result.call, "cuTensorMapEncodeTiled");
}

TEST(CudaDriver, ExplainsErrors) {
  CudaDriver driver(sampleApi());
  EXPECT_EQ(driver.explain({GpuFailure::OutOfMemory, errorOutOfMemory, "cuMemAlloc_v2"}),
            "CUDA_ERROR_OUT_OF_MEMORY (2) at cuMemAlloc_v2: out of memory");
  void *module = nullptr, *pool = nullptr;
  std::string log;
  GpuResult result = driver.loadModule("damaged", log, module);
  EXPECT_EQ(result.failure, GpuFailure::BadCode);
  EXPECT_STREQ(result.call, "cuModuleLoadDataEx");
  EXPECT_EQ(log, "ptxas fatal: line 3");
  EXPECT_EQ(driver.createPool(0, pool).failure, GpuFailure::Unsupported) << "the driver has no such functions";
  EXPECT_EQ(failureOf(errorIllegalAddress), GpuFailure::Lost);
  EXPECT_EQ(failureOf(errorNotReady), GpuFailure::NotReady);
  EXPECT_EQ(failureOf(errorUnsupportedPtxVersion), GpuFailure::OldDriver);
  EXPECT_EQ(failureOf(errorInvalidValue), GpuFailure::Other);
}
