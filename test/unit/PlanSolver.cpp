//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The planner against plain enumeration, and on the worked example of arXiv 2507.19635.
//===----------------------------------------------------------------------------------------------------------===//
#include "PlanInstances.h"
#include <cstdlib>
#include <gtest/gtest.h>

using namespace intarsia::plan;

namespace {

/// 1,000 tokens in, 500 out. Prefill and decode on a fast, dear device (HP) or a slow, cheap one (CO).
PlacementProblem workedExample(double boundMs) {
  PlacementProblem p;
  p.pools = {{"HP", 8}, {"CO", 8}};
  Piece prefill{"prefill"}, decode{"decode"};
  prefill.menu = {
      {.label = "HP", .pool = 0, .devicesPerReplica = 1, .milliseconds = 80, .dollarsPerExecution = 1000 * 8e-5},
      {.label = "CO", .pool = 1, .devicesPerReplica = 1, .milliseconds = 130, .dollarsPerExecution = 1000 * 5e-5}};
  decode.menu = {
      {.label = "HP", .pool = 0, .devicesPerReplica = 1, .milliseconds = 25, .dollarsPerExecution = 500 * 6e-5},
      {.label = "CO", .pool = 1, .devicesPerReplica = 1, .milliseconds = 30, .dollarsPerExecution = 500 * 2e-5}};
  p.pieces = {prefill, decode};
  p.edges = {{"kv", 0, 1, 1000.0, {{.fromChoice = 0, .toChoice = 1, .milliseconds = 10, .dollars = 1000 * 5e-6}}}};
  Agent agent;
  agent.name = "chat";
  agent.regions = {Region::leaf(0), Region::leaf(1), Region::dag({0, 1}, {{0, 1, {0}}})};
  agent.root = 2;
  agent.level.endToEndMs = boundMs;
  p.agents = {agent};
  return p;
}

SolveResult solved(const PlacementProblem &problem, const SolveOptions &options = {}) {
  auto result = solve(problem, options);
  if (!result) {
    ADD_FAILURE() << toString(result.takeError());
    return {};
  }
  return *result;
}

TEST(PlanWorkedExample, takesTheOptionsOfThePaper) {
  struct {
    double bound;
    int prefill, decode;
    double ms, dollars;
  } cases[] = {{110, 0, 0, 105, 0.11}, {120, 0, 1, 120, 0.095}, {unlimited, 1, 1, 160, 0.06}};
  for (bool bound : {true, false})
    for (auto &expected : cases) {
      SolveResult result = solved(workedExample(expected.bound), {.bound = bound});
      ASSERT_EQ(result.status, SolveResult::Status::Optimal);
      EXPECT_EQ(result.placements[0].choice, expected.prefill) << expected.bound;
      EXPECT_EQ(result.placements[1].choice, expected.decode) << expected.bound;
      EXPECT_DOUBLE_EQ(result.evaluation.agents[0].endToEndMs, expected.ms);
      EXPECT_NEAR(result.evaluation.dollarsPerRequest, expected.dollars, 1e-15);
    }
}

TEST(PlanWorkedExample, isImpossibleBelowTheFastest) {
  EXPECT_EQ(solved(workedExample(104.9)).status, SolveResult::Status::Infeasible);
}

/// INTARSIA_PLAN_SEEDS=first:count runs others.
TEST(PlanRandom, equalsEnumerationOn1000Instances) {
  uint64_t first = 0, count = 1000;
  if (const char *seeds = std::getenv("INTARSIA_PLAN_SEEDS"))
    std::sscanf(seeds, "%lu:%lu", &first, &count);
  int feasible = 0, percentiles = 0, queues = 0;
  double plans = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make();
    oracle::Oracle oracle(problem);
    double best = unlimited;
    oracle.forAll([&](const Placements &plan) {
      ++plans;
      auto verdict = oracle.judge(plan, best);
      if (verdict.objective < best && oracle.holds(verdict))
        best = verdict.objective;
    });
    // Every other instance without what comes before the MILP.
    SolveOptions options;
    options.prune = options.bound = seed % 2;
    SolveResult result = solved(problem, options);
    if (std::getenv("INTARSIA_PLAN_VERBOSE"))
      std::printf("seed %lu: %.3f s, %d MILPs, %d cuts, %zu pieces\n", (unsigned long)seed, result.statistics.seconds,
                  result.statistics.milpSolves, result.statistics.percentileCuts, problem.pieces.size());
    if (best == unlimited) {
      EXPECT_EQ(result.status, SolveResult::Status::Infeasible) << "seed " << seed;
      continue;
    }
    ++feasible;
    percentiles += problem.agents[0].level.percentile.has_value();
    queues += problem.queueing;
    ASSERT_EQ(result.status, SolveResult::Status::Optimal)
        << "seed " << seed << " best " << best << " found " << result.evaluation.objective << " bound " << result.bound;
    EXPECT_NEAR(result.evaluation.objective, best, 2e-6 * best) << "seed " << seed;
    // What the planner says of its plan, the oracle says too.
    auto verdict = oracle.judge(result.placements);
    EXPECT_NEAR(verdict.objective, result.evaluation.objective, 1e-6 * best) << "seed " << seed;
    for (size_t a = 0; a < problem.agents.size(); ++a) {
      EXPECT_NEAR(verdict.endToEnd[a], result.evaluation.agents[a].endToEndMs, 1e-5 * (1 + verdict.endToEnd[a]))
          << "seed " << seed;
      EXPECT_NEAR(verdict.firstOutput[a], result.evaluation.agents[a].firstOutputMs,
                  1e-5 * (1 + verdict.firstOutput[a]))
          << "seed " << seed;
    }
    EXPECT_LE(result.bound, best * (1 + 1e-6)) << "seed " << seed;
  }
  std::printf("%d of %lu feasible (%d with percentiles, %d with queues), %.0f plans enumerated\n", feasible,
              (unsigned long)count, percentiles, queues, plans);
  if (count >= 1000) {
    EXPECT_GT(feasible, 600);
    EXPECT_GT(percentiles, 150);
    EXPECT_GT(queues, 150);
  }
}

} // namespace
