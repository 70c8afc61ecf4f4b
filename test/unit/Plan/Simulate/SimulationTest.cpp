//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The simulator against closed forms of queueing theory, and against what the planner says of the same plan.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Simulation.h"
#include "test/unit/Checked.h"
#include <cmath>

using namespace intarsia::plan;

namespace {

/// One piece that serves in `ms`, in so many slots and replicas, at `rate` requests a second.
PlacementProblem station(double ms, int slots, Shape shape, double rate) {
  PlacementProblem p;
  p.pools = {{.name = "pool", .devices = 100}};
  Piece piece{"piece"};
  piece.candidates = {{.label = "only", .pool = 0, .devicesPerReplica = 1, .milliseconds = ms, .slots = slots}};
  piece.shape = shape;
  p.pieces = {piece};
  Agent agent{.name = "agent", .requestsPerSecond = rate};
  agent.regions = {Region::execution(0)};
  agent.level.percentile = 0.95;
  p.agents = {agent};
  return p;
}

/// Erlang's C formula as a sum, the textbook way.
double erlangC(double load, int servers) {
  double term = 1, sum = 1;
  for (int k = 1; k < servers; ++k)
    sum += term *= load / k;
  term *= load / servers;
  double waiting = term * servers / (servers - load);
  return waiting / (sum + waiting);
}

TEST(PlanSimulation, queueWithOneServerIsMM1) {
  for (double utilization : {0.3, 0.6, 0.8}) {
    PlacementProblem p = station(10, 1, Shape::exponential(), 100 * utilization);
    SimulationReport report = checked(simulate(p, {{0, 1}}, {.requests = 1000000}));
    // The time in the system is exponential with mean s / (1 - rho).
    double mean = 10 / (1 - utilization);
    EXPECT_NEAR(report.agents[0].endToEndMs.mean, mean, 0.03 * mean);
    EXPECT_NEAR(report.agents[0].endToEndMs.p95, mean * std::log(20), 0.03 * mean * std::log(20));
    EXPECT_NEAR(report.pieces[0].utilization, utilization, 0.01);
    // The planner's formula is exact here.
    EXPECT_NEAR(evaluate(p, {{0, 1}}).agents[0].endToEndMs, mean * std::log(20), 0.02 * mean * std::log(20));
  }
}

TEST(PlanSimulation, severalServersAreMMC) {
  for (int servers : {2, 8, 32}) {
    double load = 0.85 * servers;
    PlacementProblem p = station(10, 1, Shape::exponential(), load * 100);
    p.pools[0].devices = servers;
    Placements plan = {{0, servers}};
    SimulationReport report = checked(simulate(p, plan, {.requests = 1000000}));
    double wait = erlangC(load, servers) * 10 / (servers - load);
    EXPECT_NEAR(report.pieces[0].meanWaitMs, wait, 0.05 * wait) << servers;
    EXPECT_NEAR(evaluate(p, plan).waitMs[0], wait, 1e-6 * wait) << servers;
    // Slots of one replica are servers too.
    PlacementProblem slots = station(10, servers, Shape::exponential(), load * 100);
    EXPECT_NEAR(evaluate(slots, {{0, 1}}).waitMs[0], wait, 1e-6 * wait) << servers;
  }
}

TEST(PlanSimulation, constantTimesAreMD1) {
  for (double utilization : {0.5, 0.8}) {
    PlacementProblem p = station(10, 1, {}, 100 * utilization);
    SimulationReport report = checked(simulate(p, {{0, 1}}, {.requests = 1000000}));
    double wait = utilization * 10 / (2 * (1 - utilization));
    EXPECT_NEAR(report.pieces[0].meanWaitMs, wait, 0.03 * wait);
    EXPECT_NEAR(evaluate(p, {{0, 1}}).waitMs[0], wait, 1e-6 * wait);
  }
}

/// A prefill in the replicas of its decode: it ends 20 ms after it starts, and the next one starts after 6 ms.
PlacementProblem aggregated(double rate) {
  PlacementProblem p = station(50, 64, {}, rate);
  double utilization = rate * 0.006, waitMs = utilization * 6 / (2 * (1 - utilization));
  Piece prefill{"prefill"};
  prefill.candidates = {{.label = "with decode",
                         .pool = 0,
                         .milliseconds = 20,
                         .turnMs = 6,
                         .turnProbability = utilization,
                         .turnWaitMs = waitMs}};
  p.pieces.insert(p.pieces.begin(), prefill);
  p.edges = {
      {.name = "cache", .from = 0, .to = 1, .bytes = 1e9, .fromKinds = {0}, .toKinds = {0}, .sameReplicas = {0}}};
  // Two tasks share both pieces.
  p.edges.push_back(p.edges[0]);
  p.agents[0].regions = {Region::execution(0), Region::execution(1), Region::dag({0, 1}, {{0, 1, {0}}})};
  p.agents[0].root = 2;
  return p;
}

TEST(PlanSimulation, promptsTakeTurnsInTheReplicasOfTheirDecode) {
  for (double rate : {60.0, 130.0}) {
    PlacementProblem p = aggregated(rate);
    double utilization = rate * 0.006, wait = utilization * 6 / (2 * (1 - utilization));
    SimulationReport report = checked(simulate(p, {{0, 1}, {0, 1}}, {.requests = 1000000}));
    EXPECT_NEAR(report.pieces[0].meanWaitMs, wait, 0.03 * wait) << rate;
    EXPECT_NEAR(report.pieces[0].utilization, utilization, 0.01) << rate;
    EXPECT_NEAR(report.pieces[0].meanServiceMs, 20, 1e-6) << rate;
    EXPECT_NEAR(report.agents[0].endToEndMs.mean, 70 + wait, 0.01 * (70 + wait)) << rate;
    // A wait is a wait, however long the prompt.
    Evaluation evaluation = evaluate(p, {{0, 1}, {0, 1}});
    EXPECT_NEAR(evaluation.waitMs[0], wait, 1e-9) << rate;
    EXPECT_NEAR(evaluation.agents[0].meanMs, 70 + wait, 0.01 * (70 + wait)) << rate;
    p.agents[0].regions[0].timeScale = 0.1;
    // A tenth of the load: turns that are as long, a tenth as often.
    wait = 0.1 * utilization * 6 / (2 * (1 - 0.1 * utilization));
    EXPECT_NEAR(evaluate(p, {{0, 1}, {0, 1}}).agents[0].meanMs, 52 + wait, 0.01 * (52 + wait)) << rate;
  }
}

TEST(PlanSimulation, promptsWaitInTheirOwnReplica) {
  // Replicas that sustain 40 requests a second each: 130 take four. A prompt waits for those of its replica alone,
  // which is a queue of a quarter of them, whatever the most is for which the choice allows.
  PlacementProblem p = aggregated(130);
  p.pools[0].devices = 8;
  p.pieces[1].candidates[0].slots = 2; // of 50 ms
  Placements plan = {{0, 1}, {0, 4}};
  double utilization = 130 * 0.006 / 4, wait = utilization * 6 / (2 * (1 - utilization));
  SimulationReport report = checked(simulate(p, plan, {.requests = 1000000}));
  EXPECT_NEAR(report.pieces[0].meanWaitMs, wait, 0.03 * wait);
  EXPECT_NEAR(report.pieces[0].utilization, utilization, 0.01);
  EXPECT_NEAR(evaluate(p, plan).waitMs[0], wait, 1e-9);
  // More replicas than needed shorten the queue; the plan does not count on them.
  report = checked(simulate(p, {{0, 1}, {0, 8}}, {.requests = 300000}));
  EXPECT_LT(report.pieces[0].meanWaitMs, 0.6 * wait);
  EXPECT_NEAR(evaluate(p, {{0, 1}, {0, 8}}).waitMs[0], wait, 1e-9);
  // Except where their number is set by hand.
  p.pieces[1].pinnedReplicas = 8;
  utilization /= 2, wait = utilization * 6 / (2 * (1 - utilization));
  EXPECT_NEAR(report.pieces[0].meanWaitMs, wait, 0.05 * wait);
  EXPECT_NEAR(evaluate(p, {{0, 1}, {0, 8}}).waitMs[0], wait, 1e-9);
}

/// A batch whose executions slow each other down is a queue with rates that depend on its state.
TEST(PlanSimulation, batchesSlowDownAsTheyFill) {
  for (double rate : {50, 250, 600}) {
    PlacementProblem p = station(20, 16, Shape::exponential(), rate);
    p.pieces[0].candidates[0].millisecondsAlone = 5;
    // Stationary probabilities by their recurrence; 16 slots and a queue.
    auto ms = [](int busy) { return 5 + 15.0 * (busy - 1) / 15; };
    double weight = 1, sum = 1, inService = 0, waiting = 0;
    for (int k = 1; k < 3000; ++k) {
      int busy = std::min(k, 16);
      weight *= rate / 1000 / (busy / ms(busy));
      sum += weight, inService += weight * busy, waiting += weight * (k - busy);
    }
    double service = inService / sum / (rate / 1000), wait = waiting / sum / (rate / 1000);
    SimulationReport report = checked(simulate(p, {{0, 1}}, {.requests = 400000}));
    EXPECT_NEAR(report.pieces[0].meanServiceMs, service, 0.03 * service) << rate;
    EXPECT_NEAR(report.pieces[0].meanWaitMs, wait, 0.06 * wait + 0.01) << rate;
    EXPECT_NEAR(evaluate(p, {{0, 1}}).waitMs[0], wait, 1e-4 * wait + 1e-6) << rate;
  }
}

/// A replica that sustains less than its slots and times would give: what is served at once takes longer.
TEST(PlanSimulation, limitsOfRatesAreLongerTimes) {
  for (double rate : {40, 70, 90}) {
    PlacementProblem p = station(20, 4, Shape::exponential(), rate);
    p.pieces[0].candidates[0].executionsPerSecond = 100;
    double weight = 1, sum = 1, inService = 0, waiting = 0;
    for (int k = 1; k < 3000; ++k) {
      weight *= rate / std::min(std::min(k, 4) * 50.0, 100.0);
      sum += weight, inService += weight * std::min(k, 4), waiting += weight * std::max(k - 4, 0);
    }
    double service = inService / sum / rate * 1000, wait = waiting / sum / rate * 1000;
    SimulationReport report = checked(simulate(p, {{0, 1}}, {.requests = 400000}));
    EXPECT_NEAR(report.pieces[0].meanServiceMs, service, 0.02 * service) << rate;
    EXPECT_NEAR(report.pieces[0].meanWaitMs, wait, 0.06 * wait + 0.01) << rate;
    p.agents[0].level.percentile.reset();
    EXPECT_NEAR(evaluate(p, {{0, 1}}).agents[0].meanMs, service + wait, 1e-4 * (service + wait)) << rate;
  }
}

/// Without load and spread every request takes the planned time: all kinds of regions, streams and transfers.
TEST(PlanSimulation, lonelyRequestsTakeWhatThePlannerSays) {
  PlacementProblem p;
  p.pools = {{.name = "a", .devices = 100}, {.name = "b", .devices = 100}};
  p.links = {{"ab", {{0, 1}}, 1, 500}, {"ba", {{1, 0}}, 1, 500}};
  for (int i = 0; i < 6; ++i) {
    Piece piece{"piece" + std::to_string(i)};
    piece.candidates = {{.label = "only",
                         .pool = i % 2,
                         .devicesPerReplica = 1,
                         .milliseconds = 10.0 + 3 * i,
                         .slots = 4,
                         .firstOutputMs = i % 3 ? std::optional<double>(4.0) : std::nullopt}};
    p.pieces.push_back(piece);
  }
  for (int i = 0; i + 1 < 6; ++i)
    p.edges.push_back({"edge" + std::to_string(i), i, i + 1, 1e6 * (i + 1), {}});
  p.edges.push_back({"back", 3, 2, 2e6, {}});
  Agent agent{.name = "agent", .requestsPerSecond = 0.01};
  agent.regions = {Region::execution(0),
                   Region::execution(1, 1.5),
                   Region::execution(2),
                   Region::execution(3),
                   Region::dag({2, 3}, {{0, 1, {2}}}),
                   Region::loop(4, {{3, 1.0}}, {5}),
                   Region::execution(4),
                   Region::map(6, {{4, 1.0}}),
                   Region::execution(5, 1, {4}),
                   Region::dag({0, 1, 5, 7, 8}, {{0, 1, {0}}, {1, 2, {1}, true}, {0, 3, {}}, {2, 4, {}}, {3, 4, {}}})};
  agent.regions[2].laterTurnScale = 0.5;
  agent.root = 9;
  p.agents = {agent};
  Placements plan(6, {0, 1});
  Evaluation evaluation = evaluate(p, plan);
  SimulationReport report = checked(simulate(p, plan, {.requests = 200}));
  EXPECT_NEAR(report.agents[0].endToEndMs.p50, evaluation.agents[0].endToEndMs, 1e-3);
  EXPECT_NEAR(report.agents[0].firstOutputMs.p50, evaluation.agents[0].firstOutputMs, 1e-3);
}

TEST(PlanSimulation, linksTakeTurns) {
  PlacementProblem p = station(1, 64, {}, 90);
  p.pools.push_back({.name = "far", .devices = 100});
  p.links = {{"wire", {{0, 1}}, 1, 0}};
  p.pieces.push_back(p.pieces[0]);
  p.pieces[1].name = "other", p.pieces[1].candidates[0].pool = 1;
  p.edges = {{"data", 0, 1, 1e7, {}}}; // 10 ms on the wire, 90 times a second: M/D/1 at 0.9
  p.agents[0].regions = {Region::execution(0), Region::execution(1), Region::dag({0, 1}, {{0, 1, {0}}})};
  p.agents[0].root = 2;
  SimulationReport report = checked(simulate(p, {{0, 1}, {0, 1}}, {.requests = 500000}));
  EXPECT_NEAR(report.linkUtilization[0], 0.9, 0.01);
  double expected = 1 + 10 + 0.9 * 10 / (2 * 0.1) + 1;
  EXPECT_NEAR(report.agents[0].endToEndMs.mean, expected, 0.06 * expected);
}

/// Interrupted work starts again from the beginning (Gaver 1962): with failures at rate f and repairs of mean R, a
/// service of x that is alone takes (e^(f x) - 1) (1/f + R), and begins with R if the device is down, 1 / (1 + 1 / (f
/// R)) of the time.
TEST(PlanSimulation, interruptedWorkStartsAgain) {
  constexpr double hours = 3600;
  for (int devices : {1, 3}) {
    PlacementProblem p = station(1000, 1, {}, 1e-3); // hardly ever two at once
    p.pieces[0].candidates[0].devicesPerReplica = devices;
    double rate = 0.5, repair = 2; // a second, seconds
    SimulationReport report = checked(
        simulate(p, {{0, 1}}, {.requests = 20000, .deviceFailures = {{devices / rate / hours, repair / hours}}}));
    double down = rate * repair / (1 + rate * repair);
    double expected = down * repair + std::expm1(rate) * (1 / rate + repair);
    EXPECT_NEAR(report.agents[0].endToEndMs.mean, 1000 * expected, 0.04 * 1000 * expected) << devices;
    EXPECT_NEAR(double(report.interrupted) / report.agents[0].requests, std::expm1(rate) / 0.9, 0.04) << devices;
  }
}

/// Failures that rarely meet work but stop the queue: M/M/1 in a random environment, by its balance equations.
TEST(PlanSimulation, queuesGrowWhileDevicesAreDown) {
  constexpr double arrivals = 500, served = 1000, failures = 0.5, repairs = 2; // a second
  PlacementProblem p = station(1000 / served, 1, Shape::exponential(), arrivals);
  SimulationReport report = checked(
      simulate(p, {{0, 1}}, {.requests = 3000000, .deviceFailures = {{1 / failures / 3600, 1 / repairs / 3600}}}));
  // Up and down with k in the system: arrivals cross from k to k + 1 as often as services come back.
  double up = 1, down = up * failures / (arrivals + repairs), sum = up + down, inSystem = 0;
  for (int k = 1; k < 20000; ++k) {
    up = arrivals / served * (up + down);
    down = (failures * up + arrivals * down) / (arrivals + repairs);
    sum += up + down, inSystem += k * (up + down);
  }
  double expected = inSystem / sum / arrivals * 1000;
  EXPECT_NEAR(report.agents[0].endToEndMs.mean, expected, 0.06 * expected);
  EXPECT_GT(report.deviceFailures, 1000);
}

/// Failures of replicas of two devices come every half of the hours and then wait for the repair.
TEST(PlanSimulation, saysHowManyFailuresAreExpected) {
  PlacementProblem p = station(10, 1, {}, 1);
  p.pieces[0].candidates[0].devicesPerReplica = 2;
  EXPECT_FALSE(checked(simulate(p, {{0, 3}}, {.requests = 100})).expectedFailures);
  SimulationOptions options{.requests = 36000, .deviceFailures = {{0.1, 0.05}}};
  SimulationReport report = checked(simulate(p, {{0, 3}}, options));
  double expected = 3 * report.simulatedSeconds / 3600 / (0.05 + 0.05);
  EXPECT_NEAR(*report.expectedFailures, expected, 1e-6 * expected);
  EXPECT_NEAR(double(report.deviceFailures), expected, 4 * std::sqrt(expected));
  EXPECT_FALSE(report.hasTooFewFailures());
  EXPECT_EQ(report.requestsForFailures, 0);
  // Ten hours of two thousand.
  options.deviceFailures = {{2000, 1}};
  report = checked(simulate(p, {{0, 3}}, options));
  EXPECT_NEAR(*report.expectedFailures, 30.0 / 1001, 0.02 * 30.0 / 1001);
  EXPECT_TRUE(report.hasTooFewFailures());
  options.requests = int64_t(report.requestsForFailures);
  report = checked(simulate(p, {{0, 3}}, options));
  EXPECT_NEAR(*report.expectedFailures, 5, 0.02 * 5);
  options.arrivals = {{0, 0}, {5, 0}};
  report = checked(simulate(p, {{0, 3}}, options));
  EXPECT_TRUE(report.hasTooFewFailures());
  EXPECT_EQ(report.requestsForFailures, 0);
}

/// The capacity left by the same formula as above, tested just below and just above it.
TEST(PlanSimulation, failuresTakeCapacity) {
  constexpr double between = 20, repair = 5, service = 10; // seconds
  double longer = std::expm1(service / between) * (between + repair) / service;
  for (double share : {0.97, 1.03}) {
    PlacementProblem p = station(1000 * service, 4, {}, share * 4 * 3 / service / longer);
    auto report = simulate(p, {{0, 3}}, {.requests = 2000, .deviceFailures = {{between / 3600, repair / 3600}}});
    EXPECT_EQ(static_cast<bool>(report), share < 1) << share;
    std::string message = report ? "" : toString(report.takeError());
    // 4 slots of 3 replicas end 1.2 a second, times (e^(1/2) - 1) 25 / 10 = 1.622 as long.
    if (share > 1)
      EXPECT_EQ(message, "piece 'piece' on pool 'pool': a replica of 1 devices fails every 20 s on average and is back "
                         "after 5 s, so that work takes 1.622 times as long: 3 replicas then sustain 0.7399 "
                         "executions/s, 0.7621 are asked for; let devices fail less often or be back sooner");
  }
}

/// Slots alone would serve all at once; the cache has room for three.
TEST(PlanSimulation, cachesLimitHowManyAreServed) {
  PlacementProblem p = station(10, 16, Shape::exponential(), 250);
  p.pieces[0].candidates[0].cacheTokens = 1000;
  p.pieces[0].heldTokens = 300;
  double wait = erlangC(2.5, 3) * 10 / 0.5;
  SimulationReport report = checked(simulate(p, {{0, 1}}, {.requests = 1000000}));
  EXPECT_NEAR(report.pieces[0].meanWaitMs, wait, 0.05 * wait);
  // Two replicas of it are six servers of one queue.
  p.agents[0].requestsPerSecond = 500;
  wait = erlangC(5, 6) * 10 / 1;
  report = checked(simulate(p, {{0, 2}}, {.requests = 1000000}));
  EXPECT_NEAR(report.pieces[0].meanWaitMs, wait, 0.05 * wait);
  // Long ones hold more; what is larger than the cache has it alone, in its turn.
  p.pieces[0].shape = {};
  p.pieces[0].heldTokens = 0, p.pieces[0].writtenTokens = 1000;
  p.agents.push_back(p.agents[0]);
  p.agents[0].regions = {Region::execution(0, 0.5)};
  p.agents[1].regions = {Region::execution(0, 1.5)};
  report = checked(simulate(p, {{0, 1}}, {.arrivals = {{0, 1}, {0, 0}, {0, 0}, {0, 1}, {0, 0}}}));
  EXPECT_NEAR(report.agents[1].endToEndMs.mean, (15 + 35) / 2.0, 1e-4);
  EXPECT_NEAR(report.agents[0].endToEndMs.mean, (20 + 20 + 40) / 3.0, 1e-4);
}

/// A prompt of any length shares a replica evenly with the others (chunks of all take turns): M/G/1 with processor
/// sharing has a mean of s / (1 - rho) for every distribution of lengths, where first come, first served has 3.6 times
/// that.
TEST(PlanSimulation, longPromptsDoNotBlockShortOnes) {
  constexpr int slots = 400; // of which never all are taken
  for (Shape shape : {Shape{}, Shape::exponential(), Shape::discrete({{0.5, 0.95}, {10.5, 0.05}})}) {
    PlacementProblem p = station(10.0 * slots, slots, shape, 70);
    p.pieces[0].candidates[0].millisecondsAlone = 10;
    SimulationReport report = checked(simulate(p, {{0, 1}}, {.requests = 1000000}));
    EXPECT_NEAR(report.agents[0].endToEndMs.mean, 10 / 0.3, 0.04 * 10 / 0.3);
    EXPECT_LT(report.pieces[0].meanWaitMs, 0.01);
  }
}

/// A replica that speeds up gives the first output sooner than it seemed when the work was taken, and never after its
/// end.
TEST(PlanSimulation, firstOutputsComeWhenTheirWorkIsDone) {
  PlacementProblem p = station(100, 2, {}, 0);
  p.pieces[0].candidates[0].millisecondsAlone = 50;
  p.pieces[0].candidates[0].firstOutputMs = 80;
  p.agents[0].level.percentile.reset();
  p.agents.push_back(p.agents[0]);
  p.agents[1].regions = {Region::execution(0, 0.1)};
  // Both at once: after 10 ms the short one is through, of the long one 70 ms and then 20 are left at twice the pace.
  SimulationReport report = checked(simulate(p, {{0, 1}}, {.arrivals = {{0, 1}, {0, 0}}}));
  EXPECT_NEAR(report.agents[1].firstOutputMs.mean, 8, 1e-4);
  EXPECT_NEAR(report.agents[1].endToEndMs.mean, 10, 1e-4);
  EXPECT_NEAR(report.agents[0].firstOutputMs.mean, 10 + 70 / 2.0, 1e-4);
  EXPECT_NEAR(report.agents[0].endToEndMs.mean, 10 + 90 / 2.0, 1e-4);
  // Slowed down by one that comes 20 ms later, when 40 of 80 ms are done.
  report = checked(simulate(p, {{0, 1}}, {.arrivals = {{0, 0}, {20, 1}}}));
  EXPECT_NEAR(report.agents[0].firstOutputMs.mean, 20 + 10 + 30 / 2.0, 1e-4);
  EXPECT_NEAR(report.agents[0].endToEndMs.mean, 20 + 10 + 50 / 2.0, 1e-4);
  // Without anything after the first output it is the end, for each request that comes.
  p.pieces[0].candidates[0].firstOutputMs.reset();
  std::vector<std::pair<double, int>> arrivals;
  for (int i = 0; i < 9; ++i)
    arrivals.push_back({70.0 * i, i % 2});
  report = checked(simulate(p, {{0, 1}}, {.arrivals = arrivals}));
  for (const SimulationReport::OfAgent &of : report.agents) {
    EXPECT_EQ(of.firstOutputMs.mean, of.endToEndMs.mean);
    EXPECT_EQ(of.firstOutputMs.p99, of.endToEndMs.p99);
  }
}

/// Work that shares a replica evenly is done in proportion (M/G/1 with processor sharing): the part before the first
/// output of an execution takes that part over 1 - rho.
TEST(PlanSimulation, firstOutputsShareTheirReplica) {
  constexpr int slots = 400;
  PlacementProblem p = station(10.0 * slots, slots, Shape::exponential(), 70);
  p.pieces[0].candidates[0].millisecondsAlone = 10;
  p.pieces[0].candidates[0].firstOutputMs = 9.5 * slots;
  SimulationReport report = checked(simulate(p, {{0, 1}}, {.requests = 1000000}));
  const SimulationReport::OfAgent &of = report.agents[0];
  EXPECT_NEAR(of.firstOutputMs.mean, 9.5 / 0.3, 0.04 * 9.5 / 0.3);
  EXPECT_NEAR(of.endToEndMs.mean, 10 / 0.3, 0.04 * 10 / 0.3);
  EXPECT_LE(of.firstOutputMs.p50, of.endToEndMs.p50);
  EXPECT_LE(of.firstOutputMs.p95, of.endToEndMs.p95);
  EXPECT_LE(of.firstOutputMs.p99, of.endToEndMs.p99);
}

TEST(PlanSimulation, recordedArrivalsAreReplayed) {
  PlacementProblem p = station(10, 1, {}, 0);
  SimulationReport report = checked(simulate(p, {{0, 1}}, {.arrivals = {{0, 0}, {0, 0}, {0, 0}, {100, 0}}}));
  EXPECT_EQ(report.agents[0].requests, 4);
  EXPECT_NEAR(report.agents[0].endToEndMs.mean, (10 + 20 + 30 + 10) / 4.0, 1e-4);
}

/// $3.60 an hour for as long as it takes to answer all, and $0.0002 for each execution.
TEST(PlanSimulation, costsGoOnUntilTheLastAnswer) {
  PlacementProblem p = station(10, 1, {}, 50);
  p.pools[0].dollarsPerDeviceHour = 3.6;
  p.pieces[0].candidates[0].dollarsPerExecution = 2e-4;
  std::vector<std::pair<double, int>> arrivals;
  for (int i = 0; i < 1000; ++i)
    arrivals.push_back({0.01 * i, 0});
  SimulationReport report = checked(simulate(p, {{0, 1}}, {.arrivals = arrivals}));
  EXPECT_NEAR(report.simulatedSeconds, 10, 1e-9);
  EXPECT_NEAR(report.dollarsPerRequest, 0.001 * 10 / 1000 + 2e-4, 1e-12);
  EXPECT_NEAR(report.dollarsPerHour, 3.6 + 1000 * 2e-4 * 360, 1e-9);
  // If answers keep up, the cost is the planned one, also with transfers.
  p.links = {{.name = "link", .pairs = {{0, 0}}, .gigabytesPerSecond = 1, .dollarsPerGigabyte = 1}};
  p.edges = {{.name = "data", .from = 0, .to = 0, .bytes = 1e5}};
  p.agents[0].regions[0].entryEdges = {0};
  Evaluation planned = evaluate(p, {{0, 1}});
  EXPECT_NEAR(planned.dollarsPerRequest, 0.001 / 50 + 2e-4 + 1e-4, 1e-12);
  report = checked(simulate(p, {{0, 1}}, {.requests = 200000}));
  EXPECT_NEAR(report.dollarsPerRequest, planned.dollarsPerRequest, 0.01 * planned.dollarsPerRequest);
  EXPECT_NEAR(report.dollarsPerHour, planned.dollarsPerHour, 0.01 * planned.dollarsPerHour);
}

TEST(PlanSimulation, arrivalsAreReadFromTables) {
  std::vector<std::string> agents{"chat", "summarise"};
  auto arrivals = checked(readArrivals("\xEF\xBB\xBF# from the gateway\r\n\"region, zone\", seconds ,agent\r\n"
                                       "\"eu, 1\",1700000000.5,chat\n\neu,1700000000.5,@summarise\nus,1700000002,chat",
                                       "log.csv", agents));
  std::vector<std::pair<double, int>> expected{{0, 0}, {0, 1}, {1500, 0}};
  EXPECT_EQ(arrivals, expected);
  EXPECT_EQ(checked(readArrivals("agent,milliseconds\nsummarise,3\nchat,4.5\n", "log.csv", agents)),
            (std::vector<std::pair<double, int>>{{0, 1}, {1.5, 0}}));
  std::pair<const char *, const char *> bad[] = {
      {"", "log.csv: is empty; its first line names the columns"},
      {"# nothing\n", "log.csv: is empty"},
      {"seconds,agent\n", "log.csv: has no request after the line that names its columns"},
      {"time,agent\n1,chat\n", "log.csv:1: no column 'seconds' or 'milliseconds' among 'time', 'agent'"},
      {"seconds\n1\n", "log.csv:1: no column 'agent' among 'seconds'"},
      {"seconds,agent,milliseconds\n", "log.csv:1: 'seconds' and 'milliseconds': one column of times is expected"},
      {"agent,seconds,agent\n", "log.csv:1: two columns are named 'agent'"},
      {"seconds,agent\n1,chat\n2\n", "log.csv:3: 1 cells, the first line has 2"},
      {"seconds,agent\n1,chat,\n", "log.csv:2: 3 cells, the first line has 2"},
      {"seconds,agent\nsoon,chat\n", "log.csv:2: column 'seconds': 'soon' is not a number"},
      {"seconds,agent\nnan,chat\n", "log.csv:2: column 'seconds': 'nan' is not a number"},
      {"seconds,agent\ninf,chat\n", "log.csv:2: column 'seconds': 'inf' is not a number"},
      {"seconds,agent\n-1,chat\n", "log.csv:2: column 'seconds': -1 is below zero"},
      {"seconds,agent\n1,chat\n1e300,chat\n", "log.csv:3: column 'seconds': 1e300 is more than 100,000,000,000 s"},
      {"seconds,agent\n1700000000000,chat\n", "log.csv:2: column 'seconds': 1700000000000 is more than 100,000,000,000 "
                                              "s (3,000 years); is it in another unit"},
      {"milliseconds,agent\n1700000000000000,chat\n", "log.csv:2: column 'milliseconds': 1700000000000000 is more"},
      {"seconds,agent\n# x\n2,chat\n1.5,chat\n", "log.csv:4: column 'seconds': 1.5 comes before the line above"},
      {"seconds,agent\n1,sumarise\n",
       "log.csv:2: column 'agent': there is no agent 'sumarise'; did you mean 'summarise'?"},
      {"seconds,agent\n1,\n", "log.csv:2: column 'agent': there is no agent ''"},
      {"seconds,agent\n1,\"chat\n", "log.csv:2: column 2: a quote is not closed"},
      {"seconds,agent\n1,\"chat\"s\n", "log.csv:2: column 2: 's' after the closing quote"},
  };
  for (auto [csv, message] : bad) {
    auto read = readArrivals(csv, "log.csv", agents);
    ASSERT_FALSE(static_cast<bool>(read)) << message;
    std::string text = toString(read.takeError());
    EXPECT_EQ(text.rfind(message, 0), 0u) << text << " / " << message;
  }
}

TEST(PlanSimulation, sameSeedSameResult) {
  PlacementProblem p = station(10, 4, Shape::lognormal(2), 300);
  auto run = [&](uint64_t seed) {
    return checked(simulate(p, {{0, 1}}, {.requests = 20000, .seed = seed})).agents[0].endToEndMs.p99;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

/// An agent as people build them; the planner's 95th percentile before any tightening, against the simulator's.
TEST(PlanSimulation, plannedPercentilesAreSimulated) {
  for (double busy : {0.4, 0.7, 0.85}) {
    PlacementProblem p;
    p.pools = {{.name = "gpu", .devices = 100}, {.name = "cpu", .devices = 100}};
    p.links = {{"pcie", {{0, 1}, {1, 0}}, 12, 20}};
    auto add = [&](const char *name, int pool, double ms, double alone, int slots, double first, Shape shape) {
      Piece piece{name};
      piece.candidates = {{.label = "only",
                           .pool = pool,
                           .devicesPerReplica = 1,
                           .milliseconds = ms,
                           .millisecondsAlone = alone,
                           .slots = slots,
                           .firstOutputMs = first,
                           .tokenMs = ms / 200}};
      piece.shape = shape;
      p.pieces.push_back(piece);
    };
    add("embed", 1, 4, 2, 8, 4, {});
    add("search", 1, 12, 12, 4, 12, Shape::lognormal(2));
    add("tool", 1, 300, 300, 64, 300, Shape::exponential());
    add("prefill", 0, 90, 60, 4, 90, Shape::lognormal(1.8));
    add("decode", 0, 4000, 2500, 64, 20, Shape::lognormal(2.2));
    p.edges = {{"kv", 3, 4, 2e8, {}}, {"chunks", 1, 3, 1e5, {}}};
    Agent agent{.name = "rag", .requestsPerSecond = busy * 16};
    agent.regions = {Region::execution(0),
                     Region::execution(1),
                     Region::dag({0, 1}, {{0, 1, {}}}),
                     Region::execution(2),
                     Region::branch({2, 3}, {0.8, 0.2}),
                     Region::execution(3),
                     Region::execution(4),
                     Region::dag({4, 5, 6}, {{0, 1, {1}}, {1, 2, {0}}})};
    agent.root = 7;
    agent.level.percentile = 0.95;
    p.agents = {agent};
    Placements plan = {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}};
    Evaluation evaluation = evaluate(p, plan);
    ASSERT_TRUE(evaluation.feasible()) << evaluation.violations[0];
    // Prefill sustains 44 a second, decode 16: `busy` is the share of decode's.
    SimulationReport report = checked(simulate(p, plan, {.requests = 200000}));
    double planned = evaluation.agents[0].endToEndMs, simulated = report.agents[0].endToEndMs.p95;
    std::printf("busy %.2f: p95 %.1f ms planned, %.1f ms simulated (%+.1f %%); first output %.1f, %.1f ms (%+.1f %%)\n",
                busy, planned, simulated, 100 * (planned / simulated - 1), evaluation.agents[0].firstOutputMs,
                report.agents[0].firstOutputMs.p95,
                100 * (evaluation.agents[0].firstOutputMs / report.agents[0].firstOutputMs.p95 - 1));
    EXPECT_NEAR(planned, simulated, 0.05 * simulated);
    EXPECT_NEAR(evaluation.agents[0].firstOutputMs, report.agents[0].firstOutputMs.p95,
                0.15 * report.agents[0].firstOutputMs.p95);
  }
}

TEST(PlanSimulation, refusesWhatCannotBe) {
  struct {
    PlacementProblem problem;
    Placements plan;
    SimulationOptions options;
    const char *message;
  } cases[] = {
      {station(10, 1, {}, 100), {{0, 1}}, {}, "piece 'piece': 1 replicas do not sustain its load; 2 do"},
      {station(10, 1, {}, 0), {{0, 1}}, {}, "no agent has requests per second"},
      {station(10, 1, {}, 10), {{3, 1}}, {}, "by choice 3, the number of its candidates is 1"},
      {station(10, 1, {}, 10), {}, {}, "the plan places 0 pieces, the problem has 1"},
      {station(10, 1, {}, 10), {{0, 1}}, {.requests = 0}, "a simulation of no request"},
      {station(10, 1, {}, 10), {{0, 1}}, {.arrivals = {{5, 0}, {4, 0}}}, "are not in order"},
      {station(10, 1, {}, 10), {{0, 1}}, {.arrivals = {{5, 2}}}, "is of agent 2, there are 1"},
      {station(1000, 1, {}, 1e-3),
       {{0, 1}},
       {.deviceFailures = {{0.9 / 3600, 1}}},
       "fails every 0.9 s on average, an execution takes 1 s or more and starts again each time"},
      // Days between requests, and devices that fail every second all the time.
      {station(10, 1, {}, 1e-5),
       {{0, 1}},
       {.deviceFailures = {{1 / 3600.0, 1e-9}}},
       "replicas would fail about 1e+10 times in 1e+10 s of arrivals"},
      // One of two thousand executions takes 7.7 times the mean or more, and then ends once in a thousand times.
      {station(900, 1, Shape::exponential(), 0.05),
       {{0, 1}},
       {.requests = 20000, .deviceFailures = {{1 / 3600.0, 1e-9}}},
       "was started 1000 times and failures of devices ended it each time"},
  };
  for (auto &bad : cases) {
    auto report = simulate(bad.problem, bad.plan, bad.options);
    ASSERT_FALSE(static_cast<bool>(report)) << bad.message;
    std::string message = toString(report.takeError());
    EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  }
}

} // namespace
