//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Latency of an agent from the times of its executions, as a linear function along the critical path and as a
// distribution.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_LATENCY_H
#define INTARSIA_PLAN_LATENCY_H

#include "intarsia/Plan/Placement.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <array>

namespace intarsia::plan {

/// A dag of children as a network whose arcs take time: the form for series-parallel reduction.
struct Network {
  enum class Takes { Whole, First, Rest, Nothing, Transfer, TransferAndFirst };
  struct Arc {
    int from, to;
    Takes takes;
    int child = -1; ///< position among the children of the one whose time it is
    int arc = -1;   ///< position among the region's arcs of the one whose edges it carries
  };
  int vertices = 0, source = 0, sink = 0;
  std::vector<Arc> arcs;  ///< sorted by the order of their start
  std::vector<int> order; ///< vertices, topologically
};

/// Fixed outcomes of the random parts of an agent, by region; empty: their expectation.
struct Scenario {
  std::vector<int> branchTaken; ///< -1: expectation, -2: as if it took no time
  std::vector<int> count;       ///< of loops and maps; -1: expectation
};

/// Kind of time.
enum class Measure { EndToEnd, FirstOutput };

/// Time of an execution: in the queue, from there to the first output, after it.
struct ExecutionTime {
  double waitMs = 0, firstMs = 0, restMs = 0;
};
enum class ExecutionPart { Whole, WaitAndFirst, First, Rest };

/// A linear function of times: how often the times of executions and edges are on the critical path.
struct PathTerms {
  struct Execution {
    int region;
    bool later; ///< true for all turns but the first
    ExecutionTime factors;
  };
  std::vector<Execution> executions;
  std::vector<std::pair<int, double>> edges;
};

class AgentLatency {
public:
  explicit AgentLatency(const Agent &agent);

  using ExecutionTimes = llvm::function_ref<ExecutionTime(int region, bool later)>;
  using EdgeTime = llvm::function_ref<double(int edge)>;
  /// Returns the longest path. `terms` (optional) receives the linear function that gives this value, which is a lower
  /// bound of the longest path for any other times.
  double linear(Measure measure, const Scenario &scenario, ExecutionTimes executionTimes, EdgeTime edgeTime,
                PathTerms *terms = nullptr) const;

  using ExecutionDistribution = llvm::function_ref<Distribution(int region, bool later, ExecutionPart part)>;
  /// Returns the distribution of the time, for independent executions. Clears `exact` where a dag is not
  /// series-parallel: paths that meet are then taken as independent, which is an upper bound for maxima of sums with
  /// common parts.
  Distribution distribution(Measure measure, ExecutionDistribution execution, EdgeTime edgeTime, bool &exact) const;

  const Agent &agent;

private:
  struct Walk;
  const Network &network(int region, bool toFirst) const { return networks[region * 2 + toFirst]; }
  std::vector<Network> networks; ///< by region: to the end, to the first output
  /// Probability of at least one turn, of exactly one, and the mean number, by region.
  std::vector<std::array<double, 3>> turns;
};

/// Expected executions and transfers in a request of an agent.
struct Work {
  struct OfPiece {
    double executions = 0;
    double scaled = 0;        ///< sum of scales
    double squaredScaled = 0; ///< sum of squared scales
  };
  std::vector<OfPiece> pieces;
  std::vector<double> transfers; ///< by edge
};
Work expectedWork(const PlacementProblem &problem, const Agent &agent);

} // namespace intarsia::plan

#endif
