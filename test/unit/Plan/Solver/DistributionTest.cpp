//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Sums of a random number of copies, against sums that are known in closed form or term by term.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Distribution.h"
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>

using namespace intarsia::plan;

namespace {

/// Counts 1, 2, …: n with probability (1 - p)^(n - 1) p, cut where the rest is negligible.
std::vector<std::pair<int64_t, double>> geometric(double mean, int64_t most) {
  std::vector<std::pair<int64_t, double>> counts;
  double p = 1 / mean, left = 1;
  for (int64_t n = 1; n <= most && left > 1e-15; ++n) {
    counts.push_back({n, n == most ? left : left * p});
    left *= 1 - p;
  }
  return counts;
}

TEST(PlanQuantile, readsBetweenPointsOfTheGrid) {
  // Many values spread evenly over [0, 1): the grid has some 700 points, half of whose distance is 7e-4.
  std::vector<std::pair<double, double>> even;
  for (int i = 0; i < 100000; ++i)
    even.push_back({(i + 0.5) / 100000, 1e-5});
  Distribution one(even);
  EXPECT_LE(one.atoms().size(), Distribution::maximumAtoms);
  for (double level : {0.05, 0.303, 0.5, 0.777, 0.95, 0.99}) {
    EXPECT_NEAR(one.quantile(level), level, 5e-5);
    EXPECT_NEAR(one.scaled(4).shifted(-1).quantile(level), 4 * level - 1, 2e-4);
    EXPECT_NEAR(one.maximumOf(3).quantile(level), std::cbrt(level), 5e-5);
    EXPECT_NEAR(one.maximumWith(one.scaled(0.5)).quantile(level), level < 0.5 ? std::sqrt(level / 2) : level, 3e-4);
    // The sum of two is spread as a triangle.
    double sum = level < 0.5 ? std::sqrt(2 * level) : 2 - std::sqrt(2 * (1 - level));
    EXPECT_NEAR(one.plus(one).quantile(level), sum, 1e-4) << level;
  }
  // A value of its own stays one beside a grid.
  Distribution mixed = Distribution::mixture({{Distribution::point(-50), 0.96}, {one.scaled(1e4), 0.04}});
  EXPECT_EQ(mixed.quantile(0.95), -50);
  EXPECT_NEAR(mixed.quantile(0.98), 5e3, 1);
  // Few values are no grid.
  EXPECT_EQ(Distribution({{1, 0.5}, {2, 0.5}}).quantile(0.75), 2);
}

TEST(PlanQuantile, isLeftOfMaximaOfMaxima) {
  // Rounding takes a share of 1e-16 of the whole, and each maximum of a distribution with itself doubles the share: the
  // maximum of 2^n copies has nothing left after 53 of them.
  Distribution lasting = Shape::lognormal(1.5).discretized();
  double highest = lasting.atoms().back().first;
  for (int doubled = 0; doubled < 100; ++doubled)
    lasting = lasting.maximumWith(lasting);
  EXPECT_NEAR(lasting.quantile(0.5), highest, 1e-9);
  // Sums keep the whole as well: a mean of 3^60 copies.
  Distribution sum = Shape::lognormal(1.5).discretized();
  for (int tripled = 0; tripled < 60; ++tripled)
    sum = sum.plus(sum).plus(sum).scaled(1.0 / 3);
  EXPECT_NEAR(sum.quantile(0.95), 1, 0.01);
}

TEST(PlanQuantile, isThatOfRareWaits) {
  // Sums of many waits that hardly ever happen: all but one in a million of their values are 0.
  Distribution wait = Distribution::exponentialTail(2e-9, 1000), sum;
  for (int waits = 0; waits < 300; ++waits)
    sum = sum.plus(wait);
  EXPECT_EQ(sum.quantile(0.999), 0);
  EXPECT_NEAR(sum.mean(), 300 * 2e-9 * 1000, 1e-6);
}

TEST(PlanSumOf, isTermByTermForFewCopies) {
  Distribution one({{1, 0.5}, {3, 0.25}, {10, 0.25}});
  std::vector<std::pair<int64_t, double>> counts{{0, 0.1}, {5, 0.2}, {1, 0.4}, {3, 0.3}};
  Distribution sum = one.sumOf(counts);
  std::vector<std::pair<Distribution, double>> parts;
  for (auto [count, probability] : counts) {
    Distribution copies;
    for (int64_t n = 0; n < count; ++n)
      copies = copies.plus(one);
    parts.push_back({copies, probability});
  }
  Distribution expected = Distribution::mixture(parts);
  ASSERT_EQ(sum.atoms().size(), expected.atoms().size());
  for (size_t i = 0; i < sum.atoms().size(); ++i) {
    EXPECT_NEAR(sum.atoms()[i].first, expected.atoms()[i].first, 1e-12);
    EXPECT_NEAR(sum.atoms()[i].second, expected.atoms()[i].second, 1e-12);
  }
}

TEST(PlanSumOf, ofPointsIsTheCount) {
  Distribution sum = Distribution::point(7).sumOf({{1000, 0.25}, {3, 0.75}});
  ASSERT_EQ(sum.atoms().size(), 2u);
  EXPECT_EQ(sum.atoms()[0], std::make_pair(21.0, 0.75));
  EXPECT_EQ(sum.atoms()[1], std::make_pair(7000.0, 0.25));
}

TEST(PlanSumOf, ofManyEqualCopiesIsNormal) {
  // 5000 copies of 0 or 2: mean 5000, deviation sqrt(5000).
  Distribution sum = Distribution({{0, 0.5}, {2, 0.5}}).sumOf({{5000, 1.0}});
  EXPECT_NEAR(sum.mean(), 5000, 1e-6 * 5000);
  for (double level : {0.05, 0.5, 0.95, 0.99})
    EXPECT_NEAR(sum.quantile(level), 5000 + normalQuantile(level) * std::sqrt(5000.0), 0.06 * std::sqrt(5000.0))
        << level;
}

TEST(PlanSumOf, ofGeometricallyManyExponentialsIsExponential) {
  // Feller (1971), vol. 2, I.7: the sum is exponential with the product of both means. 2 % is for the slices in which
  // exponentials are kept.
  Distribution one = Distribution::exponentialTail(1, 2);
  for (auto [mean, most] : {std::pair(5.0, 1000), {50.0, 1000}, {3000.0, 100000}}) {
    auto begin = std::chrono::steady_clock::now();
    Distribution sum = one.sumOf(geometric(mean, most));
    EXPECT_NEAR(sum.mean(), 2 * mean, 2e-4 * mean) << mean;
    for (double level : {0.25, 0.5, 0.9, 0.95, 0.99})
      EXPECT_NEAR(sum.quantile(level), -2 * mean * std::log(1 - level), 0.02 * -2 * mean * std::log(1 - level))
          << mean << " " << level;
    // Copy by copy the last takes minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << mean;
  }
}

} // namespace
