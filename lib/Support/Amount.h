//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Distributions of amounts that differ from request to request (tokens, milliseconds, runs of a loop). Free of MLIR:
// dialects, planner and simulator share it.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_AMOUNT_H
#define INTARSIA_LIB_SUPPORT_AMOUNT_H

#include <optional>
#include <vector>

namespace intarsia {

/// The standard normal distribution function, and its inverse for 0 < probability < 1.
double normalProbability(double score);
double normalScore(double probability);

/// A distribution of non-negative numbers. ln x is a piecewise linear function of the normal score z of x: a single
/// line is a lognormal, and there is always a curve through given percentiles. A constant has no line. Values above the
/// limit are replaced by it.
class Amount {
public:
  struct Percentile {
    double percent; ///< 0 < percent < 100
    double value;   ///< > 0
  };

  static Amount constant(double value);
  /// The lognormal of this mean and variance; a constant if the variance is 0.
  static Amount lognormal(double mean, double variance);
  /// Returns the narrowest lognormal, cut at `limit` if there is one, with this mean and this percentile. None exists
  /// if the percentile is too far from the mean: uncut, x_p / mean <= exp(z_p^2 / 2), which is 3.87 for the 95th.
  static std::optional<Amount> fromMeanAndPercentile(double mean, Percentile percentile,
                                                     std::optional<double> limit = std::nullopt);
  /// Returns the distribution through two or more percentiles, both numbers increasing. The first line is extended
  /// downwards. Upwards the last line is extended, or the line from the first to the last percentile if that is
  /// flatter: a steep last rise (one call of a hundred runs into a limit) need not continue, and would make the mean
  /// infinite.
  static Amount fromPercentiles(const std::vector<Percentile> &percentiles, std::optional<double> limit = std::nullopt);

  double mean() const { return moment(1); }
  double variance() const;
  /// The value that is not exceeded with this probability, 0 < probability < 1.
  double quantile(double probability) const { return at(normalScore(probability)); }
  double p95() const { return quantile(0.95); }
  /// Returns the value at a normal score. It maps normal random numbers to random numbers of this distribution.
  double at(double score) const;
  bool isConstant() const { return knots.empty(); }
  std::optional<double> limit() const { return cut; }
  /// Returns `factor` times the amount, factor >= 0.
  Amount scaled(double factor) const;

private:
  struct Knot {
    double score, logarithm;
  };
  double moment(int order) const;

  double value = 0;        ///< of a constant
  std::vector<Knot> knots; ///< two or more, increasing
  std::optional<double> cut;
};

/// Returns the probabilities P(1), P(2), …, P(most) of how often a loop runs; their mean is `expected`. This is the
/// distribution of the largest entropy with that mean and bound, P(n) proportional to r^n (Cover and Thomas, Elements
/// of Information Theory, theorem 12.1.1): a loop that continues with a fixed probability, cut off. 1 <= expected <=
/// most.
std::vector<double> runProbabilities(double expected, unsigned most);

} // namespace intarsia

#endif
