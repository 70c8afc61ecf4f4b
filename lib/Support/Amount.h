//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Amounts that differ from request to request (tokens, milliseconds, runs of a loop): what is known of them, as a
// distribution. Free of MLIR: dialects, planner and simulator share it.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_AMOUNT_H
#define INTARSIA_LIB_SUPPORT_AMOUNT_H

#include <optional>
#include <vector>

namespace intarsia {

/// The standard normal distribution function, and its inverse for 0 < probability < 1.
double normalProbability(double score);
double normalScore(double probability);

/// A distribution on numbers that are not negative. ln x is a piecewise linear function of the normal score z of x: one
/// straight line is a lognormal, and through given percentiles there is always a curve. A constant has no line at all.
/// A limit cuts larger values down to it.
class Amount {
public:
  struct Percentile {
    double percent; ///< 0 < percent < 100
    double value;   ///< > 0
  };

  static Amount constant(double value);
  /// The lognormal of this mean and variance; a constant if the variance is 0.
  static Amount lognormal(double mean, double variance);
  /// The lognormal, cut at `limit` if there is one, that has this mean and this percentile: of those that do, the
  /// narrowest. None exists if the percentile is too far from the mean: uncut, x_p / mean <= exp(z_p^2 / 2), which is
  /// 3.87 for the 95th.
  static std::optional<Amount> fromMeanAndPercentile(double mean, Percentile percentile,
                                                     std::optional<double> limit = std::nullopt);
  /// Through two percentiles or more, both numbers increasing. Below the first its line goes on; above the last the
  /// line from the first to the last does, where it is flatter than the last line: of a curve that rises steeply in
  /// between (one call of a hundred runs into a limit) nobody knows that it goes on like that, and its mean would be
  /// endless.
  static Amount fromPercentiles(const std::vector<Percentile> &percentiles, std::optional<double> limit = std::nullopt);

  double mean() const { return moment(1); }
  double variance() const;
  /// The value that is not exceeded with this probability, 0 < probability < 1.
  double quantile(double probability) const { return at(normalScore(probability)); }
  double p95() const { return quantile(0.95); }
  /// The value at a normal score: of normal random numbers it makes those of this distribution.
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

/// How often a loop runs: P(1), P(2), …, P(most), of which the mean is `expected`. Known are only the mean and the
/// bound; of all distributions that have them this is the one of the largest entropy, P(n) proportional to r^n (Cover
/// and Thomas, Elements of Information Theory, theorem 12.1.1): a loop that goes on with a fixed probability, cut off.
/// 1 <= expected <= most.
std::vector<double> runProbabilities(double expected, unsigned most);

} // namespace intarsia

#endif
