//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Probabilities under drawn errors against their closed forms, and plans that are made to hold under them or in the
// simulation.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Confidence.h"
#include "intarsia/Plan/Simulation.h"
#include "test/unit/Checked.h"
#include <algorithm>
#include <cmath>

using namespace intarsia::plan;

namespace {

/// Logarithms of errors spread evenly: at level u the factor is exp(0.4 (u - 0.5)).
TimeErrors evenErrors() {
  TimeErrors errors{"even"};
  for (int i = 1; i < 20; ++i)
    errors.quantiles.push_back(0.4 * (i / 20.0 - 0.5));
  errors.spread = 0.4 / std::sqrt(12);
  return errors;
}
double levelOf(double factor) { return std::log(factor) / 0.4 + 0.5; }

/// Pieces in a row, one pool each, that take 100 ms and 10 ms a token.
PlacementProblem row(int pieces) {
  PlacementProblem p;
  Agent agent{.name = "agent", .requestsPerSecond = 0.001};
  std::vector<int> children;
  std::vector<Region::Arc> arcs;
  for (int i = 0; i < pieces; ++i) {
    p.pools.push_back({.name = "pool" + std::to_string(i), .devices = 100, .dollarsPerDeviceHour = 1});
    Piece piece{"piece" + std::to_string(i)};
    piece.candidates = {{.label = "only", .pool = i, .devicesPerReplica = 1, .milliseconds = 100, .tokenMs = 10}};
    p.pieces.push_back(piece);
    agent.regions.push_back(Region::execution(i));
    children.push_back(i);
    if (i)
      arcs.push_back({i - 1, i, {}});
  }
  agent.regions.push_back(Region::dag(children, arcs));
  agent.root = pieces;
  p.agents = {agent};
  return p;
}

/// Eight copies come at once, which the plan takes for a Poisson stream: simulated, they wait longer.
PlacementProblem burst(int64_t devices) {
  PlacementProblem p;
  p.pools = {{.name = "pool", .devices = devices, .dollarsPerDeviceHour = 1}};
  Piece piece{"piece"};
  piece.candidates = {{.label = "slow", .pool = 0, .devicesPerReplica = 1, .milliseconds = 100},
                      {.label = "fast", .pool = 0, .devicesPerReplica = 3, .milliseconds = 40}};
  p.pieces = {piece};
  Agent agent{.name = "agent", .requestsPerSecond = 0.1};
  agent.regions = {Region::execution(0), Region::map(0, {{8, 1.0}})};
  agent.root = 1;
  agent.level.percentile = 0.95;
  agent.level.endToEndMs = 350;
  p.agents = {agent};
  return p;
}

ErrorModel errorsOf(int pieces, bool sameModel) {
  ErrorModel errors;
  errors.kinds = {evenErrors()};
  for (int i = 0; i < pieces; ++i)
    errors.pieces.push_back({0, sameModel ? 0 : i});
  return errors;
}

void expectProbability(const Confidence::Estimate &estimate, double expected) {
  EXPECT_NEAR(estimate.probability, expected, 4 * estimate.standardError);
  EXPECT_LT(estimate.standardError, 0.01);
}

TEST(PlanConfidence, tailsAreNormal) {
  // Quantiles of a normal of deviation 0.2: beyond the last the factors go on as its.
  TimeErrors errors{"normal"};
  for (int i = 1; i < 20; ++i)
    errors.quantiles.push_back(0.2 * normalQuantile(i / 20.0));
  errors.spread = 0.2;
  EXPECT_NEAR(errors.factorAt(0.5), 1, 1e-9);
  EXPECT_NEAR(errors.factorAt(0.95), std::exp(0.2 * 1.6448536), 1e-6);
  EXPECT_NEAR(errors.factorAt(0.999), std::exp(0.2 * 3.0902323), 1e-6);
  EXPECT_NEAR(errors.factorAt(0.001), std::exp(-0.2 * 3.0902323), 1e-6);
  EXPECT_NEAR(evenErrors().factorAt(0.625), std::exp(0.4 * 0.125), 1e-12);
}

TEST(PlanConfidence, probabilityIsThatOfTheError) {
  PlacementProblem p = row(1);
  Placements plan = {{0, 1}};
  ConfidenceOptions options{.trials = 10000};
  for (double bound : {95.0, 104.0, 113.0}) {
    p.agents[0].level.endToEndMs = bound;
    Confidence confidence = checked(confidenceOf(p, plan, errorsOf(1, false), options));
    expectProbability(confidence.holds, levelOf(bound / 100));
    EXPECT_NEAR(confidence.agents[0].endToEnd, 1 - confidence.holds.probability, 1e-12);
    EXPECT_EQ(confidence.agents[0].token, 0);
  }
  // Pieces outside the cost model have no errors.
  ErrorModel none;
  none.pieces.resize(1);
  p.agents[0].level.endToEndMs = 101;
  EXPECT_EQ(checked(confidenceOf(p, plan, none, options)).holds.probability, 1);
}

TEST(PlanConfidence, onlyOneDeploymentSharesItsError) {
  PlacementProblem p = row(2);
  p.agents[0].level.tokenMs = 10 * std::exp(0.4 * 0.3);
  Placements plan = {{0, 1}, {0, 1}};
  ConfidenceOptions options{.trials = 10000};
  expectProbability(checked(confidenceOf(p, plan, errorsOf(2, false), options)).holds, 0.64);
  expectProbability(checked(confidenceOf(p, plan, errorsOf(2, true), options)).holds, 0.64); // pools differ
  p.pieces[1].candidates[0].pool = 0;
  Confidence shared = checked(confidenceOf(p, plan, errorsOf(2, true), options));
  expectProbability(shared.holds, 0.8);
  EXPECT_NEAR(shared.agents[0].token, 1 - shared.holds.probability, 1e-12);
}

TEST(PlanConfidence, whatIsSlowerMayNotSustainItsLoad) {
  PlacementProblem p = row(1);
  p.agents[0].requestsPerSecond = 9; // of 10
  ConfidenceOptions options{.trials = 10000};
  Confidence confidence = checked(confidenceOf(p, {{0, 1}}, errorsOf(1, false), options));
  expectProbability(confidence.holds, levelOf(10.0 / 9));
  EXPECT_NEAR(confidence.agents[0].saturated, 1 - confidence.holds.probability, 1e-12);
  // Another agent is not affected.
  p.pools.push_back(p.pools[0]), p.pieces.push_back(p.pieces[0]);
  p.pools[1].name = "other", p.pieces[1].name = "other", p.pieces[1].candidates[0].pool = 1;
  p.agents.push_back(p.agents[0]);
  p.agents[1].regions = {Region::execution(1)}, p.agents[1].root = 0, p.agents[1].requestsPerSecond = 0.01;
  Confidence two = checked(confidenceOf(p, {{0, 1}, {0, 1}}, errorsOf(2, false), options));
  EXPECT_EQ(two.agents[1].holds.probability, 1);
  EXPECT_EQ(two.holds.probability, two.agents[0].holds.probability);
}

TEST(PlanConfidence, sameSeedSameResult) {
  PlacementProblem p = row(1);
  p.agents[0].level.endToEndMs = 100;
  auto run = [&](uint64_t seed) {
    return checked(confidenceOf(p, {{0, 1}}, errorsOf(1, false), {.trials = 997, .seed = seed})).holds.probability;
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

/// Faster choices cost more; the plan is the cheapest choice that holds with the probability; the bound is 100 ms.
TEST(PlanConfidence, plansAreAsSureAsAsked) {
  PlacementProblem p = row(1);
  p.queueing = false;
  p.agents[0].level.endToEndMs = 100;
  p.pieces[0].candidates.clear();
  for (int i = 0; i < 20; ++i) {
    Choice choice{.label = "choice" + std::to_string(i), .pool = 0, .devicesPerReplica = 1 + i};
    choice.milliseconds = 99 - i;
    p.pieces[0].candidates.push_back(choice);
  }
  ErrorModel errors = errorsOf(1, false);
  SolveResult first = checked(solve(p));
  EXPECT_EQ(first.placements[0].choice, 0);
  ConfidenceOptions options{.trials = 4000};
  for (double asked : {0.3, 0.6, 0.75, 0.9}) {
    ConfidentPlan plan = checked(planWithConfidence(p, first, errors, asked, {}, options));
    EXPECT_TRUE(plan.holds) << asked;
    EXPECT_GE(plan.confidence.holds.probability, asked);
    int cheapest = 0;
    while (levelOf(100.0 / (99 - cheapest)) < asked)
      ++cheapest;
    // The search ends within 0.1 standard deviations of the level, and probabilities are counted, not computed.
    EXPECT_GE(plan.result.placements[0].choice, cheapest - 1) << asked;
    EXPECT_LE(plan.result.placements[0].choice, cheapest + 1) << asked;
  }
  // The fastest holds with levelOf(100 / 80) > 1 only without the tail; take it away.
  p.pieces[0].candidates.resize(5);
  first = checked(solve(p));
  ConfidentPlan plan = checked(planWithConfidence(p, first, errors, 0.9, {}, options));
  EXPECT_FALSE(plan.holds);
  EXPECT_EQ(plan.result.placements[0].choice, 4);
  expectProbability(plan.confidence.holds, levelOf(100.0 / 95));
  ASSERT_EQ(plan.limits.size(), 1u);
  EXPECT_EQ(plan.limits[0].kind, Conflict::Kind::EndToEnd);
}

/// The time limit covers all rounds: without time the first plan is left, and the result says what stays open.
TEST(PlanConfidence, roundsShareTheTime) {
  PlacementProblem p = row(1);
  p.agents[0].level.endToEndMs = 100;
  for (double ms : {99.0, 70.0}) {
    Choice choice{.label = std::to_string(ms), .pool = 0, .devicesPerReplica = ms < 80 ? 2 : 1, .milliseconds = ms};
    p.pieces[0].candidates.push_back(choice);
  }
  SolveResult first = checked(solve(p));
  SolveOptions none, some;
  none.timeLimitSeconds = 0, some.timeLimitSeconds = 20;
  ConfidentPlan open = checked(planWithConfidence(p, first, errorsOf(1, false), 0.95, none));
  EXPECT_FALSE(open.holds);
  EXPECT_FALSE(open.settled);
  EXPECT_EQ(open.result.placements, first.placements);
  ASSERT_EQ(open.rounds.size(), 2u);
  EXPECT_NE(open.rounds[1].find("out of time after 0 of 7 rounds: whether a plan is sure enough is not settled"),
            std::string::npos);
  ConfidentPlan settled = checked(planWithConfidence(p, first, errorsOf(1, false), 0.95, some));
  EXPECT_TRUE(settled.holds);
  EXPECT_TRUE(settled.settled);

  p = burst(20);
  first = checked(solve(p));
  TightenedPlan broken = checked(tighten(p, first, {.requests = 20000}, none));
  EXPECT_FALSE(broken.holds);
  EXPECT_EQ(broken.result.placements, first.placements);
  ASSERT_EQ(broken.rounds.size(), 2u);
  EXPECT_NE(broken.rounds[1].find("out of time: whether a faster plan holds them is not settled"), std::string::npos);
}

TEST(PlanConfidence, trialsShowWhatIsAsked) {
  EXPECT_EQ(trialsFor(0.9), 400);
  EXPECT_EQ(trialsFor(0.99), 400);
  EXPECT_EQ(trialsFor(0.995), 600);
  EXPECT_EQ(trialsFor(0.999), 3000);
  // A plan that breaks once in a thousand times does so unseen once in twenty series.
  EXPECT_NEAR(std::pow(0.999, trialsFor(0.999)), 0.05, 0.001);
  PlacementProblem p = row(1);
  p.agents[0].level.endToEndMs = 100;
  auto plan = planWithConfidence(p, checked(solve(p)), errorsOf(1, false), 0.9999, {}, {.trials = 400});
  ASSERT_FALSE(static_cast<bool>(plan));
  EXPECT_EQ(toString(plan.takeError()),
            "400 trials do not show a probability of 0.9999: what breaks too often may break "
            "in none of them; take 30000 or ask for less");
  EXPECT_EQ(textOf({0.92, 0.0136}, 0), "0.920 ± 0.014");
  EXPECT_EQ(textOf({0.92, 0.0136}, 0.9), "0.920 ± 0.014");
  EXPECT_EQ(textOf({0.99883, 0.00026}, 0.9985), "0.9988 ± 0.0003");
}

/// Two errors seldom come together: a plan that is as sure as asked may be made for times that are exceeded more often.
TEST(PlanConfidence, theCheapestOfSurePlansIsTaken) {
  PlacementProblem p = row(2);
  p.queueing = false;
  p.agents[0].level.endToEndMs = 200;
  for (int piece : {0, 1}) {
    p.pieces[piece].candidates.clear();
    for (int i = 0; i < 12; ++i) {
      Choice choice{.label = "choice" + std::to_string(i), .pool = piece, .devicesPerReplica = 20 + i};
      choice.milliseconds = 99 - 1.7 * i;
      p.pieces[piece].candidates.push_back(choice);
    }
  }
  ErrorModel errors = errorsOf(2, false);
  // Enumerates all plans, each with its probability from a grid of levels.
  constexpr int steps = 100;
  double factors[steps];
  for (int i = 0; i < steps; ++i)
    factors[i] = errors.kinds[0].factorAt((i + 0.5) / steps);
  int fewest = 1000;
  for (int a = 0; a < 12; ++a)
    for (int b = 0; b < 12; ++b) {
      int held = 0;
      for (double first : factors)
        for (double second : factors)
          held += first * (99 - 1.7 * a) + second * (99 - 1.7 * b) <= 200;
      if (held >= 0.9 * steps * steps)
        fewest = std::min(fewest, 40 + a + b);
    }
  ConfidentPlan plan = checked(planWithConfidence(p, checked(solve(p)), errors, 0.9, {}, {.trials = 4000}));
  ASSERT_TRUE(plan.holds);
  int devices = 40 + plan.result.placements[0].choice + plan.result.placements[1].choice;
  EXPECT_NEAR(devices, fewest, 1);
  SolveResult straight = checked(solve(slowedTo(p, errors, 0.9)));
  ASSERT_TRUE(straight.hasPlan());
  EXPECT_LT(devices, 40 + straight.placements[0].choice + straight.placements[1].choice - 1);
}

TEST(PlanConfidence, refusesWhatCannotBe) {
  PlacementProblem p = row(1);
  auto message = [&](const ErrorModel &errors, ConfidenceOptions options) {
    auto confidence = confidenceOf(p, {{0, 1}}, errors, options);
    return confidence ? "none" : toString(confidence.takeError());
  };
  EXPECT_EQ(message(errorsOf(2, false), {}), "errors of 2 pieces and placements of 1, the problem has 1");
  ErrorModel errors = errorsOf(1, false);
  errors.pieces[0].kind = 1;
  EXPECT_EQ(message(errors, {}), "piece 'piece0' has errors of kind 1, there are 1");
  EXPECT_EQ(message(errorsOf(1, false), {.trials = 0}), "confidence of no trial");
}

TEST(PlanConfidence, tightensUntilTheSimulationHolds) {
  PlacementProblem p = burst(20);
  SimulationOptions options{.requests = 20000};
  SolveResult first = checked(solve(p));
  SimulationReport before = checked(simulate(p, first.placements, options));
  ASSERT_EQ(brokenPromises(p, before).size(), 1u);
  EXPECT_STREQ(brokenPromises(p, before)[0].what, "end to end");
  TightenedPlan plan = checked(tighten(p, first, options));
  EXPECT_TRUE(plan.holds);
  EXPECT_TRUE(brokenPromises(p, plan.simulation).empty());
  EXPECT_LE(plan.simulation.agents[0].endToEndMs.p95, 350);
  EXPECT_LT(plan.problem.agents[0].level.endToEndMs, 350);
  EXPECT_EQ(first.placements[0].choice, 0);
  EXPECT_EQ(plan.result.placements[0].choice, 1); // eight times 40 ms
  EXPECT_EQ(plan.rounds.size(), 2u);

  // Two devices are not enough for the fast one.
  p = burst(2);
  first = checked(solve(p));
  plan = checked(tighten(p, first, options));
  EXPECT_FALSE(plan.holds);
  EXPECT_EQ(plan.result.placements[0].choice, 0);
  EXPECT_GT(plan.simulation.agents[0].endToEndMs.p95, 350);

  // Nothing to do.
  p.agents[0].level.endToEndMs = 5000;
  first = checked(solve(p));
  plan = checked(tighten(p, first, options));
  EXPECT_TRUE(plan.holds);
  EXPECT_EQ(plan.rounds.size(), 1u);
}

} // namespace
