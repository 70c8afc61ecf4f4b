//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Agents with percentiles that share resources alone: planned each by itself, then together.
//===----------------------------------------------------------------------------------------------------------===//
#include "test/unit/Checked.h"
#include "test/unit/Plan/Solver/Instances.h"
#include "llvm/ADT/STLExtras.h"

using namespace intarsia::plan;

namespace {

/// Doubles all agents, the copies with pieces of their own and more requests.
PlacementProblem twice(PlacementProblem problem) {
  int pieces = int(problem.pieces.size()), edges = int(problem.edges.size());
  auto moved = [](std::vector<int> indices, int by) {
    for (int &index : indices)
      index += by;
    return indices;
  };
  for (int i = 0; i < pieces; ++i) {
    problem.pieces.push_back(problem.pieces[i]);
    problem.pieces.back().name += "'";
  }
  for (int i = 0; i < edges; ++i) {
    problem.edges.push_back(problem.edges[i]);
    problem.edges.back().from += pieces, problem.edges.back().to += pieces;
  }
  for (size_t i = 0, agents = problem.agents.size(); i < agents; ++i) {
    Agent agent = problem.agents[i];
    agent.name += "'";
    agent.requestsPerSecond *= 1.7;
    for (Region &region : agent.regions) {
      if (region.kind == Region::Kind::Piece)
        region.piece += pieces;
      region.entryEdges = moved(region.entryEdges, edges);
      region.backEdges = moved(region.backEdges, edges);
      for (Region::Arc &arc : region.arcs)
        arc.edges = moved(arc.edges, edges);
    }
    problem.agents.push_back(std::move(agent));
  }
  for (auto *groups : {&problem.together, &problem.apart})
    for (size_t i = 0, count = groups->size(); i < count; ++i)
      groups->push_back(moved((*groups)[i], pieces));
  for (size_t i = 0, count = problem.previous.size(); i < count; ++i)
    problem.previous.push_back(problem.previous[i]);
  return problem;
}

TEST(PlanTogether, equalsEnumerationWhereAgentsMeet) {
  int feasible = 0, infeasible = 0, coupled = 0, shared = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(600);
    if (!problem.agents[0].level.percentile || problem.pieces.size() > 4 || problem.objective == Objective::Latency)
      continue;
    problem = twice(std::move(problem));
    // Room for one and a half of them.
    for (Pool &pool : problem.pools)
      if (pool.devices < 1000)
        pool.devices += pool.devices / 2;
    if (problem.dollarsPerHourCap < unlimited)
      problem.dollarsPerHourCap *= 2.2;
    if (problem.wattsCap < unlimited)
      problem.wattsCap *= 2.2;
    if (problem.gramsPerHourCap < unlimited)
      problem.gramsPerHourCap *= 2.2;
    oracle::Oracle oracle(problem);
    double best = unlimited, count = 0;
    oracle.forAll([&](const Placements &) { ++count; });
    if (count > 20000)
      continue;
    oracle.forAll([&](const Placements &plan) {
      auto verdict = oracle.judge(plan, best);
      if (verdict.objective < best && oracle.holds(verdict))
        best = verdict.objective;
    });
    SolveResult result = checked(solve(problem));
    if (best == unlimited) {
      ++infeasible;
      EXPECT_EQ(result.status, SolveResult::Status::Infeasible) << "seed " << seed;
      continue;
    }
    ++feasible;
    ASSERT_EQ(result.status, SolveResult::Status::Optimal) << "seed " << seed;
    EXPECT_NEAR(result.evaluation.objective, best, 2e-6 * best) << "seed " << seed;
    EXPECT_LE(result.bound, best * (1 + 1e-6)) << "seed " << seed;
    shared += oracle.judge(result.placements).shares;
    for (Pool &pool : problem.pools)
      pool.devices = 1000;
    SolveResult roomy = checked(solve(problem));
    coupled += roomy.evaluation.objective < best * (1 - 1e-6);
  }
  std::printf("%d feasible, %d not; %d short of devices, %d share some\n", feasible, infeasible, coupled, shared);
  EXPECT_GT(feasible, 30);
  EXPECT_GT(coupled, 5);
  EXPECT_GT(shared, 5);
}

TEST(PlanTogether, explainsOneAgentBesideTheOthers) {
  int possible = 0, exact = 0, none = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(60);
    // For pieces in the replicas of others a question excludes all choices that share them, which this test does not
    // model.
    bool guests = llvm::any_of(problem.edges, [](const Edge &edge) { return !edge.sameReplicas.empty(); });
    if (problem.pieces.size() > 3 || problem.objective == Objective::Latency || guests)
      continue;
    problem = twice(std::move(problem));
    for (Pool &pool : problem.pools)
      if (pool.devices < 1000)
        pool.devices += pool.devices / 2;
    SolveResult result = checked(solve(problem));
    if (result.status != SolveResult::Status::Optimal)
      continue;
    bool rounds = llvm::any_of(problem.pools, [](const Pool &pool) { return pool.wholeNodes; });
    for (const Piece &piece : problem.pieces)
      for (const Choice &choice : piece.candidates)
        rounds |= choice.deviceShare < 1;
    oracle::Oracle oracle(problem);
    for (const Alternative &alternative : checked(explainChoices(problem, result, false))) {
      double best = unlimited;
      Placed taken = result.placements[alternative.piece];
      oracle.forAll([&](const Placements &plan) {
        if (plan[alternative.piece].choice == taken.choice)
          return;
        auto verdict = oracle.judge(plan, best);
        if (verdict.objective < best && oracle.holds(verdict))
          best = verdict.objective;
      });
      if (!alternative.possible) {
        ++none;
        if (alternative.exact)
          EXPECT_EQ(best, unlimited) << "seed " << seed << " " << alternative.reason;
        continue;
      }
      ++possible;
      auto verdict = oracle.judge(alternative.placements);
      EXPECT_TRUE(oracle.holds(verdict)) << "seed " << seed;
      EXPECT_NEAR(verdict.objective, alternative.objective, 1e-6 * best) << "seed " << seed;
      EXPECT_GE(alternative.objective, best * (1 - 1e-6)) << "seed " << seed;
      if (alternative.exact && !rounds) {
        ++exact;
        EXPECT_NEAR(alternative.objective, best, 2e-6 * best) << "seed " << seed;
      }
    }
  }
  std::printf("%d alternatives, %d of them exact and nothing rounded up; %d have none\n", possible, exact, none);
  EXPECT_GT(possible, 50);
  EXPECT_GT(exact, 20);
  EXPECT_GT(none, 20);
}

} // namespace
