//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Spread of durations: from the sizes and times of a file, and from calls that fail.
//===----------------------------------------------------------------------------------------------------------===//
#include "Candidates.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>
#include <set>

namespace intarsia::plan {

/// Number of values of a repeated call's duration.
constexpr int valuesOfRepetition = 50;

/// A percentile that results state, for which a distribution keeps exact values. Distributions of durations are passed
/// on as values of shares; a stated percentile has a narrow share of its own with its exact value, every other share
/// has its mean.
struct StatedPercentile {
  double probability, halfShare;
};
constexpr StatedPercentile statedPercentiles[] = {{0.5, 5e-3}, {0.9, 5e-3}, {0.95, 5e-3}, {0.99, 5e-4}, {0.999, 5e-5}};
constexpr int sharesBelowTheLast = 40;
/// Ends of the shares within the last 40th.
constexpr double endsOfLastShares[] = {0.985, 0.995, 0.9975, 0.9985, 0.9995, 1};
constexpr int pointsOfShare = 32;

/// Returns (value, probability). The last value, for events rarer than 1 in 2,000, is set such that the mean is exact.
static std::vector<std::pair<double, double>> sharesOf(const Amount &amount) {
  std::set<double> ends(std::begin(endsOfLastShares), std::end(endsOfLastShares));
  for (int share = 1; share < sharesBelowTheLast; ++share)
    ends.insert(double(share) / sharesBelowTheLast);
  for (auto [probability, halfShare] : statedPercentiles) {
    ends.erase(ends.lower_bound(probability - halfShare), ends.upper_bound(probability + halfShare));
    ends.insert({probability - halfShare, probability + halfShare});
  }
  std::vector<std::pair<double, double>> shares;
  double begin = 0, mean = 0;
  for (double end : ends) {
    double sum = 0, middle = (begin + end) / 2;
    for (int point = 0; point < pointsOfShare; ++point)
      sum += amount.quantile(begin + (end - begin) * (point + 0.5) / pointsOfShare);
    bool isStated = llvm::any_of(statedPercentiles, [&](auto of) { return std::abs(of.probability - middle) < 1e-9; });
    shares.push_back({isStated ? amount.quantile(middle) : sum / pointsOfShare, end - begin});
    mean += shares.back().first * shares.back().second;
    begin = end;
  }
  auto &[last, probability] = shares.back();
  double rest = last + (amount.mean() - mean) / probability;
  last = std::clamp(rest, shares[shares.size() - 2].first, std::max(amount.limit().value_or(rest), last));
  return shares;
}

Shape shapeOf(const std::vector<std::pair<Amount, double>> &amounts) {
  std::map<double, double> atoms;
  double total = 0;
  for (auto &[amount, weight] : amounts)
    total += weight;
  bool constant = llvm::all_of(amounts, [&](auto &entry) {
    return entry.first.isConstant() && entry.first.mean() == amounts.front().first.mean();
  });
  if (constant || total <= 0)
    return {};
  for (auto &[amount, weight] : amounts) {
    if (weight <= 0)
      continue;
    if (amount.isConstant()) {
      atoms[amount.mean()] += weight / total;
      continue;
    }
    for (auto [value, probability] : sharesOf(amount))
      atoms[value] += weight / total * probability;
  }
  std::vector<std::pair<double, double>> values(atoms.begin(), atoms.end());
  // Hundreds of tasks that share a piece have thousands of values, which would be put on the grid at every use.
  if (values.size() > Distribution::maximumAtoms)
    values = Distribution(std::move(values)).atoms();
  return Shape::discrete(std::move(values));
}

/// Returns the distribution with the same mean in so many equally probable values.
static Distribution coarsened(const Distribution &fine, int values) {
  std::vector<std::pair<double, double>> atoms;
  double room = 1.0 / values, moment = 0;
  for (auto [value, probability] : fine.atoms())
    while (probability > 0) {
      double taken = std::min(probability, room);
      moment += taken * value, room -= taken, probability -= taken;
      if (room > 1e-12)
        break;
      atoms.push_back({moment * values, 1.0 / values});
      room = 1.0 / values, moment = 0;
    }
  if (room < 1.0 / values - 1e-9)
    atoms.push_back({moment / (1.0 / values - room), 1.0 / values - room});
  return Distribution(std::move(atoms));
}

Shape repeated(const Shape &one, double failure) {
  Distribution attempt = one.discretized(), all = attempt;
  std::vector<std::pair<Distribution, double>> parts;
  double reached = 1;
  for (; reached > 1e-6; reached *= failure) {
    parts.push_back({all, reached * (1 - failure)});
    all = coarsened(all.plus(attempt), valuesOfRepetition);
  }
  parts.push_back({all, reached});
  return Shape::discrete(Distribution::mixture(parts).atoms());
}

} // namespace intarsia::plan
