//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The solver: local search for a first plan, then branch and price.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SOLVER_H
#define INTARSIA_PLAN_SOLVER_H

#include "BranchAndPrice.h"
#include "LocalSearch.h"

namespace intarsia::plan {

class Solver {
public:
  Solver(const PlacementProblem &problem, const SolveOptions &options,
         llvm::ArrayRef<std::pair<int, int>> forbiddenChoices = {});

  /// Suggests an initial plan; ignored if it is not feasible.
  void suggest(const Placements &placements);
  /// Allows the heuristic more than its share of a short time limit to find a first plan.
  void insistOnPlan();
  SolveResult run();

private:
  double secondsLeft() const;
  /// Runs for at most this share of the time.
  void heuristic(double share);
  void branchAndPrice();
  /// Evaluates a plan and keeps it if it is feasible and the best so far.
  bool offer(llvm::ArrayRef<int> assignment);
  double gap() const;
  double meanMsOf(const Evaluation &evaluation) const;
  /// Moves to faster options that cost no more, one piece or two linked pieces at a time. The last step.
  void preferFaster();
  /// Doubles device shares where that costs nothing: a device that the plan pays for may as well be used.
  void fillSharedDevices();
  SolveResult finish();

  Clock::time_point begin = Clock::now(), deadline; ///< declared first: building the options counts as solver time
  const PlacementProblem &problem;
  SolveOptions options;
  Figures figures;
  Program program;
  bool hasPercentiles = false;
  std::vector<int> best;
  Placements faster; ///< than `best` at its cost; empty: none is known
  Evaluation bestEvaluation;
  double bestObjective = unlimited, lowerBound = 0; ///< nothing costs less than nothing
  bool infeasible = false;
  std::vector<std::pair<Conflict::Kind, int>> scarce;
  double firstPlanSeconds = 0;
  SolveResult::Statistics statistics;
};

} // namespace intarsia::plan

#endif
