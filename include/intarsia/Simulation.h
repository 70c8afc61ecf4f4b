//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A planned system request by request: discrete events of arrivals, queues, batches, transfers and retries.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_SIMULATION_H
#define INTARSIA_SIMULATION_H

#include "intarsia/Placement.h"

namespace intarsia::plan {

struct SimulationOptions {
  int64_t requests = 100000; ///< in all; of them the first tenth warms up and is not counted
  uint64_t seed = 1;
  /// Recorded arrivals (milliseconds, agent) in order of time; empty: Poisson at the agents' rates.
  std::vector<std::pair<double, int>> arrivals;
  /// (piece, probability): an execution fails when it ends, and runs again.
  std::vector<std::pair<int, double>> failures;
};

struct SimulationReport {
  struct Percentiles {
    double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;
  };
  struct OfAgent {
    int64_t requests = 0;
    Percentiles endToEndMs, firstOutputMs;
    double atLevel = 0; ///< end-to-end at the percentile of the service level, or the mean
  };
  struct OfPiece {
    int64_t executions = 0;
    double meanWaitMs = 0, meanServiceMs = 0;
    double utilization = 0; ///< of its slots
    Percentiles tokenMs;
  };
  std::vector<OfAgent> agents;
  std::vector<OfPiece> pieces;
  std::vector<double> linkUtilization;
  double simulatedSeconds = 0;
  double requestsPerSecond = 0;
  double dollarsPerHour = 0, dollarsPerRequest = 0;
  int64_t events = 0;
};

/// Simulates a plan of a valid problem. Executions wait in one queue for each piece and go to the replica with most
/// free slots; in a replica they slow each other down as Choice says, at every moment by how many they are. Transfers
/// over a link take turns. Fails if a piece cannot sustain its load, as its queue would have no end.
llvm::Expected<SimulationReport> simulate(const PlacementProblem &problem, const Placements &placements,
                                          const SimulationOptions &options = {});

} // namespace intarsia::plan

#endif
