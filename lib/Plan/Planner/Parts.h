//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Parts of the planner: from a file of IR to a plan and its outputs.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_PARTS_H
#define INTARSIA_LIB_PLAN_PARTS_H

#include "dialects/Fleet/Fleet.h"
#include "intarsia/Plan/Confidence.h"
#include "intarsia/Plan/Planner.h"
#include "intarsia/Plan/Simulation.h"
#include "lib/Plan/Candidates/Candidates.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace intarsia::plan {

/// Returns a system's ops as plain data. Files of devices are relative to `directory`. Errors are at the op.
mlir::FailureOr<Fleet> fleetOf(fleet::SystemOp system, llvm::StringRef directory);

/// Returns the path of a fleet.device's `file`.
std::string pathOfDeviceFile(llvm::StringRef file, llvm::StringRef directory);

/// Writes #fleet.placement on each task that is placed on a device. The graphs must be those that the problem was built
/// from, in their order.
void writePlacements(mlir::ModuleOp module, llvm::StringRef system, const BuiltProblem &built,
                     const Placements &placements);

/// Results of the simulation and of sampling the cost model's errors.
struct Checks {
  std::optional<SimulationReport> simulation;
  std::vector<BrokenPromise> broken; ///< by the simulation
  bool tightens = false;
  std::vector<std::string> simulationRounds;
  std::optional<Confidence> confidence;
  bool asksConfidence = false; ///< by the user; every plan has the figure
  double required = 0;         ///< required probability; 0: none
  bool sure = true;
  bool settled = true; ///< see ConfidentPlan
  std::vector<std::string> confidenceRounds;
  std::vector<Conflict> limits; ///< reasons why no plan is more probable to hold
  /// Returns true if the plan holds the requirements beyond the planner's own figures.
  bool hold() const { return sure && (!tightens || broken.empty()); }
};

/// Returns the errors of the times of each piece: those of the serving fit on systems that were left out of it. Decodes
/// and searches, which read memory, have the errors of decodes; prefills and other computations those of first tokens.
/// Tools and other work outside have the times that the user gives.
ErrorModel errorModelOf(const std::vector<workflow::Graph> &graphs, const BuiltProblem &built, ServingEngine engine);

/// Simulates and samples errors as the options say, and plans again if they ask for it. `problem` then has the bounds
/// and times that the plan was made for.
llvm::Error check(const PlannerOptions &options, const ErrorModel &errors,
                  const std::optional<SimulationOptions> &simulation, const SolveOptions &solveOptions,
                  PlacementProblem &problem, SolveResult &result, Checks &checks);
/// Returns "@chat breaks its promise: …" for each broken bound.
std::vector<std::string> brokenTexts(const PlacementProblem &problem, const Checks &checks);
/// Returns the number of replica failures, and whether it is enough to tell their effect; empty: devices do not fail.
std::vector<std::string> failureTexts(const SimulationReport &report);
/// Returns the shares of the trials that violate each bound: "first token 0.8%, more requests than it sustains 7.2%".
std::string brokenShares(const Confidence::OfAgent &of);
/// Returns "all together hold with 0.920 ± 0.014, at least the 0.9 that was asked for".
std::string togetherText(const Checks &checks);
void printChecks(llvm::raw_ostream &out, const PlacementProblem &problem, const Checks &checks);
/// Adds `simulation` and `confidence`.
void addChecks(llvm::json::Object &root, const PlacementProblem &problem, const Checks &checks);
/// Returns the simulated figures of an agent.
llvm::json::Object simulatedAgent(const SimulationReport::OfAgent &of);

/// The previous plan, and its state now.
struct Replan {
  std::string since;                ///< origin, in words: "'plan.json'", "the loss of @fast:3"
  Placements before;                ///< its choices in the present candidates; choice -1: not among them
  std::vector<std::string> unknown; ///< parts of the previous plan that cannot be found now, and why
  /// The previous plan evaluated under current prices and limits, perhaps with violations; unset if any piece is
  /// unknown.
  std::optional<Evaluation> stay;
};

/// Reads a file that --json wrote and matches each piece by its tasks, and its choice by its meaning. The error names a
/// file that cannot be read, is not JSON, has another version of the format, or has no plan. `built` may have other
/// prices, rates, pools and pieces than the file.
llvm::Expected<Replan> readPrevious(const std::string &file, llvm::ArrayRef<workflow::Graph> graphs,
                                    const BuiltProblem &built);

