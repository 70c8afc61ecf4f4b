//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Figures that follow from a problem alone: loads, transfers, what replicas occupy, and what each costs.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_FIGURES_H
#define INTARSIA_PLAN_FIGURES_H

#include "Latency.h"
#include "Queueing.h"

namespace intarsia::plan {

/// Cost of a transfer between two choices.
struct Transfer {
  double ms = 0, dollars = 0, joules = 0;
  int link = -1;
  bool forbidden = false;
};

/// Costs by hour and by request.
struct Bill {
  double dollarsPerHour = 0, watts = 0, gramsPerHour = 0, peakWatts = 0;
  double dollarsPerRequest = 0, joulesPerRequest = 0, gramsPerRequest = 0;
  Bill &operator+=(const Bill &other);
  Bill scaled(double factor) const;
  double of(Objective objective) const;
};

class Figures {
public:
  explicit Figures(const PlacementProblem &problem);

  const PlacementProblem &problem;
  std::vector<AgentLatency> latencies; ///< by agent
  std::vector<double> latencyWeights;  ///< weight of each agent in the objective if that is latency
  std::vector<double> weights;         ///< share of each agent in all requests; equal shares if no rate is given
  double requestsPerSecond = 0;
  std::vector<Load> loads;                                     ///< by piece
  std::vector<double> workPerRequest;                          ///< by piece: scaled executions in a mean request
  std::vector<double> transfersPerRequest, transfersPerSecond; ///< by edge
  std::vector<double> tokenMsLimits;                           ///< by piece: the strictest limit of the agents that run
                                                               ///< it

  /// Returns the times of a piece under its load, with one of its choices in so many replicas.
  Stage stage(int piece, int choice, int64_t replicas) const;
  /// The same with other times than those of the choice.
  Stage stage(int piece, int choice, const Choice &times, int64_t replicas) const;
  /// Returns the devices of a replica, as counted in its pool; less than one if it shares.
  double footprint(const Choice &choice) const;
  Transfer transfer(int edge, int fromChoice, int toChoice) const;
  /// Returns all costs of a piece except whole nodes and shared devices, which the pool pays for.
  Bill bill(int piece, const Choice &choice, const Stage &stage, int64_t replicas) const;
  Bill bill(int edge, const Transfer &transfer) const;
  /// Returns the cost of devices that are paid for together: a node of a pool with whole nodes, or one shared device.
  Bill billOfHeld(const Pool &pool, int64_t devices) const;
  double gigabytesPerSecond(int edge) const { return transfersPerSecond[edge] * problem.edges[edge].bytes * 1e-9; }

private:
  Bill billOf(double dollarsPerHour, double watts, double gramsPerKilowattHour) const;
  std::vector<int> linkOf; ///< by (from pool, to pool)
  /// By piece and choice: the least replicas that a choice without devices is in, those of the piece that an edge's
  /// `sameReplicas` ties it to; 0: it is in none.
  std::vector<std::vector<int64_t>> hosts;
  void findHosts();
};

} // namespace intarsia::plan

#endif
