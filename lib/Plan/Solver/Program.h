//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A placement problem as a pairwise program: each piece takes one option (a choice in so many replicas), which costs
// alone and in pairs, under linear rows. All solvers work on this form.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_PROGRAM_H
#define INTARSIA_PLAN_PROGRAM_H

#include "Evaluate.h"

namespace intarsia::plan {

struct Option {
  int choice;
  int64_t replicas;
  Stage stage;
  double cost;    ///< in the unit of the objective, with the cost of a move; without whole nodes and shared devices
  int group;      ///< options of one group cost the same in all pairs
  double devices; ///< of its pool
  std::vector<std::pair<int, double>> uses; ///< (resource, amount)
};

/// What all share. A pool with whole nodes takes `nodeSize` devices at a time; a node costs, and uses other resources.
/// Where devices are rented one by one, those that are shared are a resource of their own with nodes of one device,
/// which uses the pool's: what takes whole devices needs no rounding, and a linear program stays tight for it.
struct Resource {
  Conflict::Kind kind;
  int index;
  double limit;
  bool ofShares = false; ///< PoolDevices: of the devices that are shared
  int64_t nodeSize = 0;  ///< 0: nothing is rounded up
  double nodeCost = 0;
  std::vector<std::pair<int, double>> nodeUses;
};

/// Two pieces whose groups of options cost or exclude something together; `from` comes before `to` in the order of
/// pieces. Matrices are [groups of from, groups of to].
struct Pair {
  int from, to;
  int fromGroups, toGroups;
  std::vector<double> cost;                              ///< infinity: excluded
  std::vector<std::pair<int, std::vector<double>>> uses; ///< (resource, amounts)
};

/// sum of terms - (latency variable of `latencyOf`, if any) <= upper; in the Lagrangian also variables of shared
/// devices
struct Row {
  struct OptionTerm {
    int piece;
    std::vector<double> factors; ///< by option
  };
  struct PairTerm {
    int pair;
    std::vector<double> factors; ///< by groups of both ends
  };
  std::string name;
  std::vector<OptionTerm> optionTerms;
  std::vector<PairTerm> pairTerms;
  int latencyOf = -1;
  double latencyFactor = -1;
  double upper = 0;
};

/// A bound that the linear form knows: a time of an agent in a scenario, in which each leaf takes at least `leafTimes`.
struct LatencyCheck {
  int agent;
  Measure measure;
  Scenario scenario;
  double limit;          ///< infinity where the time is only part of the objective
  bool nominal;          ///< leaves take their means; else their least times
  int quantileLeaf = -1; ///< region of the leaf that takes its quantile at the agent's percentile
  bool inObjective = false;
};

class Program {
public:
  /// Menus become options; those that pins, token times or dominance exclude are left out.
  Program(const Figures &figures, bool prune, llvm::ArrayRef<std::pair<int, int>> forbiddenChoices = {});

  const Figures &figures;
  const PlacementProblem &problem;
  std::vector<std::vector<Option>> options; ///< by piece
  std::vector<int> groups;                  ///< by piece: how many
  std::vector<std::vector<uint8_t>> active; ///< by piece and option: still possible in a better plan
  std::vector<Resource> resources;
  std::vector<Pair> pairs;
  std::vector<std::vector<int>> pairsOf; ///< by piece
  std::vector<LatencyCheck> checks;
  /// By agent: its weight in the objective if that is latency, else 0.
  std::vector<double> latencyWeights;
  int optionsBeforePruning = 0;
  /// A piece without an option, or -1.
  int impossiblePiece = -1;

  LeafTime leafTime(const LatencyCheck &check, int region, bool later, const Option &option) const;
  double edgeMs(int edge, int fromGroup, int toGroup) const;
  /// The time of a check in an assignment (option by piece).
  double latency(const LatencyCheck &check, llvm::ArrayRef<int> assignment, PathTerms *terms = nullptr) const;
  Row rowOf(const LatencyCheck &check, const PathTerms &terms) const;
  /// A resource as a row over options and pairs, with whole nodes as if devices were rented one by one (`relaxed`), or
  /// without what nodes use.
  Row rowOf(const Resource &resource, bool relaxed) const;
  /// Of a resource of shares, that it takes as many devices as the variable `latencyOf` says: by all pieces together,
  /// then by each piece alone, whose shares are rounded up. The latter hold what the sum forgets: who shares with few
  /// pays for a whole device all the same.
  std::vector<Row> rowsOfShares(const Resource &resource, int variable) const;
  /// Cost of options with whole nodes and shares as if devices were rented by the part, or without shares.
  double relaxedCost(const Option &option, int piece, bool withShares = true) const;

  Placements placementsOf(llvm::ArrayRef<int> assignment) const;
  /// Options by piece; -1 where a placement is none of the options.
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
  std::vector<std::vector<double>> leastShape; ///< by piece: least value of its shape, by 0; its quantile by agent
};

} // namespace intarsia::plan

#endif
