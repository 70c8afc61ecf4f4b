//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Figures at which plans break or others are better, in closed form.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Placement.h"
#include "test/unit/Checked.h"

using namespace intarsia::plan;

namespace {

/// Prompts in the replicas of a decode. Times in closed form.
TEST(PlanSensitivity, slownessIsOfAllTimes) {
  PlacementProblem p;
  p.pools = {{.name = "gpu", .devices = 10}};
  Piece prefill{"prefill"}, decode{"decode"};
  prefill.candidates = {
      {.label = "with decode", .pool = 0, .milliseconds = 20, .turnMs = 6, .turnProbability = 0.5, .turnWaitMs = 30}};
  decode.candidates = {{.label = "decode", .pool = 0, .devicesPerReplica = 1, .milliseconds = 100, .slots = 64}};
  p.pieces = {prefill, decode};
  p.edges = {
      {.name = "cache", .from = 0, .to = 1, .bytes = 1e3, .fromKinds = {0}, .toKinds = {0}, .sameReplicas = {0}}};
  Agent agent{.name = "agent", .requestsPerSecond = 84}; // turns are taken half of the time
  agent.regions = {Region::execution(0), Region::execution(1), Region::dag({0, 1}, {{0, 1, {0}}})};
  agent.root = 2;
  agent.level.endToEndMs = 200; // of 30 + 20 + 100
  p.agents = {agent};
  p.objective = Objective::JoulesPerRequest;
  SolveResult result = checked(solve(p));
  ASSERT_TRUE(result.hasPlan());
  EXPECT_NEAR(result.evaluation.agents[0].endToEndMs, 150, 1e-3);
  int found = 0;
  for (const Sensitivity &of : checked(explainSensitivity(p, result))) {
    if (of.kind != Sensitivity::Kind::Slowness)
      continue;
    double expected = 200 / 150.0;
    ASSERT_TRUE(of.above) << of.text;
    EXPECT_NEAR(*of.above, expected, 2e-3 * expected) << of.text;
    EXPECT_EQ(of.breaks, "the end-to-end time of agent 'agent' breaks its bound");
    ++found;
  }
  EXPECT_EQ(found, 1);
}

/// One piece on one of three pools: 100 ms for $1 an hour, 150 ms for $0.90, 130 ms for $1.02, within 120 ms.
PlacementProblem threePrices() {
  PlacementProblem p;
  Piece piece{"piece"};
  for (auto [name, ms, dollars] : {std::tuple("a", 100.0, 1.0), {"b", 150.0, 0.9}, {"c", 130.0, 1.02}}) {
    piece.candidates.push_back(
        {.label = name, .pool = int(p.pools.size()), .devicesPerReplica = 1, .milliseconds = ms});
    p.pools.push_back({.name = name, .devices = 10, .dollarsPerDeviceHour = dollars});
  }
  p.pieces = {piece};
  Agent agent{.name = "agent", .requestsPerSecond = 0.001};
  agent.regions = {Region::execution(0)};
  agent.level.endToEndMs = 120;
  p.agents = {agent};
  p.queueing = false;
  return p;
}

TEST(PlanSensitivity, looserBoundsPayForTheirMoves) {
  for (Objective objective : {Objective::DollarsPerHour, Objective::DollarsPerRequest}) {
    double unit = objective == Objective::DollarsPerHour ? 1 : 1 / (0.001 * 3600);
    auto boundOf = [&](int previous, double moveDollars) {
      PlacementProblem p = threePrices();
      p.objective = objective;
      if (previous >= 0)
        p.previous = {{previous, 1}}, p.moveCost = moveDollars * unit;
      SolveResult result = checked(solve(p));
      EXPECT_EQ(result.placements[0].choice, 0);
      for (const Sensitivity &of : checked(explainSensitivity(p, result)))
        if (of.kind == Sensitivity::Kind::EndToEnd) {
          EXPECT_TRUE(of.aboveIsKnown);
          return of.above.value_or(-1);
        }
      return 0.0;
    };
    EXPECT_NEAR(boundOf(-1, 0), 150, 1e-6);
    EXPECT_NEAR(boundOf(0, 0.05), 150, 1e-6);
    EXPECT_EQ(boundOf(0, 0.2), -1); // a move costs more than it saves
    EXPECT_NEAR(boundOf(2, 0.01), 150, 1e-6);
    EXPECT_NEAR(boundOf(2, 0.05), 130, 1e-6); // back to where it was is 3 cents less, however dear it is
    EXPECT_NEAR(boundOf(1, 0.2), 150, 1e-6);
  }
}

/// Without rates the prices of hours do not count: prices and looser bounds have no sensitivities.
TEST(PlanSensitivity, pricesCountAtRatesAlone) {
  PlacementProblem p = threePrices();
  for (Choice &choice : p.pieces[0].candidates)
    choice.dollarsPerExecution = 1e-6 * choice.milliseconds;
  auto countOf = [&](double rate, Objective objective) {
    p.agents[0].requestsPerSecond = rate;
    p.objective = objective;
    int prices = 0;
    for (const Sensitivity &of : checked(explainSensitivity(p, checked(solve(p))))) {
      prices += of.kind == Sensitivity::Kind::Price;
      if (of.kind == Sensitivity::Kind::EndToEnd) {
        EXPECT_EQ(of.aboveIsKnown, dependsOnPrices(p));
        EXPECT_NEAR(of.below.value_or(0), 100, 1e-6);
      }
    }
    return prices;
  };
  EXPECT_EQ(countOf(0.001, Objective::DollarsPerRequest), 3);
  EXPECT_EQ(countOf(0, Objective::DollarsPerHour), 3);
  EXPECT_EQ(countOf(0, Objective::DollarsPerRequest), 0);
  EXPECT_EQ(countOf(0.001, Objective::JoulesPerRequest), 0);
}

} // namespace
