//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The planner of intarsia-plan: from a file with agent graphs and a fleet to a plan.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_PLANNER_H
#define INTARSIA_PLAN_PLANNER_H

#include "intarsia/Cost/ServingCost.h"
#include "intarsia/Plan/Placement.h"

namespace intarsia {

struct PlannerOptions {
  std::string input;     ///< .mlir; "-": standard input
  std::string fleetFile; ///< file with a fleet.system, if the input has none
  std::string output;    ///< file for the IR with its placements; empty: none
  std::string json;      ///< file for the plan as JSON (docs/plan.md); empty: none
  std::string report;    ///< file for the plan as one HTML page; empty: none
  std::string explain;   ///< file for the decisions as JSON, in the form of intarsia-compile; empty: none
  plan::Objective objective = plan::Objective::DollarsPerRequest;
  ServingEngine engine = ServingEngine::VLLM;
  /// Figures that replace the engine's measured ones, in the form of catalogue/efficiency/serving.yaml; empty: none.
  std::string efficiencyFile;
  int paretoPoints = 0;          ///< 0: one plan
  int64_t simulatedRequests = 0; ///< 0: no simulation
  std::string arrivals;          ///< .csv of recorded arrivals for the simulation; empty: Poisson at the agents' rates
  std::string deviceFailures;    ///< "5000:1": hours between failures of a device, and until it is back
  bool tightens = false;         ///< plan again while the simulation breaks a promise
  /// Samples the cost model's errors; above 0: plans until the service levels hold with this probability.
  std::optional<double> confidence;
  /// Share of what the replicas on the fleet sustain that stays free. Unset: as much as slower times need that one in
  /// ten exceeds by the cost model's measured errors, where there is such a plan.
  std::optional<double> headroom;
  double latencyRoom = 1e-3;    ///< latency as the objective: share by which a cheaper plan may be slower
  bool explains = true;         ///< explain each choice by the next best
  bool asksSensitivity = false; ///< find the prices, promises and figures that would change the plan
  double timeLimitSeconds = 60;
  std::vector<std::string> lost; ///< "@pool:N": lost devices; the plan with them is kept where possible
  std::string previous;          ///< .json of an earlier run, whose plan is kept where possible; empty: none
  std::string parallel;          ///< cost the training configurations of this file instead; empty: do not
  bool probes = false;           ///< measure this machine instead
  std::string probeFile;         ///< file for the measured figures; empty: printed
  double dollarsPerHourCap = plan::unlimited;
  double probeSeconds = 120;    ///< with `probes`: for how long models are measured on it; 0: none
  WaferTimes *wafers = nullptr; ///< makes programs for wafers; without it these are not offered
  std::string compare;          ///< compare the plan `input` with the times in this file instead; empty: do not
};

/// Plans and prints, including errors. Returns 0: a plan was found, 1: an error, 2: the request is infeasible (the
/// conflicts have been printed), 3: no plan was found in time.
int runPlanner(const PlannerOptions &options);

} // namespace intarsia

#endif
