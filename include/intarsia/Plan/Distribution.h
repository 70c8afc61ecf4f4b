//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Distributions of durations as atoms, and the shapes that they are made from. Sums and maxima are of independent
// variables. Up to `maximumAtoms` results are exact; beyond, atoms are moved to a regular grid such that the mean
// stays.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_DISTRIBUTION_H
#define INTARSIA_PLAN_DISTRIBUTION_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace intarsia::plan {

/// z with Phi(z) = `level`.
double normalQuantile(double level);

class Distribution {
public:
  static constexpr size_t maximumAtoms = 768;

  /// The value zero, surely.
  Distribution() : Distribution({{0.0, 1.0}}) {}
  /// (value, probability) in any order; probabilities must be above zero and sum to one.
  explicit Distribution(std::vector<std::pair<double, double>> valuesAndProbabilities);
  static Distribution point(double value) { return Distribution({{value, 1.0}}); }
  /// max(0, X) where X > 0 has `probability` and is then exponential with mean `meanIfPositive`: a wait in a queue.
  static Distribution exponentialTail(double probability, double meanIfPositive);

  const std::vector<std::pair<double, double>> &atoms() const { return entries; }
  bool isPoint() const { return entries.size() == 1; }
  double mean() const;
  double squaredVariation() const;
  double minimum() const { return entries.front().first; }
  /// The smallest value v with P(X <= v) >= level (up to 1e-12).
  double quantile(double level) const;

  Distribution scaled(double factor) const;
  Distribution shifted(double offset) const;
  Distribution plus(const Distribution &other) const;
  Distribution maximumWith(const Distribution &other) const;
  /// The maximum of `count` independent copies.
  Distribution maximumOf(int count) const;
  /// The sum of N independent copies, where N >= 0 is drawn: (count, probability), in any order, probabilities above
  /// zero and summing to one. Counts are exact up to `maximumAtoms` of them, beyond on a regular grid as atoms are.
  Distribution sumOf(std::vector<std::pair<int64_t, double>> counts) const;
  /// Part i with its probability.
  static Distribution mixture(const std::vector<std::pair<Distribution, double>> &parts);

private:
  void normalize();
  std::vector<std::pair<double, double>> entries;
};

/// How durations of a piece spread around their mean; all shapes have mean 1.
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
  /// Standard deviation of the logarithm; Lognormal only.
  double logarithmDeviation() const;
  double squaredVariation() const;
  Distribution discretized() const;
};

} // namespace intarsia::plan

#endif
