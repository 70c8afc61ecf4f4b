//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Branch and price: builds plans from columns, and eliminates options that no better plan has.
//===----------------------------------------------------------------------------------------------------------===//
#include "BranchAndPrice.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Largest number of pricings at a node of a dive, which needs no bound.
constexpr int roundsOfDive = 2;

void BranchAndPrice::improve(std::vector<int> assignment, double seconds) {
  if (!local)
    local = std::make_unique<LocalSearch>(program);
  local->run(assignment, std::vector<double>(program.problem.agents.size(), 1.0),
             std::min(deadline, Clock::now() + std::chrono::microseconds(int64_t(seconds * 1e6))));
  double before = owner.bestObjective();
  if (local->violation() == 0 && owner.offer(assignment) && owner.bestObjective() < before)
    addBest();
}

std::vector<int> BranchAndPrice::assignmentOfSolution(bool &isPlan) const {
  std::vector<int> assignment(program.options.size(), 0);
  isPlan = true;
  for (size_t component = 0; component < components.size(); ++component) {
    const Column *taken = nullptr;
    for (int column : columnsOf[component])
      if (!taken || master->solution(columns[column].index) > master->solution(taken->index))
        taken = &columns[column];
    if (!taken || master->solution(taken->index) < 1 - integral)
      isPlan = false;
    if (taken)
      for (auto [piece, option] : zip(components[component].pieces(), taken->options))
        assignment[piece] = option;
  }
  for (int column : artificial)
    isPlan &= master->solution(column) < integral;
  return assignment;
}

bool BranchAndPrice::isOpen(const Node &node) const {
  if (node.bound >= cutoff() || secondsLeft() <= 0)
    return false;
  return llvm::all_of(artificial, [&](int column) { return master->solution(column) < integral; });
}

void BranchAndPrice::dive(Node node) {
  std::vector<uint8_t> isFixed(components.size());
  while (isOpen(node)) {
    // Fixes whole nodes, the most certain first.
    int taken = -1;
    double nearest = 1;
    for (auto [index, row] : enumerate(shared)) {
      auto &[least, most] = node.counts[index];
      if (row.countColumn < 0 || least == most)
        continue;
      double count = master->solution(row.countColumn), away = std::abs(count - std::round(count));
      if (away < integral)
        least = most = std::round(count);
      else if (away < nearest)
        nearest = away, taken = int(index);
    }
    if (taken >= 0) {
      double count = master->solution(shared[taken].countColumn), nearer = std::round(count);
      bool found = false;
      for (double value : {nearer, nearer > count ? nearer - 1 : nearer + 1}) {
        Node child = node;
        if (value < node.counts[taken].first || value > node.counts[taken].second)
          continue;
        child.counts[taken] = {value, value};
        solveNode(child, roundsOfDive);
        found = isOpen(child);
        if (found) {
          node = std::move(child);
          break;
        }
      }
      if (!found)
        return;
      continue;
    }
    // Fixes components next, several at once where there are many.
    std::vector<std::pair<double, const Column *>> candidates;
    for (size_t component = 0; component < components.size(); ++component) {
      if (isFixed[component])
        continue;
      const Column *largest = nullptr;
      for (int column : columnsOf[component])
        if (!largest || master->solution(columns[column].index) > master->solution(largest->index))
          largest = &columns[column];
      if (!largest)
        return;
      candidates.push_back({master->solution(largest->index), largest});
    }
    if (candidates.empty())
      break;
    llvm::stable_sort(candidates, [](auto &a, auto &b) { return a.first > b.first; });
    size_t few = std::max<size_t>(1, candidates.size() / 10);
    for (auto [index, candidate] : enumerate(candidates)) {
      auto [value, column] = candidate;
      if (index >= few && value < 1 - integral)
        break;
      isFixed[column->component] = 1;
      for (auto [piece, option] : zip(components[column->component].pieces(), column->options)) {
        Decision decision{piece, std::vector<uint8_t>(program.options[piece].size())};
        decision.allowed[option] = 1;
        node.decisions.push_back(std::move(decision));
      }
    }
    solveNode(node, roundsOfDive);
  }
  if (isOpen(node)) {
    bool isPlan;
    improve(assignmentOfSolution(isPlan), 0.05);
  }
}

void BranchAndPrice::combine(const Node &node, double seconds) {
  combinedColumns = columns.size();
  Clock::time_point until = std::min(deadline, Clock::now() + std::chrono::microseconds(int64_t(seconds * 1e6)));
  std::vector<Node> open{node};
  while (!open.empty() && Clock::now() < until) {
    Node next = std::move(open.back());
    open.pop_back();
    enter(next, allowedIn(next));
    if (!master->solve() || master->objective() >= cutoff())
      continue;
    bool isPlan;
    std::vector<int> assignment = assignmentOfSolution(isPlan);
    if (isPlan) {
      owner.offer(assignment);
      improve(std::move(assignment), 0.1);
    } else if (std::vector<Branching> candidates = branchings(next); !candidates.empty()) {
      for (Node &child : childrenOf(next, candidates.front()))
        open.push_back(std::move(child));
    }
  }
}

void BranchAndPrice::eliminate(const Node &root) {
  if (root.prices.empty() && !shared.empty())
    return; // time ended before the first bound
  setPrices(root.prices, program.active, scale);
  std::vector<uint8_t> usable;
  for (const Column &column : columns)
    usable.push_back(isAllowed(column, program.active));
  std::vector<Component::Result> results = minimizeAll(leastOf(root.prices, usable), /*exactly=*/true);
  double bound = countsAt(root, root.prices);
  for (const Component::Result &result : results)
    bound += result.bound;
  double room = owner.bestObjective() * scale - bound;
  room += 1e-9 * std::abs(room) + 1e-9;
  std::vector<std::vector<std::vector<uint8_t>>> alive(components.size());
  forComponents([&](size_t index) {
    double most = results[index].bound + room;
    for (int piece : components[index].pieces())
      alive[index].emplace_back(program.options[piece].size());
    for (int column : columnsOf[index])
      if (priceOf(columns[column], root.prices) < most)
        for (auto [position, option] : enumerate(columns[column].options))
          alive[index][position][option] = 1;
    components[index].markAlive(most, alive[index]);
  });
  if (secondsLeft() <= 0)
    return;
  for (auto [component, ofComponent] : zip(components, alive))
    for (auto [piece, ofPiece] : zip(component.pieces(), ofComponent))
      for (auto [active, isAlive] : zip(program.active[piece], ofPiece))
        active &= isAlive;
}

} // namespace intarsia::plan
