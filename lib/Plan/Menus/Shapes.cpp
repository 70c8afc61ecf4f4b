//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// How durations spread: from what a file says of sizes and times, and of calls that fail.
//===----------------------------------------------------------------------------------------------------------===//
#include "Menus.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

namespace intarsia::plan {

/// Distributions of durations are handed on as so many equally probable values, each the median of its share: p95 and
/// p99 are then the values of such a share, not the step between two.
constexpr int atomsOfAmount = 50;

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
    for (int i = 0; i < atomsOfAmount; ++i)
      atoms[amount.quantile((i + 0.5) / atomsOfAmount)] += weight / total / atomsOfAmount;
  }
  return Shape::discrete({atoms.begin(), atoms.end()});
}

/// The same mean in so many equally probable values.
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
    all = coarsened(all.plus(attempt), atomsOfAmount);
  }
  parts.push_back({all, reached});
  return Shape::discrete(Distribution::mixture(parts).atoms());
}

} // namespace intarsia::plan
