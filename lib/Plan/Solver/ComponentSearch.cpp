//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The search of a component: prices of its rows, then depth-first branch and bound.
//===----------------------------------------------------------------------------------------------------------===//
#include "Component.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Largest number of assignments visited in one search; the bound then comes from the unvisited ones.
constexpr size_t visitsOfSearch = 100'000;
/// Labels of a search whose times count.
constexpr size_t mostLabels = 10'000'000;
/// Largest number of assignments to compare one with.
constexpr size_t mostComparisons = 64;
/// Steps towards the best prices of rows: at first, and from prices that were optimal for other costs.
constexpr int roundsOfPricing = 25, roundsOfRepricing = 5;

void Component::priceRows() {
  priced.options = costs.options;
  priced.pairs = costs.pairs;
  double paid = 0;
  for (auto &row : rows) {
    if (row.price == 0)
      continue;
    paid += row.price * row.upper;
    auto add = [&](std::vector<double> &sums, const std::vector<double> &factors) {
      for (size_t i = 0; i < factors.size(); ++i)
        sums[i] += row.price * factors[i];
    };
    for (auto [sums, factors] : zip(priced.options, row.terms.options))
      add(sums, factors);
    for (auto [sums, factors] : zip(priced.pairs, row.terms.pairs))
      add(sums, factors);
  }
  updateGroups(priced);
  eliminate(priced);
  priced.least -= paid;
}

std::vector<int> Component::decode() const {
  std::vector<int> options(order.size()), taken(order.size());
  for (size_t position = 0; position < order.size(); ++position) {
    double least = unlimited;
    int bestGroup = live[position].front();
    for (int group : live[position]) {
      taken[position] = group;
      double sum = priced.groups[position][group];
      for (int pair : pairsBack[position])
        sum += priced.pairs[pair][size_t(taken[pairs[pair].first]) * groups[position] + group];
      for (int message : received[position])
        sum += messageAt(priced, message, taken);
      if (sum < least)
        least = sum, bestGroup = group;
    }
    taken[position] = bestGroup;
    double leastOption = unlimited;
    for (auto [index, option] : enumerate(program.options[order[position]]))
      if (option.group == bestGroup && allowed[position][index] && priced.options[position][index] < leastOption)
        leastOption = priced.options[position][index], options[position] = int(index);
  }
  return options;
}

double Component::relax(double &below, int rounds, Result &result) {
  double best = -unlimited, agility = 1;
  std::vector<double> bestPrices(rows.size(), 0.0);
  int stalled = 0;
  bool atBest = true;
  for (int round = 0;; ++round) {
    priceRows();
    if (priced.least == unlimited)
      return unlimited;
    bestPrices.resize(rows.size(), 0.0);
    if (priced.least > best) {
      stalled = priced.least > best + 1e-3 * std::abs(below < unlimited ? below - best : best) ? 0 : stalled + 1;
      best = priced.least;
      atBest = true;
      for (auto [price, row] : zip(bestPrices, rows))
        price = row.price;
    } else {
      atBest = false;
      ++stalled;
    }
    std::vector<int> options = decode();
    bool added = offer(options, below, result);
    if (best >= below || rows.empty() || round >= rounds || agility < 1e-2)
      break;
    if (stalled >= 3) {
      agility /= 2;
      stalled = 0;
      for (auto [price, row] : zip(bestPrices, rows))
        row.price = price;
    }
    double norm = 0;
    std::vector<double> direction;
    for (auto &row : rows) {
      double over = usageOf(row, options) - row.upper;
      if (row.price <= 0 && over < 0)
        over = 0;
      direction.push_back(over);
      norm += over * over;
    }
    // No row is violated and no priced row is slack: the assignment is optimal.
    if (norm == 0 && !added)
      break;
    if (norm == 0)
      continue;
    double target = below < unlimited ? below : best + 0.1 * std::abs(best) + 1e-12;
    double length = agility * std::max(target - priced.least, 1e-9 * std::abs(target)) / norm;
    for (auto [row, over] : zip(rows, direction))
      row.price = std::max(0.0, row.price + length * over);
  }
  if (!atBest) {
    for (auto [price, row] : zip(bestPrices, rows))
      row.price = price;
    priceRows();
  }
  return best;
}

/// Returns true if an earlier assignment left the same state to the remaining pieces, cost no more and used no more of
/// any row; otherwise records this one.
bool Component::isDominated(Level &level, double bound, ArrayRef<double> usages) {
  if (level.frontier.empty())
    return false;
  uint64_t key = 0;
  for (int of : level.frontier)
    key = key * groups[of] + groupsTaken[of];
  // The bound less the price of rows is the cost, up to the contribution of the remaining pieces, which is the same for
  // all assignments of one key.
  double cost = bound;
  for (auto [row, usage] : zip(rows, usages))
    cost -= row.price * usage;
  std::vector<double> &labels = level.labels[key];
  size_t length = usages.size() + 1;
  for (size_t at = 0; at < labels.size(); at += length) {
    bool better = labels[at] <= cost;
    for (size_t row = 0; better && row < usages.size(); ++row)
      better = labels[at + 1 + row] <= usages[row];
    if (better)
      return true;
  }
  if (labels.size() < mostComparisons * length) {
    labels.push_back(cost);
    labels.insert(labels.end(), usages.begin(), usages.end());
  }
  return false;
}

