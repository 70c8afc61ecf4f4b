//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Lagrangian.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <numeric>

using namespace llvm;

namespace intarsia::plan {

Lagrangian::Lagrangian(const Program &program) : program(program), weights(program.latencyWeights) {
  int count = int(program.options.size());
  // Breadth-first order puts parents before children: in a forest each piece then has at most one neighbor before it.
  position.assign(count, -1);
  std::vector<std::pair<int, int>> components; // begin in `order`, number of pairs
  for (int root = 0; root < count; ++root) {
    if (position[root] >= 0)
      continue;
    size_t begin = order.size();
    position[root] = int(order.size());
    order.push_back(root);
    for (size_t next = begin; next < order.size(); ++next)
      for (int pair : program.pairsOf[order[next]]) {
        int other = program.pairs[pair].from == order[next] ? program.pairs[pair].to : program.pairs[pair].from;
        if (position[other] < 0) {
          position[other] = int(order.size());
          order.push_back(other);
        }
      }
    components.push_back({int(begin), 0});
  }
  before.resize(count), after.resize(count), share.assign(count, 1.0);
  for (auto [index, pair] : enumerate(program.pairs)) {
    (position[pair.to] < position[pair.from] ? before : after)[pair.from].push_back({int(index), pair.to, true});
    (position[pair.from] < position[pair.to] ? before : after)[pair.to].push_back({int(index), pair.from, false});
  }
  for (size_t component = 0; component < components.size(); ++component) {
    size_t begin = components[component].first;
    size_t end = component + 1 < components.size() ? components[component + 1].first : order.size();
    size_t pairCount = 0;
    for (size_t i = begin; i < end; ++i)
      pairCount += before[order[i]].size();
    if (pairCount + 1 == end - begin)
      continue;
    for (size_t i = begin; i < end; ++i) {
      int piece = order[i];
      share[piece] = 1.0 / std::max<size_t>({before[piece].size(), after[piece].size(), 1});
    }
  }
  for (auto &all : program.options) {
    optionCosts.emplace_back(all.size());
    optionRises.emplace_back(all.size());
  }
  for (int piece = 0; piece < count; ++piece)
    groupCosts.emplace_back(program.groups[piece]);
  for (auto &pair : program.pairs) {
    pairCosts.push_back(pair.cost);
    toFrom.emplace_back(pair.fromGroups, 0.0);
    toTo.emplace_back(pair.toGroups, 0.0);
  }
  for (auto &resource : program.resources)
    if (resource.limit < unlimited) {
      Row row = program.rowOf(resource, true);
      if (!row.optionTerms.empty() || !row.pairTerms.empty())
        addRow(std::move(row));
    }
  for (auto &resource : program.resources)
    if (resource.ofShares && resource.nodeCost > 0) {
      weights.push_back(resource.nodeCost);
      for (Row &row : program.rowsOfShares(resource, int(weights.size()) - 1))
        addRow(std::move(row));
    }
  resourceRows = rows.size();
}

void Lagrangian::addRow(Row row) {
  // Divides rows by their bounds, so that prices are costs.
  double scale = row.upper != 0 && row.upper < unlimited ? std::abs(row.upper) : 0;
  if (scale == 0)
    for (auto &term : row.optionTerms)
      for (double factor : term.factors)
        scale = std::max(scale, std::abs(factor));
  scales.push_back(scale > 0 ? scale : 1);
  // A variable has no upper bound: the prices of its rows must sum to its weight in the objective.
  bool firstOfLatency =
      row.latencyOf >= 0 && llvm::none_of(rows, [&](const Row &other) { return other.latencyOf == row.latencyOf; });
  prices.push_back(firstOfLatency ? weights[row.latencyOf] * scales.back() : 0);
  rows.push_back(std::move(row));
}

void Lagrangian::price() {
  for (auto [piece, costs] : enumerate(optionCosts))
    for (auto [cost, option] : zip(costs, program.options[piece]))
      cost = program.relaxedCost(option, int(piece), false);
  for (auto [index, pair] : enumerate(program.pairs))
    pairCosts[index] = pair.cost;
  for (auto [index, row] : enumerate(rows)) {
    double price = prices[index] / scales[index];
    if (price == 0)
      continue;
    for (auto &term : row.optionTerms)
      for (auto [cost, factor] : zip(optionCosts[term.piece], term.factors))
        cost += price * factor;
    for (auto &term : row.pairTerms)
      for (auto [cost, factor] : zip(pairCosts[term.pair], term.factors))
        cost += price * factor;
  }
  for (auto [piece, costs] : enumerate(groupCosts)) {
    llvm::fill(costs, unlimited);
    for (auto [option, cost] : enumerate(optionCosts[piece]))
      if (program.active[piece][option]) {
        double &group = costs[program.options[piece][option].group];
        group = std::min(group, cost);
      }
  }
}

double Lagrangian::priceResources(std::vector<std::vector<double>> &options, std::vector<std::vector<double>> &pairs) {
  restoreBest();
  std::vector<double> all = prices;
  std::fill(prices.begin() + resourceRows, prices.end(), 0.0);
  price();
  options = optionCosts, pairs = pairCosts;
  prices = all;
  double offset = 0;
  for (size_t row = 0; row < resourceRows; ++row)
    offset += prices[row] * rows[row].upper / scales[row];
  return offset;
}

static double leastOf(const std::vector<double> &values) { return *std::min_element(values.begin(), values.end()); }

Lagrangian::Step Lagrangian::evaluate() {
  price();
  Step step{0, std::vector<int>(order.size(), -1)};
  for (auto [index, row] : enumerate(rows))
    step.bound -= row.upper < unlimited ? prices[index] * row.upper / scales[index] : 0;

  std::vector<double> potential, message;
  auto gather = [&](int piece) {
    potential = groupCosts[piece];
    for (auto *side : {&before[piece], &after[piece]})
      for (auto &neighbor : *side)
        for (auto [sum, value] : zip(potential, neighbor.first ? toFrom[neighbor.pair] : toTo[neighbor.pair]))
          sum += value;
  };
  auto send = [&](int piece, const Neighbor &neighbor, double part) {
    auto &costs = pairCosts[neighbor.pair];
    auto &mine = neighbor.first ? toFrom[neighbor.pair] : toTo[neighbor.pair];
    auto &theirs = neighbor.first ? toTo[neighbor.pair] : toFrom[neighbor.pair];
    size_t own = mine.size(), other = theirs.size();
    message.assign(other, unlimited);
    for (size_t a = 0; a < own; ++a) {
      double base = part * potential[a] - mine[a];
      if (!(base < unlimited))
        continue;
      if (neighbor.first)
        for (size_t b = 0; b < other; ++b)
          message[b] = std::min(message[b], base + costs[a * other + b]);
      else
        for (size_t b = 0; b < other; ++b)
          message[b] = std::min(message[b], base + costs[b * own + a]);
    }
    theirs = message;
  };
  // The backward pass: every potential ends in the bound.
  for (size_t i = order.size(); i-- > 0;) {
    int piece = order[i];
    gather(piece);
    for (auto &neighbor : before[piece]) {
      send(piece, neighbor, share[piece]);
      auto &theirs = neighbor.first ? toTo[neighbor.pair] : toFrom[neighbor.pair];
      double least = leastOf(theirs);
      if (least == unlimited) {
        step.bound = unlimited;
        return step;
      }
      step.bound += least;
      for (double &value : theirs)
        value -= least;
    }
    double left = 1 - share[piece] * before[piece].size();
    if (left > 1e-12) {
      double least = leastOf(potential);
      if (least == unlimited) {
        step.bound = unlimited;
        return step;
      }
      step.bound += left * least;
    }
  }
  // The forward pass: each piece takes its best option given those before it.
  std::vector<double> given;
  for (int piece : order) {
    gather(piece);
    double least = leastOf(potential);
    auto &all = program.options[piece];
    for (auto [option, cost] : enumerate(optionCosts[piece])) {
      int group = all[option].group;
      optionRises[piece][option] =
          program.active[piece][option] ? potential[group] - least + cost - groupCosts[piece][group] : unlimited;
    }
    given = groupCosts[piece];
    for (auto &neighbor : before[piece]) {
      int taken = program.options[neighbor.other][step.assignment[neighbor.other]].group;
      auto &costs = pairCosts[neighbor.pair];
      for (size_t group = 0; group < given.size(); ++group)
        given[group] += neighbor.first ? costs[group * program.pairs[neighbor.pair].toGroups + taken]
                                       : costs[size_t(taken) * given.size() + group];
    }
    for (auto &neighbor : after[piece])
      for (auto [sum, value] : zip(given, neighbor.first ? toFrom[neighbor.pair] : toTo[neighbor.pair]))
        sum += value;
    // On a cycle the options of earlier pieces may exclude all groups; the piece then ignores them.
    if (leastOf(given) == unlimited)
      given = potential;
    int bestGroup = int(std::min_element(given.begin(), given.end()) - given.begin());
    double bestCost = unlimited;
    for (auto [option, cost] : enumerate(optionCosts[piece]))
      if (program.active[piece][option] && all[option].group == bestGroup && cost < bestCost)
        bestCost = cost, step.assignment[piece] = int(option);
    for (auto &neighbor : after[piece]) {
      send(piece, neighbor, share[piece]);
      auto &theirs = neighbor.first ? toTo[neighbor.pair] : toFrom[neighbor.pair];
      if (double least = leastOf(theirs); least < unlimited)
        for (double &value : theirs)
          value -= least;
    }
  }
  return step;
}

double Lagrangian::activity(const Row &row, ArrayRef<int> assignment) const {
  double sum = 0;
  for (auto &term : row.optionTerms)
    sum += term.factors[assignment[term.piece]];
  for (auto &term : row.pairTerms) {
    auto &pair = program.pairs[term.pair];
    sum += term.factors[size_t(program.options[pair.from][assignment[pair.from]].group) * pair.toGroups +
                        program.options[pair.to][assignment[pair.to]].group];
  }
  return sum;
}

void Lagrangian::move(const Step &step, double target, double agility) {
  std::vector<double> direction(rows.size());
  std::vector<double> weighted(weights.size()), weight(weights.size()), activities(rows.size());
  for (auto [index, row] : enumerate(rows)) {
    activities[index] = activity(row, step.assignment) - row.upper;
    if (row.latencyOf >= 0) {
      weighted[row.latencyOf] += prices[index] / scales[index] * activities[index];
      weight[row.latencyOf] += prices[index] / scales[index];
    }
  }
  double norm = 0;
  for (auto [index, row] : enumerate(rows)) {
    double latency =
        row.latencyOf >= 0 && weight[row.latencyOf] > 0 ? weighted[row.latencyOf] / weight[row.latencyOf] : 0;
    direction[index] = (activities[index] - latency) / scales[index];
    if (prices[index] <= 0 && direction[index] < 0)
      direction[index] = 0;
    norm += direction[index] * direction[index];
  }
  if (norm < 1e-18)
    return;
  double length = agility * std::max(target - step.bound, 1e-9 * std::abs(target)) / norm;
  for (auto [price, change] : zip(prices, direction))
    price = std::max(0.0, price + length * change);
  llvm::fill(weight, 0.0);
  for (auto [index, row] : enumerate(rows))
    if (row.latencyOf >= 0)
      weight[row.latencyOf] += prices[index] / scales[index];
  for (auto [index, row] : enumerate(rows))
    if (row.latencyOf >= 0 && weight[row.latencyOf] > 0)
      prices[index] *= weights[row.latencyOf] / weight[row.latencyOf];
}

} // namespace intarsia::plan
