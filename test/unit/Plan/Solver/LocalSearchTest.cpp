//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Moves of what belongs together, from plans that no move of one or two pieces makes cheaper.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Solver/LocalSearch.h"
#include "intarsia/Plan/Placement.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

using namespace intarsia::plan;

namespace {

/// A chain of pieces, each with one choice on each of two pools: choice 0 on the first, 1 on the second.
PlacementProblem onTwoPools(const std::vector<int> &devices, double share) {
  PlacementProblem p;
  for (auto [name, dollars] : {std::pair("dear", 4.0), {"cheap", 3.0}})
    p.pools.push_back({.name = name, .devices = 64, .dollarsPerDeviceHour = dollars});
  p.links = {{"between", {{0, 1}, {1, 0}}, 10, 10}};
  Agent agent{.name = "agent", .requestsPerSecond = 1};
  Region dag;
  dag.kind = Region::Kind::Dag;
  for (auto [index, count] : llvm::enumerate(devices)) {
    Piece piece;
    piece.name = "piece" + std::to_string(index);
    for (int pool : {0, 1})
      piece.candidates.push_back({.label = p.pools[pool].name,
                                  .pool = pool,
                                  .devicesPerReplica = count,
                                  .deviceShare = share,
                                  .milliseconds = 10});
    p.pieces.push_back(std::move(piece));
    agent.regions.push_back(Region::execution(int(index)));
    dag.children.push_back(int(index));
    if (index > 0)
      dag.arcs.push_back({int(index) - 1, int(index), {}});
  }
  agent.root = int(devices.size());
  agent.regions.push_back(std::move(dag));
  p.agents = {agent};
  p.queueing = false;
  p.objective = Objective::DollarsPerHour;
  return p;
}

/// Returns the dollars an hour of the plan that the search ends with where all pieces begin on the first pool.
double searched(const PlacementProblem &problem) {
  EXPECT_EQ(llvm::toString(problem.validate()), "");
  Figures figures(problem);
  Program program(figures, /*prune=*/false);
  Placements start(problem.pieces.size(), Placed{0, 1});
  std::vector<int> assignment = program.assignmentOf(start);
  LocalSearch search(program);
  search.run(assignment, std::vector<double>(problem.agents.size(), 1.0), Clock::now() + std::chrono::seconds(10));
  EXPECT_EQ(search.violation(), 0);
  return evaluate(problem, program.placementsOf(assignment)).dollarsPerHour;
}

TEST(PlanLocalSearch, movesAllThatShareADevice) {
  // Three quarters of a device cost as much as one: a move of one or two pays for a device on each pool.
  EXPECT_EQ(searched(onTwoPools({1, 1, 1}, 0.25)), 3);
}

TEST(PlanLocalSearch, movesPrefillAndDecodeWithWhatSharesTheirNode) {
  // Prefill and decode only go together on one pool, as if each pool had a precision of its own, and an encoder is in
  // the rest of their node.
  PlacementProblem p = onTwoPools({2, 4, 1}, 1);
  for (Pool &pool : p.pools)
    pool.devicesPerNode = 8, pool.wholeNodes = true;
  p.edges = {{.name = "cache", .from = 0, .to = 1, .bytes = 1e6, .fromKinds = {0, 1}, .toKinds = {0, 1}}};
  p.agents[0].regions.back().arcs[0].edges = {0};
  EXPECT_EQ(searched(p), 8 * 3);
}

TEST(PlanLocalSearch, leavesWhatIsCheaperApart) {
  // The second pool has no room for all three, and nothing is gained by two.
  PlacementProblem p = onTwoPools({1, 1, 1}, 0.25);
  p.pools[1].devices = 0;
  EXPECT_EQ(searched(p), 4);
}

} // namespace
