//===- HipDriverTest.cpp - What is made of the answers of the HIP runtime --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/HIP/HipDriver.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::runtime::hip;
using ::testing::HasSubstr;

TEST(HipArchitecture, CodeRunsOnItsArchitectureAndFamily) {
  auto rank = [](const char *code, const char *device) { return rankCode(GpuCodeKind::Hsaco, code, device); };
  EXPECT_EQ(rank("gfx942", "gfx942"), 0);
  EXPECT_EQ(rank("gfx9-4-generic", "gfx950"), 1);
  EXPECT_EQ(rank("gfx11-generic", "gfx1151"), 1);
  EXPECT_EQ(rank("gfx12-generic", "gfx1201"), 1);
  EXPECT_EQ(rank("gfx942", "gfx950"), std::nullopt);
  EXPECT_EQ(rank("gfx11-generic", "gfx1201"), std::nullopt);
  EXPECT_EQ(rank("gfx9-generic", "gfx942"), std::nullopt);
  EXPECT_EQ(rank("sm_80", "gfx942"), std::nullopt);
  EXPECT_EQ(rankCode(GpuCodeKind::Cubin, "gfx942", "gfx942"), std::nullopt);
}

namespace {

Result initResult = 0;
int current = 0, changes = 0;
const char *architectureName = "gfx942:sramecc+:xnack-";

/// Functions of a library with one device.
Api sampleApi() {
  Api api;
  api.init = [](unsigned) { return initResult; };
  api.runtimeVersion = [](int *version) { return *version = 60342134, 0; };
  api.deviceCount = [](int *count) { return *count = 1, 0; };
  api.deviceName = [](char *value, int, int) { return std::strcpy(value, "AMD Instinct MI300X"), 0; };
  api.deviceMemory = [](size_t *bytes, int) { return *bytes = 192 << 20, 0; };
  api.devicePciBus = [](char *value, int, int) { return std::strcpy(value, "0000:05:00.0"), 0; };
  api.deviceAttribute = [](int *value, Attribute wanted, int) {
    return *value = wanted == attributeWarpSize ? 64 : 65536, 0;
  };
  api.getDevice = [](int *device) { return *device = current, 0; };
  api.setDevice = [](int device) { return ++changes, current = device, 0; };
  api.errorName = [](Result result) { return result == 101 ? "hipErrorInvalidDevice" : nullptr; };
  api.errorText = [](Result) -> const char * { return nullptr; };
  return api;
}

} // namespace

TEST(HipDriver, ReadsTheArchitectureOfBothStructures) {
  Api five = sampleApi(), six = sampleApi();
  five.properties5 = [](void *structure, int) {
    return std::strcpy(static_cast<char *>(structure) + propertiesOf5.architectureName, architectureName), 0;
  };
  six.properties6 = [](void *structure, int) {
    return std::strcpy(static_cast<char *>(structure) + propertiesOf6.architectureName, architectureName), 0;
  };
  six.properties5 = five.properties5;
  for (const Api &api : {five, six}) {
    HipDriver driver(api);
    ASSERT_TRUE(driver.init().ok());
    GpuProperties properties;
    ASSERT_TRUE(driver.readProperties(0, properties).ok());
    EXPECT_EQ(properties.architecture, "gfx942");
    EXPECT_EQ(properties.name, "AMD Instinct MI300X");
    EXPECT_EQ(properties.warpThreads, 64);
    EXPECT_EQ(properties.sharedBytes, 65536u);
    EXPECT_EQ(driver.version(), "HIP 6.3.42134");
  }
}

TEST(HipDriver, GivesThreadsTheirDeviceBack) {
  HipDriver driver(sampleApi());
  current = 3;
  changes = 0;
  void *previous = nullptr;
  ASSERT_TRUE(driver.enter(1, previous).ok());
  EXPECT_EQ(current, 1);
  driver.leave(1, previous);
  EXPECT_EQ(current, 3);
  EXPECT_EQ(changes, 2);
  ASSERT_TRUE(driver.enter(3, previous).ok());
  driver.leave(3, previous);
  EXPECT_EQ(changes, 2) << "nothing was to be changed";
}

TEST(HipDriver, StartsOnlyWithDevices) {
  for (Result none : {errorNoDevice, errorInvalidDevice}) {
    initResult = none;
    Status status = HipDriver(sampleApi()).init();
    EXPECT_EQ(status.code(), ITX_NOT_FOUND);
    EXPECT_THAT(status.message(), HasSubstr("/dev/kfd"));
  }
  initResult = 999;
  Status status = HipDriver(sampleApi()).init();
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("does not start: an unknown error (999) at hipInit"));
  initResult = 0;
  EXPECT_EQ(failureOf(errorIllegalAddress), GpuFailure::Lost);
  EXPECT_EQ(failureOf(errorOutOfMemory), GpuFailure::OutOfMemory);
}
