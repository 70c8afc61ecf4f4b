//===- ReferenceSettingsTest.cpp - Environment variables of the reference device --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Reference/ReferenceDevice.h"
#include "test/unit/Testing.h"

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::ScopedVariable;
using ::testing::HasSubstr;

namespace {

TEST(ReferenceSettings, AreReadFromTheEnvironment) {
  ScopedVariable memory("ITX_REFERENCE_MEMORY_BYTES", "123456"), delay("ITX_REFERENCE_DELAY_MICROSECONDS", "20"),
      seed("ITX_REFERENCE_SEED", "0"), fail("ITX_REFERENCE_FAIL", "memory:17"), queues("ITX_REFERENCE_QUEUES", "5");
  HostedSettings settings;
  Status status = readHostedSettings(referenceNames, settings);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(settings.memoryBytes, 123456u);
  EXPECT_EQ(settings.queues, 5u);
  EXPECT_EQ(settings.delayMicroseconds, 20u);
  EXPECT_EQ(settings.seed, 0u);
  EXPECT_EQ(settings.fault, Fault::OutOfMemory);
  EXPECT_EQ(settings.faultCommand, 17u);
  EXPECT_THAT(ReferenceDevice().info(), HasSubstr("\"memory_bytes\":123456"));
}

TEST(ReferenceSettings, EmptyVariablesAreNotSet) {
  ScopedVariable memory("ITX_REFERENCE_MEMORY_BYTES", ""), delay("ITX_REFERENCE_DELAY_MICROSECONDS", ""),
      seed("ITX_REFERENCE_SEED", ""), fail("ITX_REFERENCE_FAIL", "");
  HostedSettings settings;
  EXPECT_TRUE(readHostedSettings(referenceNames, settings).ok());
  EXPECT_EQ(settings.memoryBytes, 0u);
  EXPECT_EQ(settings.seed, 1u);
  EXPECT_EQ(settings.fault, Fault::None);
  EXPECT_GT(defaultHostedMemoryBytes(), 0u);
}

TEST(ReferenceSettings, InvalidOnesAreNamed) {
  auto check = [](const char *name, const char *value, const char *wanted) {
    ScopedVariable variable(name, value);
    ReferenceDevice device;
    void *address = nullptr;
    for (Status status : {device.checkEnvironment(), device.allocate(1, address)}) {
      EXPECT_EQ(status.code(), ITX_INVALID_ARGUMENT) << value;
      EXPECT_THAT(status.message(), HasSubstr(std::string("the environment variable ") + name + " is '" + value + "'"));
      EXPECT_THAT(status.message(), HasSubstr(wanted));
    }
  };
  for (const char *value : {"0", "-1", " 1", "1.5", "lots", "1e9", "99999999999999999999"})
    check("ITX_REFERENCE_MEMORY_BYTES", value, "a number from 1 to 1099511627776 is wanted");
  for (const char *value : {"-1", "1000001", "x"})
    check("ITX_REFERENCE_DELAY_MICROSECONDS", value, "a number from 0 to 1000000 is wanted");
  for (const char *value : {"0", "65"})
    check("ITX_REFERENCE_QUEUES", value, "a number from 1 to 64 is wanted");
  check("ITX_REFERENCE_SEED", "seed", "is wanted");
  for (const char *value : {"lost", "lost:", "lost:0", "lost:x", "memory:-1", "fire:1", "7"})
    check("ITX_REFERENCE_FAIL", value, "'lost:N' or 'memory:N' is wanted");
}

} // namespace
