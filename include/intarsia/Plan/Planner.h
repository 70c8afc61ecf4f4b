//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// From a file with agent graphs and a fleet to a plan: what intarsia-plan does.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_PLANNER_H
#define INTARSIA_PLAN_PLANNER_H

#include "intarsia/Plan/Placement.h"
#include "intarsia/Cost/ServingCost.h"

namespace intarsia {

struct PlannerOptions {
  std::string input;     ///< .mlir; "-": standard input
  std::string fleetFile; ///< with a fleet.system, if the input has none
  std::string output;    ///< where the IR with its placements goes; empty: nowhere
  std::string json;      ///< where the plan goes as JSON (docs/plan.md); empty: nowhere
  std::string report;    ///< where the plan goes as one HTML page; empty: nowhere
  std::string explain;   ///< where the decisions go as JSON, as those of intarsia-compile; empty: nowhere
  plan::Objective objective = plan::Objective::DollarsPerRequest;
  ServingEngine engine = ServingEngine::VLLM;
  /// In place of the engine's measured figures, of the form of catalogue/efficiency/serving.yaml; empty: those.
  std::string efficiencyFile;
  int paretoPoints = 0;          ///< 0: one plan
  int64_t simulatedRequests = 0; ///< 0: no simulation
  std::string arrivals;          ///< .csv of recorded arrivals to simulate; empty: Poisson at the agents' rates
  std::string deviceFailures;    ///< "5000:1": hours between failures of a device, and until it is back
  bool tightens = false;         ///< plan again while the simulation breaks a promise
  /// Draw the cost model's errors; above 0: plan until the service levels hold with this probability.
  std::optional<double> confidence;
  bool explains = true;         ///< why not the next best
  bool asksSensitivity = false; ///< which price, promise or figure would change the plan
  double timeLimitSeconds = 60;
  plan::MixedIntegerLibrary solver = plan::MixedIntegerLibrary::Cbc;
  std::string exportLp;
  std::vector<std::string> lost; ///< "@pool:N": devices that are gone; the plan with them is kept where it can be
  std::string previous;          ///< .json of an earlier run: where its plan can stay it stays; empty: none
  bool probes = false;           ///< measure this machine instead
  std::string probeFile;         ///< where its figures go; empty: printed
  double dollarsPerHourCap = plan::unlimited;
};

/// Plans and prints. Errors have been printed when it returns; 0: a plan was found, 1: an error, 2: nothing holds all
/// that is asked (what conflicts has been printed), 3: none was found in time.
int runPlanner(const PlannerOptions &options);

} // namespace intarsia

#endif
