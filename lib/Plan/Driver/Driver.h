//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// What the planner's driver is made of.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_DRIVER_H
#define INTARSIA_LIB_PLAN_DRIVER_H

#include "dialects/Fleet/Fleet.h"
#include "intarsia/Plan/Confidence.h"
#include "intarsia/Plan/Planner.h"
#include "intarsia/Plan/Simulation.h"
#include "lib/Plan/Menus/Menus.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace intarsia::plan {

/// A system's ops as plain data. `directory` is where files of devices are looked for. Errors are at the op.
mlir::FailureOr<Fleet> fleetOf(fleet::SystemOp system, llvm::StringRef directory);

/// Where a fleet.device's `file` is.
std::string pathOfDeviceFile(llvm::StringRef file, llvm::StringRef directory);

/// Writes #fleet.placement on each task that has been put on a device. The graphs are those that the problem was made
/// of, in their order.
void writePlacements(mlir::ModuleOp module, llvm::StringRef system, const BuiltProblem &built,
                     const Placements &placements);

/// What a simulation and the cost model's errors say of a plan, and what it took to hold.
struct Checks {
  std::optional<SimulationReport> simulation;
  std::vector<BrokenPromise> broken; ///< by the simulation
  bool tightens = false;
  std::vector<std::string> simulationRounds;
  std::optional<Confidence> confidence;
  double required = 0; ///< probability; 0: none
  bool sure = true;
  bool settled = true; ///< see ConfidentPlan
  std::vector<std::string> confidenceRounds;
  std::vector<Conflict> limits; ///< why no plan is surer
  /// Whether what was required of a plan beyond the planner's own figures holds.
  bool hold() const { return sure && (!tightens || broken.empty()); }
};

/// How far the times of each piece may be off: by the errors that the serving fit made on systems that were left out of
/// it. Decodes and searches, which read memory, have those of decodes; prefills and all else that computes those of
/// first tokens. Tools and what else is outside take what the user says.
ErrorModel errorModelOf(const std::vector<workflow::Graph> &graphs, const BuiltProblem &built, ServingEngine engine);

/// Simulates and draws as the options say, and plans again where they ask for it. `problem` then has the bounds and
/// times that the plan was made for.
llvm::Error check(const PlannerOptions &options, const ErrorModel &errors,
                  const std::optional<SimulationOptions> &simulation, const SolveOptions &solveOptions,
                  PlacementProblem &problem, SolveResult &result, Checks &checks);
/// "@chat breaks its promise: …", one for each.
std::vector<std::string> brokenTexts(const PlacementProblem &problem, const Checks &checks);
/// How many replicas failed, and whether that is enough to tell what failures do; empty: devices do not fail.
std::vector<std::string> failureTexts(const SimulationReport &report);
/// What is broken in how many of the trials: "first token 0.8%, more requests than it sustains 7.2%".
std::string brokenShares(const Confidence::OfAgent &of);
/// "all together hold with 0.920 ± 0.014, at least the 0.9 that was asked for".
std::string togetherText(const Checks &checks);
void printChecks(llvm::raw_ostream &out, const PlacementProblem &problem, const Checks &checks);
/// Adds `simulation` and `confidence`.
void addChecks(llvm::json::Object &root, const PlacementProblem &problem, const Checks &checks);
/// What the simulation says of an agent.
llvm::json::Object simulatedAgent(const SimulationReport::OfAgent &of);

/// A plan of before and what became of it.
struct Replan {
  std::string since;                ///< in words: "'plan.json'", "the loss of @fast:3"
  Placements before;                ///< by the menus of now; choice -1: none of them
  std::vector<std::string> unknown; ///< what has no place of before, and why
  /// Of the plan of before under what holds now, perhaps with violations; unset unless all of it is known.
  std::optional<Evaluation> stay;
};

/// Reads what --json wrote and finds each piece by its tasks, and its choice by what it means. A file that cannot be
/// read, is no JSON, has another version of the format, or no plan, is an error that names it. `built` may have other
/// prices, rates, pools and pieces than there were.
llvm::Expected<Replan> readPrevious(const std::string &file, llvm::ArrayRef<workflow::Graph> graphs,
                                    const BuiltProblem &built);

/// What --simulate, --arrivals and --failures ask for, with their file read; unset if they ask for nothing.
llvm::Expected<std::optional<SimulationOptions>> simulationOf(const PlannerOptions &options,
                                                              const PlacementProblem &problem, size_t fleetPools);

