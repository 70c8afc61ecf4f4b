//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A bound by Lagrangian relaxation: rows (capacities, caps, bandwidths, critical paths) get prices, and what is left,
// a pairwise problem over the graph of pieces, is bounded by passing messages (sequential tree-reweighted message
// passing: Kolmogorov, PAMI 28(10), 2006; on forests it is exact dynamic programming). The bound is that of the linear
// relaxation with one variable for each pair of groups, at a cost linear in the pairs.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_LAGRANGIAN_H
#define INTARSIA_PLAN_LAGRANGIAN_H

#include "Program.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace intarsia::plan {

class Lagrangian {
public:
  explicit Lagrangian(const Program &program);

  /// Gives a row a price, from now on.
  void addRow(Row row);
  size_t rowCount() const { return rows.size(); }

  struct Step {
    double bound;
    std::vector<int> assignment; ///< a minimizer of the priced problem (on forests), option by piece
  };
  /// Bound and assignment at the present prices.
  Step evaluate();
  /// Moves prices along the subgradient at `step`, for a target value of the objective.
  void move(const Step &step, double target, double agility);

  /// How much the bound rises at least if a piece takes an option; valid after evaluate().
  const std::vector<std::vector<double>> &rises() const { return optionRises; }

  /// Costs with only resources priced, at the best prices seen; returns what is taken off for what the resources have.
  double priceResources(std::vector<std::vector<double>> &options, std::vector<std::vector<double>> &pairs);

  std::vector<double> prices;
  void keepBest() { bestPrices = prices; }
  /// Rows that came later get no price.
  void restoreBest() {
    if (bestPrices.empty())
      return;
    size_t rows = prices.size();
    prices = bestPrices;
    prices.resize(rows, 0.0);
  }

private:
  double activity(const Row &row, llvm::ArrayRef<int> assignment) const;
  void price();

  const Program &program;
  /// In the objective, of the variables that rows name by `latencyOf`: latencies of agents, then devices that are
  /// shared, by pool.
  std::vector<double> weights;
  std::vector<Row> rows;
  size_t resourceRows = 0;
  std::vector<double> scales; ///< rows are divided by these
  std::vector<double> bestPrices;
  std::vector<int> order, position; ///< of pieces
  std::vector<double> share;        ///< of a piece's potential that each message takes
  struct Neighbor {
    int pair, other;
    bool first; ///< this piece is the pair's `from`
  };
  std::vector<std::vector<Neighbor>> before, after; ///< by piece
  std::vector<std::vector<double>> optionCosts, groupCosts;
  std::vector<std::vector<double>> pairCosts;
  std::vector<std::vector<double>> toFrom, toTo; ///< messages by pair
  std::vector<std::vector<double>> optionRises;
};

} // namespace intarsia::plan

#endif
