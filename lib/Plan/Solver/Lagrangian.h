//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A bound by Lagrangian relaxation. Rows (capacities, caps, bandwidths, critical paths) get prices; the remaining
// pairwise problem over the graph of pieces is bounded by message passing (sequential tree-reweighted message passing:
// Kolmogorov, PAMI 28(10), 2006; on forests it is exact dynamic programming). The bound equals that of the linear
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

  /// Adds a row, which has a price from now on.
  void addRow(Row row);
  size_t rowCount() const { return rows.size(); }

  struct Step {
    double bound;
    std::vector<int> assignment; ///< a minimizer of the priced problem (exact on forests), option by piece
  };
  /// Returns the bound and the assignment at the present prices.
  Step evaluate();
  /// Moves prices along the subgradient at `step`, for a target value of the objective.
  void move(const Step &step, double target, double agility);

  /// Returns lower bounds of the rise of the bound if a piece takes an option; valid after evaluate().
  const std::vector<std::vector<double>> &rises() const { return optionRises; }

  /// Computes costs with only resources priced, at the best prices so far. Returns the value of the resource limits at
  /// these prices, to be subtracted.
  double priceResources(std::vector<std::vector<double>> &options, std::vector<std::vector<double>> &pairs);

  std::vector<double> prices;
  void keepBest() { bestPrices = prices; }
  /// Restores the best prices; rows added since get the price 0.
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
  /// Objective weights of the variables that rows name by `latencyOf`: latencies of agents, then shared devices by
  /// pool.
  std::vector<double> weights;
  std::vector<Row> rows;
  size_t resourceRows = 0;
  std::vector<double> scales; ///< divisors of the rows
  std::vector<double> bestPrices;
  std::vector<int> order, position; ///< order of the pieces, and position of each in it
  std::vector<double> share;        ///< by piece: the share of its potential that each message takes
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