/// Returns the simulation that --simulate, --arrivals and --failures ask for, with the arrivals read; unset if none.
llvm::Expected<std::optional<SimulationOptions>> simulationOf(const PlannerOptions &options,
                                                              const PlacementProblem &problem, size_t fleetPools);

/// Checks the outputs before the work begins: fails if one cannot be written, if two are the same file, or if one is an
/// input that the options name.
llvm::Error checkOutputs(const PlannerOptions &options);
/// Refuses to overwrite an input file; `what` describes it: "the file of @gpu".
llvm::Error checkIsKept(const PlannerOptions &options, const std::string &input, llvm::StringRef what);
/// Returns true if some result is written to "-"; everything else is then printed to standard error.
bool writesToStandardOutput(const PlannerOptions &options);
/// Writes a file atomically; "-" is standard output, an empty name means no file.
llvm::Error writeOutput(const std::string &file, llvm::function_ref<void(llvm::raw_ostream &)> print);

/// Part of the capacity that a plan leaves free, and what that costs.
constexpr double usualLevel = 0.9;
struct Headroom {
  /// Share that the user asked for. Unset: each piece sustains its load at the times that it exceeds with probability
  /// 1 - usualLevel.
  std::optional<double> share;
  std::string factors; ///< of those times: "decode × 1.25, first_token × 1.98"
  bool any = false;    ///< some piece has headroom
  /// True if there is no plan with the headroom, and the user did not ask for it: the plan has none.
  bool left = false;
  /// Objective of the best plan without headroom that was found, and whether none is better.
  std::optional<double> without;
  bool settled = true;
};

/// Everything known about a plan when it is printed.
struct PlanReport {
  const std::vector<workflow::Graph> *graphs = nullptr;
  const BuiltProblem *built = nullptr;
  const PlacementProblem *problem = nullptr; ///< problem of `built`, perhaps without lost devices
  SolveResult result;
  std::vector<Alternative> alternatives;
  std::vector<Conflict> conflicts;
  std::vector<ParetoPoint> front;
  bool frontIsComplete = true;
  /// Latency as the objective: the share by which a faster plan was given up for a cheaper one; 0: none.
  double latencyRoom = 0;
  std::vector<Sensitivity> sensitivity;
  Checks checks;
  std::optional<Replan> replan;
  Headroom headroom;
  bool hardened = false; ///< the plan was made for stricter bounds or slower times than those of `problem`
};

/// A row of the table: a piece.
struct PieceRow {
  std::string name, pool, precision, degrees;
  int batch = 1;
  int64_t replicas = 0;
  double devices = 0; ///< sum over replicas; fractional where devices are shared
  /// Includes the piece's part of the unused rest of whole nodes and shared devices.
  double dollarsPerHour = 0;
  double milliseconds = 0, waitMs = 0, tokenMs = 0, utilization = 0;
  double unscaledMs = 0; ///< of an execution of scale 1; tasks that share the piece have scales of their own
  bool outside = false;
};
/// Returns the piece whose replicas a piece runs in: the other end of an edge that ties both choices to the same
/// replicas if the piece's own choice has no devices; else the piece itself.
int hostOf(const PlacementProblem &problem, const Placements &placements, int piece);
/// Returns "@cheap", or the name of a pool outside the fleet.
std::string poolName(const PlanReport &report, int pool);
std::vector<PieceRow> rowsOf(const PlanReport &report, const Placements &placements);
/// Returns why the compiler makes no artifact of a piece's model, by piece; empty where it makes one, or none is
/// needed.
std::vector<std::string> notCompiledOf(const PlanReport &report);
/// Returns "'answer.decode' is split over …", for each reason once; pieces of one reason are named together.
std::vector<std::string> notCompiledTexts(const PlanReport &report);

/// Returns the tasks of a piece, as (agent, task).
std::vector<std::pair<int, int>> tasksOf(const PlanReport &report, int piece);
/// Returns the mean milliseconds in service of one task, which may share its piece with others.
double taskMs(const PlanReport &report, const PieceRow &row, int agent, int task);
/// Returns the uncertain figures, without those of devices that the plan does not use.
std::vector<std::string> unsureOf(const PlanReport &report);

