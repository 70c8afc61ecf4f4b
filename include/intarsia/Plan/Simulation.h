//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A discrete-event simulation of a plan, request by request: arrivals, queues, batches, transfers and retries.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SIMULATION_H
#define INTARSIA_PLAN_SIMULATION_H

#include "intarsia/Plan/Placement.h"

namespace intarsia::plan {

/// Mean time between failures of one device of a pool, and mean time until its replica is back (repaired, or on a
/// spare); both are exponential.
struct DeviceFailures {
  double hoursBetween = unlimited;
  double hoursToRepair = 1;
};

struct SimulationOptions {
  int64_t requests = 100000; ///< total; the first tenth warms up and is not counted
  uint64_t seed = 1;
  /// Recorded arrivals (milliseconds, agent) in order of time; empty: Poisson at the agents' rates.
  std::vector<std::pair<double, int>> arrivals;
  /// By pool; empty: no device fails. A replica fails when one of its devices does. Its executions start again from the
  /// beginning, at the end of the queue; a first output that was given stays given.
  std::vector<DeviceFailures> deviceFailures;
};

/// Limit of simulated requests. The times of each request are kept for the percentiles: 8 bytes and 4 for each piece,
/// so this many take 1.2 GB and more.
constexpr int mostSimulatedRequests = 100000000;
/// Least number of replica failures from which their effect can be told.
constexpr double fewestFailures = 5;

struct SimulationReport {
  struct Percentiles {
    double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;
    double atLevel = 0; ///< at the percentile of the agent's service level, or the mean
  };
  struct OfAgent {
    int64_t requests = 0;
    Percentiles endToEndMs, firstOutputMs;
    /// Mean time between tokens of each execution of a piece to which a bound on the next token applies.
    Percentiles tokenMs;
  };
  struct OfPiece {
    int64_t executions = 0;
    double meanWaitMs = 0, meanServiceMs = 0;
    double utilization = 0; ///< share of its slots
  };
  std::vector<OfAgent> agents;
  std::vector<OfPiece> pieces;
  std::vector<double> linkUtilization;
  double simulatedSeconds = 0;  ///< until the last request has its answer
  double arrivalSeconds = 0;    ///< until the last request arrives
  double requestsPerSecond = 0; ///< rate of arrivals; 0: too few requests to tell
  /// Cost until the last answer of devices, executions and transfers, by hours and by answers.
  double dollarsPerHour = 0, dollarsPerRequest = 0;
  int64_t deviceFailures = 0, interrupted = 0; ///< failures of replicas, and executions in them
  /// Expected failures of replicas in the simulated time; unset: devices do not fail.
  std::optional<double> expectedFailures;
  /// Number of requests for which `fewestFailures` are expected at the same rates; 0: they already are, or no number is
  /// enough.
  double requestsForFailures = 0;
  bool hasTooFewFailures() const { return expectedFailures && *expectedFailures < fewestFailures; }
  int64_t events = 0;
};

/// Simulates a plan of a valid problem. Executions wait in one queue for each piece and go to the replica with the most
/// free slots and room for their cache. In a replica they slow each other down as Choice says, at every moment by their
/// number, so a long prompt shares a replica with short ones as chunks of both do. Transfers over a link take turns.
/// Fails if a piece cannot sustain its load, as its queue would be unstable (including the capacity lost to device
/// failures), if a replica fails more often than an execution ends in it, and when one execution has started 1000
/// times.
llvm::Expected<SimulationReport> simulate(const PlacementProblem &problem, const Placements &placements,
                                          const SimulationOptions &options = {});

struct BrokenPromise {
  int agent;
  const char *what; ///< "end to end", "first token", "next token"
  double bound, simulated;
};
/// Returns the service-level bounds that the simulated figures at the agents' percentiles exceed.
std::vector<BrokenPromise> brokenPromises(const PlacementProblem &problem, const SimulationReport &report);

struct TightenedPlan {
  SolveResult result;          ///< solution of `problem`
  PlacementProblem problem;    ///< the problem with the bounds that the plan was made for
  SimulationReport simulation; ///< simulation of the plan
  bool holds = false;          ///< otherwise the plan is the one that exceeds its bounds least
  std::vector<std::string> rounds;
};
/// Simulates `first`, a plan of `problem`. While a promise is broken, lowers its bound by the excess of the simulation
/// over the plan's own figure, and solves the problem again. All promises are those of `problem`. The time limit covers
/// everything together, but no simulation is cut short: if the time left is too short for another, no plan is made.
llvm::Expected<TightenedPlan> tighten(const PlacementProblem &problem, const SolveResult &first,
                                      const SimulationOptions &simulation, const SolveOptions &solveOptions = {},
                                      int mostRounds = 8);

/// Reads arrivals from a table with the columns `agent` and `seconds` or `milliseconds`, in any order, named in its
/// first line; other columns are ignored. Cells may be in double quotes; lines from '#' on are comments. Times may
/// begin anywhere (the first becomes 0), must not fall, and are at most 1e11 seconds. Errors name file, line and
/// column.
llvm::Expected<std::vector<std::pair<double, int>>> readArrivals(llvm::StringRef csv, llvm::StringRef file,
                                                                 llvm::ArrayRef<std::string> agents);

} // namespace intarsia::plan

#endif
