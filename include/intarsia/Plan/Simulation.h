//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A planned system request by request: discrete events of arrivals, queues, batches, transfers and retries.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SIMULATION_H
#define INTARSIA_PLAN_SIMULATION_H

#include "intarsia/Plan/Placement.h"

namespace intarsia::plan {

/// How often one device of a pool fails, and after what time its replica is back (repaired, or on a spare); both are
/// exponential means.
struct DeviceFailures {
  double hoursBetween = unlimited;
  double hoursToRepair = 1;
};

struct SimulationOptions {
  int64_t requests = 100000; ///< in all; of them the first tenth warms up and is not counted
  uint64_t seed = 1;
  /// Recorded arrivals (milliseconds, agent) in order of time; empty: Poisson at the agents' rates.
  std::vector<std::pair<double, int>> arrivals;
  /// (piece, probability): an execution fails when it ends, and runs again.
  std::vector<std::pair<int, double>> failures;
  /// By pool; empty: no device fails. A replica fails when one of its devices does. What it was executing starts again
  /// from nothing, behind what waits; a first output that was given stays given.
  std::vector<DeviceFailures> deviceFailures;
};

/// The times of each request are kept for the percentiles: 8 bytes and 4 for each piece, 1.2 GB and more of so many.
constexpr int mostSimulatedRequests = 100000000;
/// Of replicas. From fewer it cannot be told what failures do.
constexpr double fewestFailures = 5;

struct SimulationReport {
  struct Percentiles {
    double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;
    double atLevel = 0; ///< at the percentile of the agent's service level, or the mean
  };
  struct OfAgent {
    int64_t requests = 0;
    Percentiles endToEndMs, firstOutputMs;
    /// Over executions of pieces that a promise of the next token holds for; of each the mean time of its tokens.
    Percentiles tokenMs;
  };
  struct OfPiece {
    int64_t executions = 0;
    double meanWaitMs = 0, meanServiceMs = 0;
    double utilization = 0; ///< of its slots
  };
  std::vector<OfAgent> agents;
  std::vector<OfPiece> pieces;
  std::vector<double> linkUtilization;
  double simulatedSeconds = 0;  ///< until the last request has its answer
  double arrivalSeconds = 0;    ///< until it arrives
  double requestsPerSecond = 0; ///< that arrive; 0: too few are counted to tell
  /// Devices until the last answer, and what executed and flowed; by hours, and by answers.
  double dollarsPerHour = 0, dollarsPerRequest = 0;
  int64_t deviceFailures = 0, interrupted = 0; ///< failures of replicas, executions that were in them
  /// Failures of replicas that so often come in such a time; unset: devices do not fail.
  std::optional<double> expectedFailures;
  /// With which `fewestFailures` are expected at the same rates; 0: they are, or no number does.
  double requestsForFailures = 0;
  bool hasTooFewFailures() const { return expectedFailures && *expectedFailures < fewestFailures; }
  int64_t events = 0;
};

/// Simulates a plan of a valid problem. Executions wait in one queue for each piece and go to the replica with most
/// free slots and room for their cache; in a replica they slow each other down as Choice says, at every moment by how
/// many they are, so a long prompt shares a replica with short ones as chunks of both do. Transfers over a link take
/// turns. Fails if a piece cannot sustain its load, as its queue would have no end: also with what
/// failures of devices take of it, if a replica fails more often than an execution ends in it, and when one execution
/// was started 1000 times.
llvm::Expected<SimulationReport> simulate(const PlacementProblem &problem, const Placements &placements,
                                          const SimulationOptions &options = {});

struct BrokenPromise {
  int agent;
  const char *what; ///< "end to end", "first token", "next token"
  double bound, simulated;
};
/// Bounds of service levels that the simulated figures at the agents' percentiles exceed.
std::vector<BrokenPromise> brokenPromises(const PlacementProblem &problem, const SimulationReport &report);

struct TightenedPlan {
  SolveResult result;          ///< of `problem`
  PlacementProblem problem;    ///< with the bounds that the plan was made for
  SimulationReport simulation; ///< of the plan
  bool holds = false;          ///< otherwise the plan is the one that breaks least
  std::vector<std::string> rounds;
};
/// Simulates `first`, a plan of `problem`. While a promise is broken its bound is lowered by what the simulation
/// exceeds the plan's own figure, and the problem solved again. All promises are those of `problem`. The time limit is
/// of all of it together, but no simulation is cut short: where the time has no room for another, no plan is made.
llvm::Expected<TightenedPlan> tighten(const PlacementProblem &problem, const SolveResult &first,
                                      const SimulationOptions &simulation, const SolveOptions &solveOptions = {},
                                      int mostRounds = 8);

/// Arrivals from a table with the columns `agent` and `seconds` or `milliseconds`, in any order, named in its first
/// line; other columns are passed over. Cells may stand in double quotes, lines from '#' on are comments. Times may
/// begin anywhere (the first becomes 0), must not fall, and are at most 1e11 seconds. Errors name file, line and
/// column.
llvm::Expected<std::vector<std::pair<double, int>>> readArrivals(llvm::StringRef csv, llvm::StringRef file,
                                                                 llvm::ArrayRef<std::string> agents);

} // namespace intarsia::plan

#endif
