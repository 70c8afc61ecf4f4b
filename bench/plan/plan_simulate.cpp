//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Speed of the simulator on one core, on a retrieval-augmented agent: embed, search, prefill, hand-over of the cache,
// decode in batches that slow down as they fill. intarsia-bench-simulate [requests]: five runs, median of user time.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Simulation.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>

using namespace intarsia::plan;

static double userSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec * 1e-6;
}

int main(int count, char **arguments) {
  int64_t requests = count > 1 ? std::atoll(arguments[1]) : 1000000;
  PlacementProblem p;
  p.pools = {{.name = "fast", .devices = 1000}, {.name = "cheap", .devices = 1000}, {.name = "cpu", .devices = 1000}};
  p.links = {{"cache", {{0, 1}}, 400, 10}, {"chunks", {{2, 0}}, 12, 20}};
  auto add = [&](const char *name, int pool, double ms, double alone, int slots, double first, Shape shape) {
    Piece piece{name};
    piece.candidates = {{.label = "only",
                         .pool = pool,
                         .devicesPerReplica = 1,
                         .milliseconds = ms,
                         .millisecondsAlone = alone,
                         .slots = slots,
                         .firstOutputMs = first,
                         .tokenMs = ms / 300}};
    piece.shape = shape;
    p.pieces.push_back(piece);
  };
  add("embed", 2, 4, 2, 8, 4, {});
  add("search", 2, 12, 12, 4, 12, Shape::lognormal(2));
  add("prefill", 0, 90, 60, 4, 90, Shape::lognormal(1.8));
  add("decode", 1, 6000, 4000, 32, 20, Shape::lognormal(2.2));
  p.edges = {{"chunks", 1, 2, 1e5, {}}, {"cache", 2, 3, 3.9e8, {}}};
  Agent agent{.name = "rag", .requestsPerSecond = 200};
  agent.regions = {Region::execution(0), Region::execution(1), Region::execution(2), Region::execution(3),
                   Region::dag({0, 1, 2, 3}, {{0, 1, {}}, {1, 2, {0}}, {2, 3, {1}}})};
  agent.root = 4;
  agent.level.percentile = 0.95;
  p.agents = {agent};
  Placements plan = {{0, 1}, {0, 1}, {0, 6}, {0, 46}};
  std::vector<double> rates;
  for (int run = 0; run < 5; ++run) {
    double before = userSeconds();
    auto report = simulate(p, plan, {.requests = requests, .seed = uint64_t(run)});
    if (!report)
      return std::fprintf(stderr, "%s\n", toString(report.takeError()).c_str()), 1;
    double seconds = userSeconds() - before;
    rates.push_back(requests / seconds);
    std::printf("%.3f s user, %.0f requests/s, %lld events, p95 %.1f ms (planned %.1f ms)\n", seconds, rates.back(),
                (long long)report->events, report->agents[0].endToEndMs.p95, evaluate(p, plan).agents[0].endToEndMs);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("median %.0f requests/s\n", rates[2]);
}
