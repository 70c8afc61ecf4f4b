//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Nominal requests against the longest paths of the oracle, and what is critical in them.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Schedule.h"
#include "test/unit/Plan/Solver/Instances.h"
#include <gtest/gtest.h>

using namespace intarsia::plan;

namespace {

/// Nothing random: each loop and map has the last of its counts, each branch its last case.
PlacementProblem settled(PlacementProblem problem) {
  for (Agent &agent : problem.agents) {
    agent.level = {};
    for (Region &region : agent.regions) {
      if (!region.counts.empty())
        region.counts = {{std::max(1, region.counts.back().first), 1.0}};
      for (double &probability : region.probabilities)
        probability = &probability == &region.probabilities.back() ? 1 : 0;
    }
  }
  return problem;
}

/// A part of several executions that reads a stream ends when the stream has come, in none of its executions.
bool streamsIntoSeveral(const PlacementProblem &problem) {
  for (const Agent &agent : problem.agents)
    for (const Region &region : agent.regions)
      for (auto &arc : region.arcs)
        if (arc.streaming && agent.regions[region.children[arc.to]].kind != Region::Kind::Piece)
          return true;
  return false;
}

TEST(PlanSchedule, endsWhenTheLongestPathDoes) {
  int compared = 0, followed = 0, loops = 0, streams = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PlacementProblem problem = settled(instances::Generator(seed).make(200));
    oracle::Oracle oracle(problem);
    int plans = 0;
    oracle.forAll([&](const Placements &plan) {
      auto verdict = oracle.judge(plan);
      if (!verdict.structureHolds || ++plans > 3)
        return;
      for (int agent = 0; agent < int(problem.agents.size()); ++agent) {
        Schedule schedule = scheduleOf(problem, plan, agent);
        EXPECT_NEAR(schedule.endMs, verdict.endToEnd[agent], 1e-9 * (1 + schedule.endMs)) << "seed " << seed;
        ++compared;
        // From the request to its end something critical is under way.
        std::vector<std::pair<double, double>> critical;
        for (const Execution &execution : schedule.executions) {
          EXPECT_LE(execution.sentMs, execution.arrivedMs);
          EXPECT_LE(execution.arrivedMs, execution.servedMs);
          EXPECT_LE(execution.servedMs, execution.firstMs);
          EXPECT_LE(execution.firstMs, execution.endMs + 1e-9);
          loops += execution.turn > 0;
          if (execution.critical)
            critical.push_back({execution.sentMs, execution.endMs});
        }
        if (streamsIntoSeveral(problem))
          continue;
        std::sort(critical.begin(), critical.end());
        double covered = 0;
        for (auto [from, to] : critical) {
          EXPECT_LE(from, covered + 1e-6) << "seed " << seed << ": a gap in the critical path";
          covered = std::max(covered, to);
        }
        EXPECT_NEAR(covered, schedule.endMs, 1e-6) << "seed " << seed;
        ++followed;
      }
    });
    for (const Agent &agent : problem.agents)
      for (const Region &region : agent.regions)
        for (auto &arc : region.arcs)
          streams += arc.streaming;
  }
  EXPECT_GT(compared, 300);
  EXPECT_GT(followed, 200);
  EXPECT_GT(loops, 100);
  EXPECT_GT(streams, 20);
}

Choice choiceOf(double milliseconds) {
  Choice choice;
  choice.label = "only";
  choice.devicesPerReplica = 1;
  choice.milliseconds = milliseconds;
  return choice;
}

PlacementProblem problemOf(const std::vector<double> &milliseconds, std::vector<Region> regions) {
  PlacementProblem problem;
  problem.pools.push_back({"pool", 100});
  for (double each : milliseconds)
    problem.pieces.push_back({"piece" + std::to_string(problem.pieces.size()), "", {choiceOf(each)}});
  problem.agents.push_back({"agent", 0, std::move(regions), 0, {}});
  return problem;
}

Placements oneOfEach(const PlacementProblem &problem) { return Placements(problem.pieces.size(), Placed{0, 1}); }

TEST(PlanSchedule, marksTheLongerOfTwoWays) {
  // a → b and a → c, both → d; c takes longer than b.
  PlacementProblem problem = problemOf(
      {10, 20, 30, 5}, {Region::dag({1, 2, 3, 4}, {{0, 1, {}}, {0, 2, {}}, {1, 3, {}}, {2, 3, {}}}),
                        Region::execution(0), Region::execution(1), Region::execution(2), Region::execution(3)});
  Schedule schedule = scheduleOf(problem, oneOfEach(problem), 0);
  ASSERT_EQ(schedule.executions.size(), 4u);
  EXPECT_EQ(schedule.endMs, 45);
  for (auto [index, critical] : {std::pair{0, true}, {1, false}, {2, true}, {3, true}})
    EXPECT_EQ(schedule.executions[index].critical, critical) << index;
  EXPECT_EQ(schedule.executions[1].servedMs, 10);
  EXPECT_EQ(schedule.executions[3].servedMs, 40);
}

TEST(PlanSchedule, followsAStreamToItsEnd) {
  // a → c streams, b → c does not: c begins after b, and ends its own time after a.
  PlacementProblem problem =
      problemOf({100, 50, 5}, {Region::dag({1, 2, 3}, {{0, 2, {}, true}, {1, 2, {}}}), Region::execution(0),
                               Region::execution(1), Region::execution(2)});
  problem.pieces[0].candidates[0].firstOutputMs = 10;
  Schedule schedule = scheduleOf(problem, oneOfEach(problem), 0);
  ASSERT_EQ(schedule.executions.size(), 3u);
  EXPECT_EQ(schedule.executions[2].servedMs, 50);
  EXPECT_EQ(schedule.endMs, 105);
  for (auto [index, critical] : {std::pair{0, true}, {1, false}, {2, true}})
    EXPECT_EQ(schedule.executions[index].critical, critical) << index;
}

TEST(PlanSchedule, takesCasesAsOftenAsTheirProbabilities) {
  PlacementProblem problem = problemOf({10, 100}, {Region::loop(1, {{8, 1.0}}), Region::branch({2, 3}, {0.75, 0.25}),
                                                   Region::execution(0), Region::execution(1)});
  Schedule schedule = scheduleOf(problem, oneOfEach(problem), 0);
  int second = 0;
  for (const Execution &execution : schedule.executions)
    second += execution.region == 3;
  EXPECT_EQ(schedule.executions.size(), 8u);
  EXPECT_EQ(second, 2);
  EXPECT_EQ(schedule.endMs, 6 * 10 + 2 * 100);
}

TEST(PlanSchedule, countsWhatItDoesNotList) {
  PlacementProblem problem = problemOf({3}, {Region::loop(1, {{70000, 1.0}}), Region::execution(0)});
  Schedule schedule = scheduleOf(problem, oneOfEach(problem), 0);
  EXPECT_EQ(schedule.executions.size(), 2000u);
  EXPECT_EQ(schedule.notListed, 68000);
  EXPECT_NEAR(schedule.endMs, 210000, 1e-6);
}

TEST(PlanSchedule, countsCopiesOfMaps) {
  PlacementProblem problem =
      problemOf({3}, {Region::map(1, {{4, 0.5}, {7, 0.5}}), Region::map(2, {{3, 1.0}}), Region::execution(0)});
  Schedule schedule = scheduleOf(problem, oneOfEach(problem), 0);
  ASSERT_EQ(schedule.executions.size(), 1u);
  EXPECT_EQ(schedule.executions[0].copies, 18); // 5.5 is rounded to 6
  EXPECT_EQ(schedule.endMs, 3);
}

} // namespace
