//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The road to a plan: heuristic, bound, elimination, then the MILP, to which rows are added until what it finds holds
// all latencies. Percentiles enter as cuts (logic-based Benders decomposition: Hooker and Ottosson, 2003).
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

  /// A plan to start from, if it is one.
  void suggest(const Placements &placements);
  /// Lets the heuristic look longer for its first plan than its share of the time, if that is short.
  void insistOnPlan();
  SolveResult run();
  /// Writes the model where the options say.
  llvm::Error exportModel() const;
  /// A bound and a plan without the MILP: what is known after the heuristic and the bound.
  SolveResult estimate();

private:
  double secondsLeft() const;
  /// For at most so much of the time.
  void heuristic(double share);
  void bound();
  void milp();
  /// Each of the parts that meet in resources alone by itself, then together.
  void eachAlone(double share);
  void branchAndPrice();
  /// Evaluates a plan and keeps it if it holds everything and is the best so far.
  bool offer(llvm::ArrayRef<int> assignment);
  /// Rows that an assignment violates, added; false if there are none.
  bool addViolatedRows(llvm::ArrayRef<int> assignment, const Evaluation &evaluation, double estimatedObjective);
  void addRow(Row row);
  void addPathRow(const LatencyCheck &check, llvm::ArrayRef<int> assignment);
  /// From a plan whose percentile is too high (or, for the objective, has the value `level`).
  Row speedCut(int agent, Measure measure, llvm::ArrayRef<int> assignment, double level, bool objective);
  /// Plans whose means are bounded such that percentiles hold: bounds move by what the percentiles of the last plan
  /// lack.
  void boundMeans(double share);
  /// A cut that an assignment breaks whose percentile is too high.
  std::optional<Row> brokenPercentile(int agent, llvm::ArrayRef<int> assignment);
  double percentileOf(int agent, Measure measure, llvm::ArrayRef<Stage> stages, llvm::ArrayRef<double> edgeMs) const;
  MixedIntegerProgram build(std::vector<std::vector<int>> &optionColumns, std::vector<std::vector<int>> &pairColumns,
                            std::vector<int> &nodeColumns, std::vector<int> &latencyColumns) const;
  /// The options that a solution takes; empty if it is none.
  std::vector<int> assignmentOf(const MixedIntegerResult &result,
                                const std::vector<std::vector<int>> &optionColumns) const;
  std::vector<double> startOf(const MixedIntegerProgram &milp, const std::vector<std::vector<int>> &optionColumns,
                              const std::vector<std::vector<int>> &pairColumns, const std::vector<int> &nodeColumns,
                              const std::vector<int> &latencyColumns) const;
  double gap() const;
  /// A plan that costs a whole device may as well use it: what shares takes more of what nobody takes.
  double meanMsOf(const Evaluation &evaluation) const;
  /// Of plans that are as good, one that is faster: options that cost no more, a piece or two alike at a time.
  void preferFaster();
  void fillSharedDevices();
  SolveResult finish();

  Clock::time_point begin = Clock::now(), deadline; ///< first: options are listed within the time, too
  const PlacementProblem &problem;
  SolveOptions options;
  std::vector<std::pair<int, int>> forbidden; ///< choices, by piece
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
