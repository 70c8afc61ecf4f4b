//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A fast heuristic: descent by moves of one piece, of both ends of a pair, and of what belongs together from pool to
// pool, with violations priced into the cost.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_LOCALSEARCH_H
#define INTARSIA_PLAN_LOCALSEARCH_H

#include "Program.h"
#include <chrono>

namespace intarsia::plan {

using Clock = std::chrono::steady_clock;
inline double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class LocalSearch {
public:
  explicit LocalSearch(const Program &program);

  /// Improves an assignment until no move helps or time is over. The result may violate rows if the search finds no
  /// plan that satisfies them; `violation()` tells. `tightening` is a factor for each agent on the limits of checks
  /// that only bound a percentile from below.
  void run(std::vector<int> &assignment, llvm::ArrayRef<double> tightening, Clock::time_point deadline);
  double cost() const { return currentCost; }
  double violation() const { return currentViolation; }

private:
  struct Change {
    int piece, option;
  };
  void reset(llvm::ArrayRef<int> assignment);
  /// Applies changes to the totals and returns (cost, violation) of everything but latencies.
  void apply(llvm::ArrayRef<Change> changes);
  std::pair<double, double> totals() const;
  double latencyViolation(int agent, double &objective) const;
  bool attempt(llvm::ArrayRef<Change> changes);
  void findBlocks();
  /// Tries to move blocks to one pool: each alone, two that share a pool or exchange data, and all of a pool.
  bool moveBlocks(Clock::time_point deadline);
  /// Tries to move these blocks to a pool, those that can be there.
  bool moveTo(llvm::ArrayRef<int> blocks, int pool);
  int poolOf(int piece, int option) const {
    return program.problem.pieces[piece].candidates[program.options[piece][option].choice].pool;
  }

  const Program &program;
  std::vector<double> tightening;
  std::vector<std::vector<int>> checksOf; ///< by agent
  std::vector<std::vector<int>> agentsOf; ///< by piece: agents with checks
  /// Options, by piece, that moves of two pieces try: for each group a few of the cheapest and a few of the fastest.
  /// Moves of one piece try all options.
  std::vector<std::vector<int>> candidates;
  std::vector<std::vector<std::pair<int, int>>> candidatesOfPairs; ///< by pair: those on one pool that go together
  /// Pieces that only go together: prefill and decode of a model, in precisions or replicas that both have, and what
  /// must share a pool.
  struct Block {
    std::vector<int> pieces;
    /// By pool: options of all its pieces there, the cheapest and the fastest; empty: it cannot be there.
    std::vector<std::vector<std::vector<int>>> there;
  };
  std::vector<Block> blocks;
  std::vector<int> blockOf; ///< by piece
  std::vector<int> current;
  double linearCost = 0;
  std::vector<double> usage; ///< by resource, without what nodes use
  std::vector<double> agentViolation, agentObjective;
  double currentCost = 0, currentViolation = 0, penalty = 0, unit = 1;
};

} // namespace intarsia::plan

#endif
