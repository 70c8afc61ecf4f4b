//===- LeastCost.cpp - Labels of variables with the least sum of costs --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/LeastCost.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include <deque>

using namespace llvm;
using namespace intarsia::fuse;

/// A variable with so few entries is taken at once, without looking for a better one.
constexpr size_t smallTable = 64;

unsigned LeastCost::addVariable(unsigned labels) {
  assert(labels > 0 && labels <= 32 && "labels are bits");
  counts.push_back(labels);
  tablesOf.emplace_back();
  return counts.size() - 1;
}

void LeastCost::add(Table table) {
  for (unsigned variable : table.variables)
    tablesOf[variable].push_back(tables.size());
  tables.push_back(std::move(table));
}

LeastCost::Allowed LeastCost::everything() const {
  Allowed allowed;
  for (unsigned count : counts)
    allowed.push_back(count == 32 ? ~uint32_t(0) : (uint32_t(1) << count) - 1);
  return allowed;
}

SmallVector<unsigned> LeastCost::around(ArrayRef<unsigned> variables, size_t most) const {
  SetVector<unsigned> found;
  found.insert(variables.begin(), variables.end());
  for (unsigned i = 0; i < found.size(); ++i)
    for (unsigned table : tablesOf[found[i]])
      for (unsigned other : tables[table].variables)
        if (found.size() < most)
          found.insert(other);
  return found.takeVector();
}

double LeastCost::at(const Table &table, ArrayRef<unsigned> labels) const {
  size_t index = 0;
  for (unsigned variable : table.variables)
    index = index * counts[variable] + labels[variable];
  return table.costs[index];
}

LeastCost::Solution LeastCost::solve(ArrayRef<unsigned> variables, const Allowed &allowed) const {
  std::deque<Table> made; // keeps its elements where they are
  SmallVector<const Table *> pending;
  llvm::SmallDenseSet<unsigned> used;
  for (unsigned variable : variables)
    for (unsigned table : tablesOf[variable])
      if (used.insert(table).second)
        pending.push_back(&tables[table]);
  Allowed open = allowed;

  // What an eliminated variable takes: the table of its neighbours has its best label.
  struct Eliminated {
    unsigned variable;
    Table best;
  };
  std::vector<Eliminated> eliminated;
  SmallVector<unsigned> remaining(variables);
  auto neighboursOf = [&](unsigned variable) {
    SetVector<unsigned> neighbours;
    for (const Table *table : pending)
      if (is_contained(table->variables, variable))
        for (unsigned other : table->variables)
          if (other != variable && !isPowerOf2_32(open[other]))
            neighbours.insert(other);
    return neighbours;
  };
  auto sizeOf = [&](ArrayRef<unsigned> variables) {
    size_t entries = 1;
    for (unsigned variable : variables)
      entries = std::min(entries * counts[variable], largestTable + 1);
    return entries;
  };
  Labels labels(counts.size(), 0);
  while (!remaining.empty()) {
    unsigned next = remaining.front();
    size_t least = SIZE_MAX, most = 0;
    unsigned crowded = next;
    for (unsigned variable : remaining) {
      SetVector<unsigned> neighbours = neighboursOf(variable);
      if (size_t entries = sizeOf(neighbours.getArrayRef()); entries < least) {
        least = entries;
        next = variable;
      }
      if (neighbours.size() > most && !isPowerOf2_32(open[variable])) {
        most = neighbours.size();
        crowded = variable;
      }
      if (least <= smallTable)
        break;
    }
    if (least > largestTable) {
      open[crowded] &= -open[crowded];
      continue;
    }
    // Variables with one label left do not count as neighbours.
    SmallVector<const Table *> own;
    erase_if(pending, [&](const Table *table) {
      if (!is_contained(table->variables, next))
        return false;
      own.push_back(table);
      return true;
    });
    SetVector<unsigned> neighbours;
    for (const Table *table : own)
      for (unsigned other : table->variables)
        if (other != next) {
          if (isPowerOf2_32(open[other]))
            labels[other] = Log2_32(open[other]);
          else
            neighbours.insert(other);
        }
    Table costs{SmallVector<unsigned>(neighbours.getArrayRef()), {}}, best = costs;
    for (size_t entry = 0, entries = sizeOf(neighbours.getArrayRef()); entry < entries; ++entry) {
      size_t rest = entry;
      for (unsigned variable : reverse(neighbours)) {
        labels[variable] = rest % counts[variable];
        rest /= counts[variable];
      }
      double lowest = infinity;
      unsigned chosen = countr_zero(open[next]);
      for (unsigned label = 0; label < counts[next]; ++label) {
        if (!(open[next] >> label & 1))
          continue;
        labels[next] = label;
        double sum = 0;
        for (const Table *table : own)
          sum += at(*table, labels);
        if (sum < lowest) {
          lowest = sum;
          chosen = label;
        }
      }
      costs.costs.push_back(lowest);
      best.costs.push_back(chosen);
    }
    made.push_back(std::move(costs));
    pending.push_back(&made.back());
    eliminated.push_back({next, std::move(best)});
    llvm::erase(remaining, next);
  }
  Solution solution;
  solution.labels.assign(counts.size(), 0);
  for (const Table *table : pending) {
    assert(table->variables.empty() && "all variables are eliminated");
    solution.cost += table->costs.front();
  }
  for (const Eliminated &each : reverse(eliminated))
    solution.labels[each.variable] = unsigned(at(each.best, solution.labels));
  return solution;
}
