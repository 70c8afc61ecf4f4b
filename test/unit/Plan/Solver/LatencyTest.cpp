//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Long agents whose tasks read what all tasks before them wrote, against sums that are known in closed form.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Placement.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace intarsia::plan;

namespace {

/// Executions of two pieces in turn, on pools that a link connects, each of which reads what all before it wrote.
PlacementProblem readsAll(int executions, const Shape &shape, double linkMicroseconds) {
  PlacementProblem p;
  p.pools = {{.name = "one", .devices = 1}, {.name = "other", .devices = 1}};
  p.links = {{"there", {{0, 1}}, 1, linkMicroseconds}, {"back", {{1, 0}}, 1, linkMicroseconds}};
  for (int pool : {0, 1}) {
    Piece piece;
    piece.name = p.pools[pool].name;
    piece.shape = shape;
    piece.candidates = {{.label = "only", .pool = pool, .devicesPerReplica = 1, .milliseconds = 10}};
    p.pieces.push_back(std::move(piece));
  }
  for (int from : {0, 1})
    for (int to : {0, 1})
      p.edges.push_back({.name = "text", .from = from, .to = to, .bytes = 1});
  Agent agent;
  agent.name = "agent";
  Region dag;
  dag.kind = Region::Kind::Dag;
  for (int n = 0; n < executions; ++n) {
    agent.regions.push_back(Region::execution(n % 2));
    dag.children.push_back(n);
    for (int before = 0; before < n; ++before)
      dag.arcs.push_back({before, n, {before % 2 * 2 + n % 2}});
  }
  agent.root = executions;
  agent.regions.push_back(std::move(dag));
  agent.level.percentile = 0.95;
  p.agents.push_back(std::move(agent));
  return p;
}

TEST(PlanLatency, ofTasksThatReadAllBeforeThem) {
  // They run one after another: a sum of exponentials, Erlang's distribution. Its percentile is that of Wilson and
  // Hilferty (1931), which is off by less than 0.1 % from 10 terms on.
  for (int executions : {10, 44, 60, 300}) {
    PlacementProblem p = readsAll(executions, Shape::exponential(), 0);
    Evaluation::OfAgent of = evaluate(p, {{0, 1}, {0, 1}}).agents[0];
    double ninth = 1.0 / (9 * executions), cubed = 1 - ninth + normalQuantile(0.95) * std::sqrt(ninth);
    double expected = 10 * executions * cubed * cubed * cubed;
    EXPECT_NEAR(of.endToEndMs, expected, 0.005 * expected) << executions;
    EXPECT_NEAR(of.meanMs, 10 * executions, 0.001 * executions) << executions;
    EXPECT_TRUE(of.exact) << executions;
  }
}

TEST(PlanLatency, countsTransfersThatTakeLongerThanTheWork) {
  // Of constant times, with 25 ms from one pool to the other. Each waits for the one before, and for that only.
  PlacementProblem p = readsAll(6, Shape(), 25000);
  EXPECT_NEAR(evaluate(p, {{0, 1}, {0, 1}}).agents[0].endToEndMs, 6 * 10 + 5 * 25, 1e-3);
  // Where only the fourth gets what the first wrote over the slow link, it comes when the second and third have ended.
  p.links[0].microseconds = 0;
  p.edges.push_back({.name = "file", .from = 0, .to = 1, .bytes = 100e6}); // 100 ms
  Region &dag = p.agents[0].regions.back();
  for (Region::Arc &arc : dag.arcs)
    arc.edges.clear();
  for (Region::Arc &arc : dag.arcs)
    if (arc.from == 0 && arc.to == 3)
      arc.edges = {4};
  EXPECT_NEAR(evaluate(p, {{0, 1}, {0, 1}}).agents[0].endToEndMs, 10 + 100 + 3 * 10, 1e-3);
  // Neither stands for the other where the work may take longer than the transfer, and shorter: of the first, third and
  // fifth execution each takes 10 or 190 ms.
  p.pieces[0].shape = Shape::discrete({{1, 0.5}, {19, 0.5}});
  p.pieces[0].candidates[0].milliseconds = 100;
  for (auto [level, expected] : {std::pair(0.1, 10 + 100 + 10 + 10 + 10.0), // with probability 1 / 8
                                 {0.2, 10 + (10 + 190) + 10 + 10 + 10}}) {  // the third is slow: as much again
    p.agents[0].level.percentile = level;
    Evaluation::OfAgent of = evaluate(p, {{0, 1}, {0, 1}}).agents[0];
    EXPECT_NEAR(of.endToEndMs, expected, 1e-3);
    EXPECT_TRUE(of.exact);
  }
}

TEST(PlanLatency, marksPercentilesBetweenTwoKindsOfRequests) {
  // One request in twenty takes 10 s in place of 10 ms: its 95th percentile is either.
  PlacementProblem p;
  p.pools = {{.name = "pool", .devices = 2}};
  for (double milliseconds : {10.0, 10000.0}) {
    Piece piece;
    piece.name = "piece";
    piece.candidates = {{.label = "only", .pool = 0, .devicesPerReplica = 1, .milliseconds = milliseconds}};
    p.pieces.push_back(std::move(piece));
  }
  Agent agent;
  agent.name = "agent";
  agent.regions = {Region::execution(0), Region::execution(1), Region::branch({0, 1}, {0.95, 0.05})};
  agent.root = 2;
  agent.level = {.endToEndMs = 1e6, .percentile = 0.95};
  p.agents = {agent};
  auto jump = [&] { return evaluate(p, {{0, 1}, {0, 1}}).agents[0].endToEndJump; };
  ASSERT_TRUE(jump());
  EXPECT_EQ(jump()->below, 10);
  EXPECT_EQ(jump()->above, 10000);
  EXPECT_NEAR(jump()->levelBelow, 0.945, 1e-12);
  EXPECT_NEAR(jump()->levelAbove, 0.955, 1e-12);
  for (double slow : {0.04, 0.06}) {
    p.agents[0].regions[2].probabilities = {1 - slow, slow};
    EXPECT_FALSE(jump()) << slow;
  }
  // The percentiles of one kind of requests lie near each other, however they spread.
  p.agents[0].regions[2].probabilities = {1, 0};
  for (const Shape &shape : {Shape::exponential(), Shape::lognormal(3.8)})
    for (double level : {0.5, 0.9, 0.95, 0.99, 0.999}) {
      p.pieces[0].shape = shape;
      p.agents[0].level.percentile = level;
      EXPECT_FALSE(jump()) << level;
    }
}

} // namespace
