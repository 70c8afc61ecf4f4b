//===- LeastCost.h - Labels of variables with the least sum of costs ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_LEASTCOST_H
#define INTARSIA_LIB_FUSE_LEASTCOST_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <limits>
#include <vector>

namespace intarsia::fuse {

/// Chooses a label for each variable so that a sum of costs, each of which depends on one or two variables, is least.
/// Variables are eliminated one after another (dynamic programming over the graph, R. Dechter, "Bucket elimination",
/// 1999): exact on chains, trees and wherever few paths run side by side. Where a table would have more than
/// `largestTable` entries, the variable with the most neighbours takes its first label.
class LeastCost {
public:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr size_t largestTable = size_t(1) << 18;
  using Labels = llvm::SmallVector<unsigned>;
  /// The labels that variables may take, a bit each.
  using Allowed = llvm::SmallVector<uint32_t>;

  struct Solution {
    double cost = 0; ///< infinite if no labels are allowed together
    Labels labels;   ///< of all variables; 0 of those that were not asked for
  };

  /// Adds a variable with so many labels, at most 32.
  unsigned addVariable(unsigned labels);
  unsigned labelsOf(unsigned variable) const { return counts[variable]; }
  size_t size() const { return counts.size(); }
  /// Adds a cost for each label of a variable.
  void addCost(unsigned variable, std::vector<double> costs) { add({{variable}, std::move(costs)}); }
  /// Adds a cost for each pair of labels, those of the second variable side by side.
  void addCost(unsigned first, unsigned second, std::vector<double> costs) { add({{first, second}, std::move(costs)}); }

  /// All labels of all variables.
  Allowed everything() const;
  /// Returns variables and those that depend on them, the nearest ones first, at most so many.
  llvm::SmallVector<unsigned> around(llvm::ArrayRef<unsigned> variables, size_t most = SIZE_MAX) const;
  /// Returns the best labels of some variables, and the sum of all costs that depend on them. Other variables that they
  /// depend on are allowed one label each.
  Solution solve(llvm::ArrayRef<unsigned> variables, const Allowed &allowed) const;

private:
  /// Costs by the labels of variables, those of the last one side by side.
  struct Table {
    llvm::SmallVector<unsigned> variables;
    std::vector<double> costs;
  };
  void add(Table table);
  double at(const Table &table, llvm::ArrayRef<unsigned> labels) const;

  llvm::SmallVector<unsigned> counts;
  std::vector<Table> tables;
  std::vector<llvm::SmallVector<unsigned>> tablesOf; ///< by variable
};

} // namespace intarsia::fuse

#endif
