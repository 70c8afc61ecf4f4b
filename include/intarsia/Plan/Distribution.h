//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Distributions of durations as atoms, and the shapes that generate them. Sums and maxima are those of independent
// variables. Results with up to `maximumAtoms` atoms are exact; larger ones are moved to a regular grid that keeps the
// mean.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_DISTRIBUTION_H
#define INTARSIA_PLAN_DISTRIBUTION_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace intarsia::plan {

/// Returns z with Phi(z) = `level`.
double normalQuantile(double level);

class Distribution {
public:
  static constexpr size_t maximumAtoms = 768;

  /// Makes the constant zero.
  Distribution() : Distribution({{0.0, 1.0}}) {}
  /// Takes (value, probability) in any order; probabilities must be above zero and sum to one. What rounding adds or
  /// takes is shared out, so that no distribution that is made of others can lose its atoms.
  explicit Distribution(std::vector<std::pair<double, double>> valuesAndProbabilities);
  static Distribution point(double value) { return Distribution({{value, 1.0}}); }
  /// Returns the distribution of a queueing wait: positive with `probability`, and then exponential with mean
  /// `meanIfPositive`.
  static Distribution exponentialTail(double probability, double meanIfPositive);

  const std::vector<std::pair<double, double>> &atoms() const { return entries; }
  bool isPoint() const { return entries.size() == 1; }
  double mean() const;
  double squaredVariation() const;
  double minimum() const { return entries.front().first; }
  /// Returns the smallest value v with P(X <= v) >= level (up to 1e-12). On a grid an atom stands for values spread
  /// evenly over its cell.
  double quantile(double level) const;

  Distribution scaled(double factor) const;
  Distribution shifted(double offset) const;
  Distribution plus(const Distribution &other) const;
  Distribution maximumWith(const Distribution &other) const;
  /// Returns the maximum of `count` independent copies.
  Distribution maximumOf(int count) const;
  /// Returns the sum of N independent copies, where N >= 0 is drawn: (count, probability), in any order, probabilities
  /// above zero and summing to one. Up to `maximumAtoms` counts are exact; more are moved to a regular grid as atoms
  /// are.
  Distribution sumOf(std::vector<std::pair<int64_t, double>> counts) const;
  /// Returns the mixture of parts with their probabilities.
  static Distribution mixture(const std::vector<std::pair<Distribution, double>> &parts);

private:
  void normalize();
  Distribution(std::vector<std::pair<double, double>> valuesAndProbabilities, double spacing);
  std::vector<std::pair<double, double>> entries;
  double spacing = 0; ///< of the grid that values were moved to; 0: none was
};

/// Spread of a piece's durations around their mean; all shapes have mean 1.
struct Shape {
  enum class Kind { Deterministic, Exponential, Lognormal, Atoms };
  Kind kind = Kind::Deterministic;
  /// Lognormal: the 95th percentile over the mean, above 1 and at most 3.86 (no lognormal has more).
  double p95OverMean = 1;
  /// Atoms: (value, probability), scaled to mean 1 when used.
  std::vector<std::pair<double, double>> atoms;

  static Shape exponential() { return {Kind::Exponential, 1, {}}; }
  static Shape lognormal(double p95OverMean) { return {Kind::Lognormal, p95OverMean, {}}; }
  static Shape discrete(std::vector<std::pair<double, double>> atoms) { return {Kind::Atoms, 1, std::move(atoms)}; }
  /// Returns the standard deviation of the logarithm; Lognormal only.
  double logarithmDeviation() const;
  double squaredVariation() const;
  Distribution discretized() const;
};

} // namespace intarsia::plan

#endif