/// Before work is done for them: outputs that cannot be written, that are the same file, or that are one of the inputs
/// which the options name.
llvm::Error checkOutputs(const PlannerOptions &options);
/// Refuses to overwrite another file that is read; `what` it is: "the file of @gpu".
llvm::Error checkIsKept(const PlannerOptions &options, const std::string &input, llvm::StringRef what);
/// Whether some result is written to "-"; what is printed otherwise then goes to standard error.
bool writesToStandardOutput(const PlannerOptions &options);
/// The file appears when it is complete; "-" is standard output, an empty name nothing.
llvm::Error writeOutput(const std::string &file, llvm::function_ref<void(llvm::raw_ostream &)> print);

/// All that is known of a plan when it is printed.
struct PlanReport {
  const std::vector<workflow::Graph> *graphs = nullptr;
  const BuiltProblem *built = nullptr;
  const PlacementProblem *problem = nullptr; ///< of `built`, perhaps without lost devices
  SolveResult result;
  std::vector<Alternative> alternatives;
  std::vector<Conflict> conflicts;
  std::vector<ParetoPoint> front;
  std::vector<Sensitivity> sensitivity;
  Checks checks;
  std::optional<Replan> replan;
  bool hardened = false; ///< made for stricter bounds or slower times than `problem` has
};

/// A row of the table: a piece.
struct PieceRow {
  std::string name, pool, precision, degrees;
  int batch = 1;
  int64_t replicas = 0;
  double devices = 0; ///< of all replicas; not whole where devices are shared
  /// With its part of what whole nodes and shared devices cost that no piece takes.
  double dollarsPerHour = 0;
  double milliseconds = 0, waitMs = 0, tokenMs = 0, utilization = 0;
  bool outside = false;
};
/// 95, 99.9, 0.2.
std::string plain(double value);
std::vector<PieceRow> rowsOf(const PlanReport &report, const Placements &placements);

/// How much of a bound is used, largest first.
struct Tightness {
  std::string what;
  double used = 0, bound = 0;
  std::string unit;
  double share() const { return bound > 0 ? used / bound : 0; }
};
std::vector<Tightness> tightnessOf(const PlanReport &report, const Evaluation &evaluation);
/// Names of the pieces on the critical path of an agent.
std::vector<std::string> criticalPath(const PlanReport &report, int agent, const Evaluation &evaluation);

/// A sensitivity in words: "price of @cheap", "$0.974/h", "below …", "above …".
struct SensitivityRow {
  std::string figure, given, below, above;
};
std::vector<SensitivityRow> sensitivityRows(const PlanReport &report);
/// What is not among the sensitivities, and why; empty: nothing.
std::string notAskedText(const PlanReport &report);

/// A piece that is not where, or not in as many replicas as, it was before. Choices by their labels.
struct PieceChange {
  std::string piece, before, now;
  int64_t replicasBefore = 0, replicasNow = 0;
  bool moves = false;
};
/// The report has a plan, and one of before.
std::vector<PieceChange> changesOf(const PlanReport &report);
/// What the plan is worth by itself, in the unit of the objective.
double objectiveWithoutMoves(const PlanReport &report);
/// "1 of 4 pieces moved since 'plan.json'".
std::string countOfMoves(const PlanReport &report);
/// What it would cost not to change anything, or what that breaks.
std::string textOfStaying(const PlanReport &report);
void printReplan(llvm::raw_ostream &out, const PlanReport &report);
llvm::json::Object replanJson(const PlanReport &report);

/// What a bound asks of a device by itself, in the choice of the menu that is fastest: of the decode whose tokens take
/// longest, or of the prefill that does.
struct Need {
  std::string piece, choice;
  ChoiceMeaning::Demand demand;
  double neededPerSecond = 0; ///< for all of the demand within the bound; bytes or flops
  double milliseconds = 0;    ///< that the choice takes: of a step, or of a mean prompt
};
/// Of a bound on the time between tokens or until the first output; unset for all else, and for agents without models.
std::optional<Need> needOf(const PlanReport &report, const Conflict &conflict);
/// A constraint that conflicts with others, what would do, and what it needs.
std::string textOf(const PlanReport &report, const Conflict &conflict);
void printReport(llvm::raw_ostream &out, const PlanReport &report);
void printSensitivity(llvm::raw_ostream &out, const PlanReport &report);
/// docs/plan.md has the schema.
void printJson(llvm::raw_ostream &out, const PlanReport &report);
/// A page that needs nothing else: no script, no font, no image from elsewhere.
void printHtml(llvm::raw_ostream &out, const PlanReport &report);
/// Each piece on a device with its choice and those that were not taken, in the form of intarsia-compile --explain. The
/// report has a plan.
void printDecisions(llvm::raw_ostream &out, const PlanReport &report);

} // namespace intarsia::plan

#endif
