//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The solver: heuristic, bound, elimination, then the MILP, to which rows are added until its solution satisfies all
// latencies. Percentiles enter as cuts (logic-based Benders decomposition: Hooker and Ottosson, 2003).
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SOLVER_H
#define INTARSIA_PLAN_SOLVER_H

#include "BranchAndPrice.h"
#include "Lagrangian.h"
#include "LocalSearch.h"
#include "MixedInteger.h"

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
  /// Writes the model to the file that the options name.
  llvm::Error exportModel() const;
  /// Returns a bound and a plan without the MILP: the results of the heuristic and the bound.
  SolveResult estimate();

private:
  double secondsLeft() const;
  /// Runs for at most this share of the time.
  void heuristic(double share);
  void bound();
  void milp();
  /// Solves the parts that share only resources each alone, then together.
  void eachAlone(double share);
  void branchAndPrice();
  /// Evaluates a plan and keeps it if it is feasible and the best so far.
  bool offer(llvm::ArrayRef<int> assignment);
  /// Adds the rows that an assignment violates; returns false if there are none.
  bool addViolatedRows(llvm::ArrayRef<int> assignment, const Evaluation &evaluation, double estimatedObjective);
  void addRow(Row row);
  void addPathRow(const LatencyCheck &check, llvm::ArrayRef<int> assignment);
  /// Returns a cut from a plan whose percentile is too high (or, for the objective, has the value `level`).
  Row speedCut(int agent, Measure measure, llvm::ArrayRef<int> assignment, double level, bool objective);
  /// Searches for plans with bounded means until the percentiles hold: each round moves the bounds by the excess of the
  /// last plan's percentiles.
  void boundMeans(double share);
  /// Returns a cut that excludes an assignment whose percentile is too high.
  std::optional<Row> brokenPercentile(int agent, llvm::ArrayRef<int> assignment);
  double percentileOf(int agent, Measure measure, llvm::ArrayRef<Stage> stages, llvm::ArrayRef<double> edgeMs) const;
  MixedIntegerProgram build(std::vector<std::vector<int>> &optionColumns, std::vector<std::vector<int>> &pairColumns,
                            std::vector<int> &nodeColumns, std::vector<int> &latencyColumns) const;
  /// Returns the options that a solution takes; empty if there is no solution.
  std::vector<int> assignmentOf(const MixedIntegerResult &result,
                                const std::vector<std::vector<int>> &optionColumns) const;
  std::vector<double> startOf(const MixedIntegerProgram &milp, const std::vector<std::vector<int>> &optionColumns,
                              const std::vector<std::vector<int>> &pairColumns, const std::vector<int> &nodeColumns,
                              const std::vector<int> &latencyColumns) const;
  double gap() const;
  double meanMsOf(const Evaluation &evaluation) const;
  /// Moves to faster options that cost no more, one piece or two linked pieces at a time.
  void preferFaster();
  /// Doubles device shares where that costs nothing: a device that the plan pays for may as well be used.
  void fillSharedDevices();
  SolveResult finish();

  Clock::time_point begin = Clock::now(), deadline; ///< declared first: building the options counts as solver time
  const PlacementProblem &problem;
  SolveOptions options;
  std::vector<std::pair<int, int>> forbidden; ///< forbidden choices, by piece
  Figures figures;
  Program program;
  std::unique_ptr<Lagrangian> lagrangian;
  std::vector<Row> rows;
  bool hasPercentiles = false;
  std::vector<int> best;
  Evaluation bestEvaluation;
  double bestObjective = unlimited, lowerBound = -unlimited;
  bool infeasible = false;
  double objectiveOfBestAlone = unlimited; ///< finite if each part's own best plan fits beside the others'
  double firstPlanSeconds = 0;
  SolveResult::Statistics statistics;
};

} // namespace intarsia::plan

#endif
