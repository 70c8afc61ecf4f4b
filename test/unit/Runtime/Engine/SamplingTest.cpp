//===- SamplingTest.cpp - Random numbers, and what is computed of rows of logits --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules themselves are tested against NumPy in test/python/test_sampling.py.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/Random.h"
#include "lib/Runtime/Engine/VectorMath.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace intarsia::runtime;

TEST(Random, NumbersAreThoseOfNumPy) {
  // numpy.random.default_rng(numpy.random.SeedSequence(seed, spawn_key=(spawn,))).random(2)
  const struct {
    uint64_t seed;
    uint32_t spawn;
    double first, second;
  } cases[] = {{0, 0, 0.9429375528828794, 0.3163371523854981},
               {0, 3, 0.3644334333698406, 0.5113367953594365},
               {1, 0, 0.6990345474368357, 0.17433552137309583},
               {123456789012345, 0, 0.3792306368901378, 0.2806222733776583},
               {~uint64_t(0), 3, 0.08415498054833082, 0.5453214632961391}};
  for (const auto &one : cases) {
    Random random(one.seed, one.spawn);
    EXPECT_EQ(random.next(), one.first);
    EXPECT_EQ(random.next(), one.second);
  }
  EXPECT_NE(drawSeed(), drawSeed());
}

TEST(VectorMath, RowsOfAnyLength) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 20);
  for (int64_t count : {1, 7, 8, 31, 32, 33, 100, 4096, 32001}) {
    std::vector<float> row(count);
    for (float &value : row)
      value = normal(random);
    float largest = *std::max_element(row.begin(), row.end());
    EXPECT_EQ(largestOf(row.data(), count).value, largest);
    EXPECT_FALSE(largestOf(row.data(), count).hasNan);
    EXPECT_EQ(indexOf(row.data(), count, largest), std::max_element(row.begin(), row.end()) - row.begin());
    for (float factor : {1.0f, 0.01f, 100.0f}) {
      double sum = 0;
      for (float value : row)
        sum += std::exp(double((value - largest) * factor));
      EXPECT_NEAR(sumOfExponentials(row.data(), count, largest, factor), sum, 3e-7 * sum);
    }
    std::vector<int32_t> found, expected;
    for (int64_t i = 0; i < count; ++i)
      if (row[size_t(i)] >= 10)
        expected.push_back(int32_t(i));
    EXPECT_TRUE(indicesFrom(row.data(), count, 10, size_t(count), found));
    EXPECT_EQ(found, expected);
    found.clear();
    if (!expected.empty())
      EXPECT_FALSE(indicesFrom(row.data(), count, 10, expected.size() - 1, found));
    row[size_t(count / 2)] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(largestOf(row.data(), count).hasNan);
  }
}