void Component::descend(int position, double bound, std::vector<double> &usages, double &below, bool stopAtFirst,
                        Result &result) {
  if (position == int(order.size())) {
    offer(optionsTaken, below, result);
    return;
  }
  Level &level = levels[position];
  if (isDominated(level, bound, usages))
    return;
  level.candidates.clear();
  level.hasUsages.assign(groups[position], 0);
  level.usages.resize(groups[position]);
  level.groupBounds.assign(groups[position], 0.0);
  double known = 0;
  for (int message : sent[position])
    known += messageAt(priced, message, groupsTaken);
  auto ofGroup = [&](const Terms &terms, int group) {
    double sum = 0;
    groupsTaken[position] = group;
    for (int pair : pairsBack[position])
      if (!terms.pairs[pair].empty())
        sum += terms.pairs[pair][size_t(groupsTaken[pairs[pair].first]) * groups[position] + group];
    for (int message : received[position])
      sum += messageAt(terms, message, groupsTaken);
    return sum;
  };
  for (int group : live[position])
    level.groupBounds[group] = bound - known + ofGroup(priced, group);
  for (auto [index, option] : enumerate(program.options[order[position]]))
    if (allowed[position][index])
      if (double at = level.groupBounds[option.group] + priced.options[position][index]; at < below)
        level.candidates.push_back({at, int(index), option.group});
  llvm::sort(level.candidates, [](const Level::Candidate &a, const Level::Candidate &b) { return a.bound < b.bound; });
  for (auto &candidate : level.candidates) {
    if (candidate.bound >= below)
      return;
    if (++visited > visitLimit) {
      leftOut = std::min(leftOut, candidate.bound);
      return;
    }
    if (!level.hasUsages[candidate.group]) {
      level.hasUsages[candidate.group] = 1;
      auto &of = level.usages[candidate.group];
      of.clear();
      for (auto [row, usage] : zip(rows, usages)) {
        double sum = usage;
        for (int message : sent[position])
          sum -= messageAt(row.terms, message, groupsTaken);
        of.push_back(sum + ofGroup(row.terms, candidate.group));
      }
    }
    std::vector<double> next = level.usages[candidate.group];
    bool fits = true;
    for (auto [usage, row] : zip(next, rows)) {
      usage += row.terms.options[position][candidate.option];
      fits &= !exceeds(usage, row.upper);
    }
    if (!fits)
      continue;
    optionsTaken[position] = candidate.option;
    groupsTaken[position] = candidate.group;
    size_t found = result.found.size();
    descend(position + 1, candidate.bound, next, below, stopAtFirst, result);
    if (rowAdded || (stopAtFirst && result.found.size() > found))
      return;
  }
}

void Component::search(double &below, bool stopAtFirst, Result &result) {
  visited = 0, visitLimit = visitsOfSearch;
  leftOut = unlimited;
  rowAdded = false;
  for (Level &level : levels)
    level.labels.clear();
  std::vector<double> usages;
  for (auto &row : rows) {
    usages.push_back(row.terms.least);
    if (exceeds(row.terms.least, row.upper))
      return;
  }
  descend(0, priced.least, usages, below, stopAtFirst, result);
}

Component::Result Component::minimize(double below, bool exactly) {
  Result result;
  if (timed) {
    // A bound takes much longer than a plan, and less with one.
    if (!exactly || below == unlimited)
      if (std::optional<Found> found = timed->improved(); found && found->cost < below) {
        below = found->cost;
        result.found.push_back(std::move(*found));
      }
    result.bound = -unlimited;
    if (!exactly)
      return result;
    TimedSearch::Result of = timed->minimize(below, labels);
    result.bound = of.bound;
    append_range(result.found, of.found);
    return result;
  }
  leftOut = unlimited;
  if (isImpossible) {
    result.bound = unlimited;
    return result;
  }
  for (int rounds = isPriced ? roundsOfRepricing : roundsOfPricing;; rounds = roundsOfRepricing) {
    isPriced = true;
    double bound = relax(below, rounds, result);
    if (!exactly)
      leftOut = bound;
    if (!exactly || bound >= below)
      break;
    search(below, false, result);
    if (!rowAdded)
      break;
  }
  result.bound = std::min(below, leftOut);
  return result;
}

bool Component::searchLonger() {
  if (!timed || labels > mostLabels)
    return false;
  labels *= 8;
  return true;
}

void Component::markAlive(double below, std::vector<std::vector<uint8_t>> &alive) {
  if (timed)
    return timed->markAlive(below, alive);
  for (size_t position = 0; position < order.size(); ++position)
    for (size_t option = 0; option < alive[position].size(); ++option)
      if (allowed[position][option] && !alive[position][option])
        alive[position][option] = exists(int(position), int(option), below, alive);
}

bool Component::exists(int position, int option, double below, std::vector<std::vector<uint8_t>> &alive) {
  std::vector<uint8_t> all = allowed[position];
  size_t rowsBefore = rows.size();
  allowed[position].assign(all.size(), 0);
  allowed[position][option] = all[option];
  std::vector<int> allLive{program.options[order[position]][option].group};
  std::swap(live[position], allLive);
  Result result;
  leftOut = unlimited;
  do {
    priceRows();
    if (priced.least >= below)
      break;
    search(below, true, result);
  } while (rowAdded && result.found.empty());
  allowed[position] = all;
  live[position] = allLive;
  for (auto &row : MutableArrayRef(rows).drop_front(rowsBefore)) {
    updateGroups(row.terms);
    eliminate(row.terms);
  }
  bool open = leftOut < below;
  if (!result.found.empty())
    for (auto [at, taken] : enumerate(result.found.back().options))
      alive[at][taken] = 1;
  return open || !result.found.empty();
}

} // namespace intarsia::plan
