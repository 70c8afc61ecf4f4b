//===- CpuFeaturesTest.cpp - The runtime's tables of processors against LLVM's --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/CpuFeatures.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/TargetParser/Host.h"
#include "gtest/gtest.h"
#include <algorithm>

using namespace intarsia;

TEST(CpuFeatures, AreThoseThatLlvmFinds) {
  llvm::StringMap<bool> expected = llvm::sys::getHostCPUFeatures();
  const std::vector<std::string> &features = hostFeatures();
  static const char *const names[] = {
#define X86_FEATURE(name, ...) name,
#define X86_TILE_FEATURE(name, ...) name,
#define AARCH64_FEATURE(name, ...) name,
#include "lib/Support/CpuFeatures.def"
  };
  for (const char *name : names)
    EXPECT_EQ(std::count(features.begin(), features.end(), name) == 1, expected.lookup(name)) << name;
}

TEST(CpuFeatures, ProcessorNameIsLlvms) {
  if (hostProcessorName().empty())
    GTEST_SKIP() << "this processor (" << hostDescription() << ") is not in the table";
  EXPECT_EQ(hostProcessorName(), llvm::sys::getHostCPUName().str());
}

TEST(CpuFeatures, ProcessorNames) {
  // CPUID of processors that are documented: AMD 57254 (Zen 5), 55898 (Zen 3), Intel SDM volume 4, table 2-1.
  EXPECT_EQ(x86ProcessorName("AuthenticAMD", 0x1a, 0x02, {}), "znver5");
  EXPECT_EQ(x86ProcessorName("AuthenticAMD", 0x19, 0x01, {}), "znver3");
  EXPECT_EQ(x86ProcessorName("AuthenticAMD", 0x19, 0x11, {}), "znver4");
  EXPECT_EQ(x86ProcessorName("GenuineIntel", 6, 0x8f, {}), "sapphirerapids");
  EXPECT_EQ(x86ProcessorName("GenuineIntel", 6, 0x55, {"avx512f"}), "skylake-avx512");
  EXPECT_EQ(x86ProcessorName("GenuineIntel", 6, 0x55, {"avx512f", "avx512vnni"}), "cascadelake");
  EXPECT_EQ(x86ProcessorName("GenuineIntel", 6, 0x55, {"avx512vnni", "avx512bf16"}), "cooperlake");
  EXPECT_EQ(x86ProcessorName("GenuineIntel", 6, 0xff, {}), "");
  EXPECT_EQ(x86ProcessorName("GenuineIntel", 0x1a, 0x02, {}), "");
  EXPECT_EQ(armProcessorName(0x41, 0xd40), "neoverse-v1");
  EXPECT_EQ(armProcessorName(0x41, 0xfff), "");
}
