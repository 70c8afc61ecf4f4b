//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Sums of independent times on a grid against closed forms and against sums in double precision.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Solver/Convolution.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>
#include <vector>

using namespace intarsia::plan;

namespace {

/// Lengths around those of blocks and of vectors, and those of the grids.
constexpr size_t lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 200, 256, 768};

TEST(PlanConvolution, TimesOfOnePointShift) {
  for (size_t points : lengths)
    for (size_t by : {size_t(0), size_t(1), points / 2, points - 1}) {
      if (by >= points)
        continue;
      std::vector<float> density(points), function(points), sum(points, -1.0f);
      density[by] = 1;
      for (size_t at = 0; at < points; ++at)
        function[at] = float(at + 1);
      convolve(density.data(), function.data(), sum.data(), points);
      for (size_t at = 0; at < points; ++at)
        EXPECT_EQ(sum[at], at < by ? 0.0f : float(at - by + 1)) << points << " points, " << by << " later, at " << at;
    }
}

TEST(PlanConvolution, CoinsAreBinomial) {
  // The number of heads of 20 coins, one coin at a time: P(n <= k) is a sum of binomial coefficients over 2^20.
  constexpr size_t points = 64;
  std::vector<float> coin(points), function(points, 1.0f), sum(points);
  coin[0] = coin[1] = 0.5f;
  for (int thrown = 0; thrown < 20; ++thrown) {
    convolve(coin.data(), function.data(), sum.data(), points);
    function = sum;
  }
  double coefficient = 1, all = 0;
  for (int heads = 0; heads <= 20; ++heads) {
    all += coefficient;
    coefficient = coefficient * (20 - heads) / (heads + 1);
    EXPECT_NEAR(function[size_t(heads)], all / 1048576.0, 1e-6) << heads;
  }
}

TEST(PlanConvolution, SumsAreThoseOfDoublePrecision) {
  std::mt19937 engine(7);
  std::uniform_real_distribution<float> unit(0, 1);
  for (size_t points : lengths)
    for (size_t zeros : {size_t(0), points / 3}) { // at both ends of the density
      std::vector<float> density(points), function(points), sum(points, -1.0f);
      for (size_t at = 0; at < points; ++at) {
        density[at] = at < zeros || at + zeros >= points ? 0 : unit(engine) / float(points);
        function[at] = unit(engine);
      }
      convolve(density.data(), function.data(), sum.data(), points);
      for (size_t at = 0; at < points; ++at) {
        double exact = 0;
        for (size_t from = 0; from <= at; ++from)
          exact += double(density[from]) * double(function[at - from]);
        EXPECT_NEAR(sum[at], exact, 1e-6) << points << " points, at " << at;
        EXPECT_NEAR(convolvedAt(density.data(), function.data(), at), exact, 1e-6) << points << " points, at " << at;
      }
    }
}

TEST(PlanConvolution, DensitiesOfAnyLengthsAreAdded) {
  // Whole numbers: sums and products of them have no rounding.
  std::mt19937 engine(11);
  std::uniform_int_distribution<int> digit(1, 9);
  for (size_t length : lengths)
    for (size_t otherLength : lengths)
      for (size_t gap : {size_t(1), size_t(3)}) {
        std::vector<double> one(length), other(otherLength), exact(length + otherLength - 1);
        for (size_t at = 0; at < length; at += gap)
          one[at] = digit(engine);
        for (double &bin : other)
          bin = digit(engine);
        for (size_t a = 0; a < length; ++a)
          for (size_t b = 0; b < otherLength; ++b)
            exact[a + b] += one[a] * other[b];
        EXPECT_EQ(convolved(one, other), exact) << length << " and " << otherLength << " bins";
        EXPECT_EQ(convolved(other, one), exact) << length << " and " << otherLength << " bins";
      }
}

} // namespace
