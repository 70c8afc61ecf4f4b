//===- CompareResultsTest.cpp - Which results are equal enough -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/CompareResults.h"

#include "gtest/gtest.h"
#include <cmath>
#include <limits>
#include <vector>

using namespace intarsia::runtime;

namespace {

template <typename T>
ResultComparison compare(std::optional<itx_dtype> dtype, const std::vector<T> &computed, const std::vector<T> &expected,
                         double tolerance = 0.001, const std::vector<T> &before = {}) {
  EXPECT_EQ(computed.size(), expected.size());
  EXPECT_TRUE(before.empty() || before.size() == computed.size());
  return compareResults(
      dtype, {computed.data(), expected.data(), computed.size() * sizeof(T), before.empty() ? nullptr : before.data()},
      tolerance);
}

using Floats = std::vector<float>;

TEST(CompareResults, FloatsUpToATolerance) {
  ResultComparison same = compare<float>(ITX_F32, {1, -2, 0}, {1, -2, 0});
  EXPECT_TRUE(same.agrees);
  EXPECT_EQ(same.elements, 3u);
  EXPECT_EQ(same.largestDifference, 0);
  ResultComparison close = compare<float>(ITX_F32, {4.002f}, {4});
  EXPECT_TRUE(close.agrees);
  EXPECT_NEAR(close.largestDifference, 0.0005, 1e-6);
  ResultComparison wrong = compare<float>(ITX_F32, {4, 4.1f, 3.5f}, {4, 4, 4});
  EXPECT_FALSE(wrong.agrees);
  EXPECT_EQ(wrong.differing, 2u);
  EXPECT_EQ(wrong.first, 1u);
  EXPECT_EQ(wrong.computed, "4.0999999");
  EXPECT_EQ(wrong.expected, "4");
  EXPECT_NEAR(wrong.largestDifference, 0.125, 1e-6);
  EXPECT_TRUE(compare<float>(ITX_F32, {}, {}).agrees);
}

TEST(CompareResults, SmallValuesAmongLargeOnes) {
  // The root mean square of the expected values is 10.
  EXPECT_TRUE(compare<float>(ITX_F32, {0.009f, 20, 0, 0}, {0, 20, 0, 0}).agrees);
  EXPECT_FALSE(compare<float>(ITX_F32, {0.011f, 20, 0, 0}, {0, 20, 0, 0}).agrees);
  // Without any, all must be equal.
  ResultComparison zeros = compare<float>(ITX_F32, {0, 1e-30f}, {0, 0});
  EXPECT_FALSE(zeros.agrees);
  EXPECT_TRUE(std::isinf(zeros.largestDifference));
}

TEST(CompareResults, ValuesThatAreNotFinite) {
  float nan = NAN, infinity = INFINITY;
  EXPECT_TRUE(compare<float>(ITX_F32, {nan, infinity, -infinity, 1}, {-nan, infinity, -infinity, 1}).agrees);
  for (auto [computed, expected] : {std::pair(nan, 1.0f),
                                    {1.0f, nan},
                                    {infinity, 1.0f},
                                    {1.0f, infinity},
                                    {infinity, -infinity},
                                    {nan, infinity},
                                    {infinity, nan}}) {
    ResultComparison found = compare<float>(ITX_F32, {computed, 3}, {expected, 3});
    EXPECT_FALSE(found.agrees) << computed << " " << expected;
    EXPECT_EQ(found.largestDifference, 0) << "of finite values alone";
  }
}

TEST(CompareResults, OtherFloats) {
  EXPECT_TRUE(compare<double>(ITX_F64, {1 + 1e-9}, {1}, 1e-8).agrees);
  EXPECT_FALSE(compare<double>(ITX_F64, {1 + 1e-7}, {1}, 1e-8).agrees);
  // 0x3c00 and 0x3c01 are 1 and 1 + 2^-10 as f16; 0x3f80 and 0x3f81 are 1 and 1 + 2^-7 as bf16.
  EXPECT_TRUE(compare<uint16_t>(ITX_F16, {0x3c01}, {0x3c00}).agrees);
  EXPECT_FALSE(compare<uint16_t>(ITX_F16, {0x3c01}, {0x3c00}, 0.0009).agrees);
  ResultComparison bf16 = compare<uint16_t>(ITX_BF16, {0x3f81}, {0x3f80});
  EXPECT_FALSE(bf16.agrees);
  EXPECT_EQ(bf16.computed, "1.0078125");
  EXPECT_TRUE(compare<uint16_t>(ITX_BF16, {0x3f81}, {0x3f80}, 0.01).agrees);
}

TEST(CompareResults, IntegersAreEqual) {
  int64_t large = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(compare<int64_t>(ITX_I64, {large, -1}, {large, -1}).agrees);
  ResultComparison wrong = compare<int64_t>(ITX_I64, {1, large}, {1, large - 1});
  EXPECT_FALSE(wrong.agrees);
  EXPECT_EQ(wrong.first, 1u);
  EXPECT_EQ(wrong.computed, "9223372036854775807");
  EXPECT_EQ(wrong.expected, "9223372036854775806");
  EXPECT_FALSE(compare<int32_t>(ITX_I32, {1}, {2}).agrees);
  EXPECT_FALSE(compare<int16_t>(ITX_I16, {-1}, {1}).agrees);
  EXPECT_FALSE(compare<uint8_t>(ITX_BOOL, {1}, {0}).agrees);
  ResultComparison bytes = compare<uint8_t>(std::nullopt, {200, 1}, {100, 1});
  EXPECT_FALSE(bytes.agrees) << "bytes in a layout";
  EXPECT_EQ(bytes.computed, "200");
}

TEST(CompareResults, AFewQuantizedValuesMayDiffer) {
  std::vector<int8_t> expected(3000, 5), computed = expected;
  auto differing = [&](size_t count) {
    for (size_t i = 0; i < expected.size(); ++i)
      computed[i] = int8_t(i % 100 == 7 && i / 100 < count ? 6 : 5);
    return compare(ITX_I8, computed, expected);
  };
  EXPECT_TRUE(differing(3).agrees);
  EXPECT_EQ(differing(3).differing, 3u);
  EXPECT_FALSE(differing(4).agrees);
  EXPECT_EQ(differing(4).first, 7u);
  EXPECT_EQ(differing(4).computed, "6");
  EXPECT_TRUE(compare<uint8_t>(ITX_U8, {255, 1}, {254, 1}).agrees) << "one may always";
  EXPECT_FALSE(compare<uint8_t>(ITX_U8, {255, 2}, {254, 1}).agrees);
}

TEST(CompareResults, QuantizedValuesAreRoundedToNeighbours) {
  EXPECT_FALSE(compare<uint8_t>(ITX_U8, {7, 1}, {5, 1}, 0.9).agrees) << "not even one";
  EXPECT_FALSE(compare<int8_t>(ITX_I8, {-1, 1}, {0, 0}, 0.9).agrees) << "two of two are too many";
  EXPECT_FALSE(compare<int8_t>(ITX_I8, {-128}, {127}).agrees) << "the ends are no neighbours";
  ResultComparison found = compare<int8_t>(ITX_I8, {1, 9, 3, 0}, {0, 9, 9, 7}, 0.9);
  EXPECT_FALSE(found.agrees);
  EXPECT_EQ(found.first, 2u) << "the one before may be a rounding";
  EXPECT_EQ(found.computed, "3");
  EXPECT_EQ(found.expected, "9");
  EXPECT_EQ(found.differing, 3u);
}

TEST(CompareResults, OfUpdatesInPlaceWhatChangesCounts) {
  // Ten of 3000 values are written, all of them one too high.
  std::vector<uint8_t> before(3000, 5), expected = before, computed = before;
  for (size_t i = 1000; i < 1010; ++i) {
    expected[i] = 90;
    computed[i] = 91;
  }
  EXPECT_TRUE(compare(ITX_U8, computed, expected, 0.05).agrees);
  ResultComparison found = compare(ITX_U8, computed, expected, 0.05, before);
  EXPECT_FALSE(found.agrees);
  EXPECT_EQ(found.elements, 10u);
  EXPECT_EQ(found.differing, 10u);
  EXPECT_EQ(found.first, 1000u);
  // What one device alone writes counts too.
  found = compare<int8_t>(ITX_I8, {1, 5, 5}, {5, 6, 5}, 0.05, {5, 5, 5});
  EXPECT_FALSE(found.agrees);
  EXPECT_EQ(found.elements, 2u);
  EXPECT_TRUE(compare(ITX_U8, before, before, 0.05, before).agrees);
  EXPECT_EQ(compare(ITX_U8, before, before, 0.05, before).elements, 0u);
}

TEST(CompareResults, OfUpdatesInPlaceWhatChangesIsTypical) {
  // Numbers beside those that are written make no error small, and none large.
  for (float beside : {1e30f, 0.0f, float(NAN)}) {
    Floats before(1000, beside), expected = before, computed = before;
    expected[0] = computed[0] = 4;
    expected[1] = 0;
    computed[1] = 0.002f; // the root mean square is 2.8
    EXPECT_TRUE(compare(ITX_F32, computed, expected, 0.001, before).agrees) << beside;
    computed[1] = 0.004f;
    EXPECT_FALSE(compare(ITX_F32, computed, expected, 0.001, before).agrees) << beside;
    EXPECT_EQ(compare(ITX_F32, computed, expected, 0.001, before).elements, 2u) << beside;
  }
}

} // namespace