/// Used share of a bound, largest first.
struct Tightness {
  std::string what;
  double used = 0, bound = 0;
  std::string unit;
  double share() const { return bound > 0 ? used / bound : 0; }
};
std::vector<Tightness> tightnessOf(const PlanReport &report, const Evaluation &evaluation);
/// Returns the names of the pieces on the critical path of an agent, those of all cases of a branch.
std::vector<std::string> criticalPath(const PlanReport &report, int agent, const Evaluation &evaluation);
/// Returns the critical path in words; of cases one of which is taken, "(a > b | c)".
std::string criticalPathText(const PlanReport &report, int agent, const Evaluation &evaluation);

/// A sensitivity in words: "price of @cheap", "$0.974/h", "below …", "above …".
struct SensitivityRow {
  std::string figure, given, below, above;
};
std::vector<SensitivityRow> sensitivityRows(const PlanReport &report);
/// Returns the sensitivities that were not computed, and why; empty: all were.
std::string notAskedText(const PlanReport &report);

/// A piece whose choice or number of replicas has changed. Choices are given by their labels.
struct PieceChange {
  std::string piece, before, now;
  int64_t replicasBefore = 0, replicasNow = 0;
  bool moves = false;
};
/// Returns the changes since the previous plan; the report must have a plan and a previous one.
std::vector<PieceChange> changesOf(const PlanReport &report);
/// Returns the objective without the cost of moves.
double objectiveWithoutMoves(const PlanReport &report);
/// Returns "1 of 4 pieces moved since 'plan.json'".
std::string countOfMoves(const PlanReport &report);
/// Returns the cost of changing nothing, or what that violates.
std::string textOfStaying(const PlanReport &report);
void printReplan(llvm::raw_ostream &out, const PlanReport &report);
llvm::json::Object replanJson(const PlanReport &report);

/// Demand of a bound on one device, for the candidate with the least time: for the decode whose tokens take longest, or
/// for the prefill that takes longest.
struct Need {
  std::string piece, choice;
  ChoiceMeaning::Demand demand;
  double neededPerSecond = 0; ///< rate at which the whole demand meets the bound; bytes or flops
  double milliseconds = 0;    ///< time of the choice: for a forward step, or for a mean prompt
};
/// Returns the need of a bound on the time between tokens or until the first output; unset for other constraints, and
/// for agents without models.
std::optional<Need> needOf(const PlanReport &report, const Conflict &conflict);
/// Returns a constraint of a conflict in words, with the value that would be enough and its need.
std::string textOf(const PlanReport &report, const Conflict &conflict);
/// Returns how the constraints of a conflict belong together: "No plan holds this".
llvm::StringRef textOfConflicts(const PlanReport &report);
/// Returns "p95, end to end, stands at a jump: …" for each percentile of an agent that does.
std::vector<std::string> jumpTexts(const Agent &agent, const Evaluation::OfAgent &of);
/// Prints the plan, or what conflicts.
void printPlanOf(llvm::raw_ostream &out, const PlanReport &report);
/// Prints what is said of a plan after it: the next best, sensitivities, the front, checks, uncertain figures.
void printExplanations(llvm::raw_ostream &out, const PlanReport &report);
/// Returns what the headroom of a plan costs, and how to change it; empty if the plan has no load.
std::string textOfHeadroom(const PlanReport &report);
/// Returns how probable the promises hold, in one sentence; needs `checks.confidence`.
std::string textOfProbability(const PlanReport &report);
void printSensitivity(llvm::raw_ostream &out, const PlanReport &report);
/// Returns the plan as JSON, which docs/plan.schema.json describes.
llvm::json::Object jsonOf(const PlanReport &report);
void printJson(llvm::raw_ostream &out, const PlanReport &report);
/// Prints a page that draws the plan. It fetches nothing.
void printPage(llvm::raw_ostream &out, const PlanReport &report);
/// Prints each piece on a device with its choice and the alternatives, in the form of intarsia-compile --explain. The
/// report must have a plan.
void printDecisions(llvm::raw_ostream &out, const PlanReport &report);

} // namespace intarsia::plan

#endif
