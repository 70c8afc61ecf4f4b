//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Expected values are from SciPy: scipy.stats.norm, scipy.stats.lognorm, scipy.integrate.quad over the quantile
// function.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Amount.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <optional>
#include <vector>

using namespace intarsia;

namespace {
constexpr std::pair<double, double> normalScores[] = {{1e-09, -5.997807015007687}, {0.0001, -3.71901648545568},
                                                      {0.01, -2.326347874040841},  {0.05, -1.644853626951473},
                                                      {0.3, -0.5244005127080409},  {0.5, 0},
                                                      {0.9, 1.2815515655446},      {0.95, 1.644853626951472},
                                                      {0.99, 2.326347874040841},   {0.999, 3.090232306167813}};
struct Lognormal {
  double mean, percent, value, deviation, p99;
};
constexpr Lognormal lognormals[] = {{400, 95, 900, 265.327776085, 1358.20176804},
                                    {400, 95, 410, 6.03281501672, 414.235601246},
                                    {350, 99, 1200, 234.753975879, 1200},
                                    {300, 50, 250, 198.997487421, 1018.65871163},
                                    {0.8, 90, 1.5, 0.592115492796, 2.99221567984}};
struct Curve {
  std::vector<Amount::Percentile> percentiles;
  std::optional<double> limit;
  double mean, deviation;
};
const Curve curves[] = {{{{50, 200}, {95, 900}}, std::nullopt, 303.807405559, 347.387991938},
                        {{{50, 200}, {95, 900}, {99, 2000}}, std::nullopt, 313.220789, 404.066087},
                        {{{50, 100}, {95, 200}, {99, 30000}}, std::nullopt, 1357.97885, 40705.386},
                        {{{50, 100}, {95, 200}, {99, 30000}}, 30000, 547.104682, 3261.44073},
                        {{{50, 200}, {95, 900}, {99, 2000}}, 1500, 296.738869851, 293.575956946},
                        {{{10, 50}, {50, 200}, {90, 210}}, std::nullopt, 153.262193536, 64.2004285375},
                        {{{50, 200}, {95, 900}}, 400, 222.713271733, 128.623202259}};
} // namespace

TEST(Amount, NormalScores) {
  for (auto [probability, score] : normalScores) {
    EXPECT_NEAR(normalScore(probability), score, 1e-12 * std::max(1.0, std::fabs(score))) << probability;
    EXPECT_NEAR(normalProbability(score), probability, 1e-14);
  }
}

TEST(Amount, LognormalOfMeanAndPercentile) {
  for (const Lognormal &expected : lognormals) {
    std::optional<Amount> amount = Amount::fromMeanAndPercentile(expected.mean, {expected.percent, expected.value});
    ASSERT_TRUE(amount) << expected.mean << " " << expected.value;
    EXPECT_NEAR(amount->mean(), expected.mean, 1e-9 * expected.mean);
    EXPECT_NEAR(amount->quantile(expected.percent / 100), expected.value, 1e-9 * expected.value);
    EXPECT_NEAR(std::sqrt(amount->variance()), expected.deviation, 1e-6 * expected.deviation);
    EXPECT_NEAR(amount->quantile(0.99), expected.p99, 1e-6 * expected.p99);
  }
}

TEST(Amount, NoLognormalIsThatWide) {
  double widest = std::exp(normalScore(0.95) * normalScore(0.95) / 2);
  EXPECT_TRUE(Amount::fromMeanAndPercentile(100, {95, 100 * widest * 0.999}));
  EXPECT_FALSE(Amount::fromMeanAndPercentile(100, {95, 100 * widest * 1.001}));
}

TEST(Amount, PercentilesAndLimits) {
  for (const Curve &expected : curves) {
    Amount amount = Amount::fromPercentiles(expected.percentiles, expected.limit);
    for (auto [percent, value] : expected.percentiles)
      EXPECT_NEAR(amount.quantile(percent / 100), std::min(value, expected.limit.value_or(value)), 1e-9 * value);
    EXPECT_NEAR(amount.mean(), expected.mean, 1e-6 * expected.mean);
    EXPECT_NEAR(std::sqrt(amount.variance()), expected.deviation, 1e-5 * expected.deviation);
  }
}

TEST(Amount, MeanIsThatOfTheCut) {
  std::optional<Amount> amount = Amount::fromMeanAndPercentile(300, {95, 700}, 1024);
  ASSERT_TRUE(amount);
  EXPECT_NEAR(amount->mean(), 300, 1e-6);
  EXPECT_NEAR(amount->p95(), 700, 1e-6);
  EXPECT_EQ(amount->quantile(0.9999), 1024);
  // The mean by its definition: the mean of the quantile function.
  double sum = 0;
  constexpr int steps = 200'000;
  for (int step = 0; step < steps; ++step)
    sum += amount->quantile((step + 0.5) / steps);
  EXPECT_NEAR(sum / steps, 300, 0.01);
}

TEST(Amount, Scaled) {
  std::optional<Amount> amount = Amount::fromMeanAndPercentile(300, {95, 700}, 1024);
  Amount third = amount->scaled(1.0 / 3);
  EXPECT_NEAR(third.mean(), 100, 1e-6);
  EXPECT_NEAR(third.p95(), 700.0 / 3, 1e-6);
  EXPECT_NEAR(*third.limit(), 1024.0 / 3, 1e-9);
  EXPECT_EQ(amount->scaled(0).mean(), 0);
  EXPECT_EQ(Amount::constant(5).scaled(3).mean(), 15);
}

TEST(Amount, RunsOfALoop) {
  for (auto [expected, most] :
       {std::pair(1.0, 1u), {1.0, 5u}, {3.2, 8u}, {4.5, 8u}, {7.9, 8u}, {8.0, 8u}, {20.0, 1000u}}) {
    std::vector<double> runs = runProbabilities(expected, most);
    ASSERT_EQ(runs.size(), most);
    double sum = 0, mean = 0;
    for (unsigned n = 1; n <= most; ++n) {
      sum += runs[n - 1];
      mean += n * runs[n - 1];
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    EXPECT_NEAR(mean, expected, 1e-9 * expected);
    // Each further run is as probable as the one before, given that.
    for (unsigned n = 2; n + 1 < most; ++n)
      if (runs[n] > 1e-12)
        EXPECT_NEAR(runs[n] / runs[n - 1], runs[1] / runs[0], 1e-6);
  }
  // Far from the bound it is geometric: P(1) = 1 / mean.
  EXPECT_NEAR(runProbabilities(4, 500)[0], 0.25, 1e-9);
}
