//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Trade-offs and changes: the front of latency against dollars, and problems that begin from a plan.
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace intarsia::plan {

Expected<std::vector<ParetoPoint>> paretoFront(const PlacementProblem &problem, int points,
                                               const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  if (points < 1)
    return createStringError("a front of " + Twine(points) + " points: ask for at least one");
  double rate = 0;
  for (auto &agent : problem.agents)
    rate += agent.requestsPerSecond;
  bool single = problem.agents.size() == 1;
  if (!single && rate <= 0)
    return createStringError(
        "a front over several agents needs their requests per second: latencies are weighed by them");
  SolveOptions own = options;
  own.exportLp.clear();
  own.timeLimitSeconds = options.timeLimitSeconds / (2 * points + 2);
  std::vector<ParetoPoint> front;
  auto keep = [&](const SolveResult &result, bool proven) {
    if (result.hasPlan())
      front.push_back({result.placements, result.evaluation, proven});
  };
  auto run = [&](const PlacementProblem &p) { return Solver(p, own).run(); };
  PlacementProblem cheap = problem, fast = problem;
  cheap.objective = Objective::DollarsPerRequest, fast.objective = Objective::Latency;
  cheap.previous.clear(), fast.previous.clear();
  // Nothing is faster than the fastest; the cheapest plan that is as fast is its end of the front.
  SolveResult fastest = run(fast), cheapest = run(cheap);
  if (!fastest.hasPlan() || !cheapest.hasPlan()) {
    keep(cheapest, false);
    return front;
  }
  auto isProven = [](const SolveResult &result) { return result.status == SolveResult::Status::Optimal; };
  constexpr double room = 1 + 1e-6;
  auto cheapestWithin = [&](double ms, bool proven) {
    PlacementProblem p = cheap;
    p.agents[0].level.endToEndMs = std::min(p.agents[0].level.endToEndMs, ms * room);
    SolveResult result = run(p);
    keep(result, proven && isProven(result));
  };
  auto fastestFor = [&](double dollarsPerHour) {
    PlacementProblem p = fast;
    p.dollarsPerHourCap = std::min(p.dollarsPerHourCap, dollarsPerHour * room);
    SolveResult result = run(p);
    if (single && result.hasPlan())
      cheapestWithin(result.evaluation.latencyMs, isProven(result));
    else
      keep(result, isProven(result));
  };
  if (single) {
    double low = fastest.evaluation.agents[0].endToEndMs, high = cheapest.evaluation.agents[0].endToEndMs;
    for (int point = 0; point < points; ++point)
      cheapestWithin(points == 1 ? high : low + (high - low) * point / (points - 1),
                     isProven(fastest) && isProven(cheapest));
  } else {
    double low = cheapest.evaluation.dollarsPerHour, high = fastest.evaluation.dollarsPerHour;
    for (int point = 0; point < points; ++point)
      fastestFor(points == 1 ? low : low + (high - low) * point / (points - 1));
  }
  llvm::sort(front, [](const ParetoPoint &a, const ParetoPoint &b) {
    return std::make_pair(a.evaluation.dollarsPerRequest, a.evaluation.latencyMs) <
           std::make_pair(b.evaluation.dollarsPerRequest, b.evaluation.latencyMs);
  });
  // Cheapest first, each faster than all before.
  std::vector<ParetoPoint> kept;
  for (auto &point : front)
    if (kept.empty() || point.evaluation.latencyMs < kept.back().evaluation.latencyMs * (1 - 1e-9))
      kept.push_back(std::move(point));
  return kept;
}

Expected<PlacementProblem> withoutDevices(const PlacementProblem &problem, const Placements &previous,
                                          const std::vector<std::pair<int, int64_t>> &lost, double moveCost) {
  PlacementProblem changed = problem;
  for (auto [pool, devices] : lost) {
    if (pool < 0 || pool >= int(problem.pools.size()))
      return createStringError(formatv("pool {0} does not exist (there are {1})", pool, problem.pools.size()));
    if (devices < 0 || devices > changed.pools[pool].devices)
      return createStringError(formatv("pool '{0}' cannot lose {1} devices, it has {2}", problem.pools[pool].name,
                                       devices, changed.pools[pool].devices));
    changed.pools[pool].devices -= devices;
  }
  changed.previous = previous;
  changed.moveCost = moveCost;
  if (Error error = changed.validate())
    return std::move(error);
  return changed;
}

} // namespace intarsia::plan
