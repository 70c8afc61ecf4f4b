//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A placement problem as a pairwise program: each piece takes one option (a choice in so many replicas). Options have
// costs alone and in pairs, under linear rows. All solvers work on this form.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_PROGRAM_H
#define INTARSIA_PLAN_PROGRAM_H

#include "Evaluate.h"
#include <map>
#include <mutex>

namespace intarsia::plan {

struct Option {
  int choice;
  int64_t replicas;
  Stage stage;
  double cost;    ///< in the unit of the objective, with the cost of a move; without whole nodes and shared devices
  int group;      ///< options of one group cost the same in all pairs
  double devices; ///< devices of its pool
  std::vector<std::pair<int, double>> uses; ///< (resource, amount)
};

/// A shared resource. A pool with whole nodes takes `nodeSize` devices at a time; a node has a cost and uses other
/// resources. Where devices are rented one by one, shared devices are a resource of their own with nodes of one device
/// that use the pool's resource: options with whole devices need no rounding, so the linear program stays tight for
/// them.
struct Resource {
  Conflict::Kind kind;
  int index;
  double limit;
  bool ofShares = false; ///< PoolDevices: only the devices that are shared
  int64_t nodeSize = 0;  ///< 0: nothing is rounded up
  double nodeCost = 0;
  std::vector<std::pair<int, double>> nodeUses;
};

/// Two pieces whose groups of options have costs or exclusions together; `from` comes before `to` in the order of
/// pieces. Matrices are [groups of from, groups of to].
struct Pair {
  int from, to;
  int fromGroups, toGroups;
  std::vector<double> cost;                              ///< infinity: excluded
  std::vector<std::pair<int, std::vector<double>>> uses; ///< (resource, amounts)
};

/// A time of an agent that is bounded, or that is part of the objective.
struct LatencyCheck {
  int agent;
  Measure measure;
  double limit; ///< infinity if the time is only part of the objective
  bool inObjective = false;
};

class Program {
public:
  /// Builds options from the candidates; leaves out those that pins, token times or dominance exclude.
  Program(const Figures &figures, bool prune, llvm::ArrayRef<std::pair<int, int>> forbiddenChoices = {});

  const Figures &figures;
  const PlacementProblem &problem;
  std::vector<std::vector<Option>> options; ///< by piece
  std::vector<int> groups;                  ///< by piece: number of groups
  std::vector<std::vector<uint8_t>> active; ///< by piece and option: true if a better plan may have it
  std::vector<Resource> resources;
  std::vector<Pair> pairs;
  std::vector<std::vector<int>> pairsOf; ///< by piece
  std::vector<LatencyCheck> checks;
  /// Weight of each agent in the objective if that is latency, else 0.
  std::vector<double> latencyWeights;
  int optionsBeforePruning = 0;
  /// A piece without an option, or -1.
  int impossiblePiece = -1;

  /// Returns the pieces that an agent runs, in the order of their numbers.
  const std::vector<int> &piecesOf(int agent) const { return agentPieces[agent]; }
  double edgeMs(int edge, int fromGroup, int toGroup) const;
  /// Returns a nominal time of an agent in an assignment (option by piece).
  double nominalMs(int agent, Measure measure, llvm::ArrayRef<int> assignment) const;
  /// Returns a time of an agent in an assignment as it is judged: at its percentile, or nominal.
  double msOf(int agent, Measure measure, llvm::ArrayRef<int> assignment) const;
  /// Returns the cost of an assignment, with whole nodes and shared devices rounded up, without that of its latency;
  /// infinity for excluded pairs.
  double costOf(llvm::ArrayRef<int> assignment) const;
  /// Returns the cost of an option with whole nodes and shares as if devices were rented in parts.
  double relaxedCost(const Option &option, int piece) const;

  Placements placementsOf(llvm::ArrayRef<int> assignment) const;
  /// Returns options by piece; -1 where a placement is none of the options.
  std::vector<int> assignmentOf(const Placements &placements) const;

private:
  void buildOptions(bool prune, llvm::ArrayRef<std::pair<int, int>> forbiddenChoices);
  void buildPairs();
  void buildChecks();
  struct EdgeTimes {
    int pair; ///< -1: both ends are the same piece
    bool swapped;
    int fromGroups, toGroups;
    std::vector<double> ms;
  };
  std::vector<EdgeTimes> edgeTimes;
  /// Times of executions by agent, region, option, turn and part: each is part of many plans.
  mutable std::map<std::tuple<int, int, int, bool, ExecutionPart>, Distribution> durations;
  mutable std::mutex durationsMutex;
  std::vector<std::vector<int>> agentPieces;
};

} // namespace intarsia::plan

#endif
