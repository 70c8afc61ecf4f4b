//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Trade-offs: the Pareto front of latency against dollars.
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace intarsia::plan {

/// Returns true if the best plan by the problem's own objective is the cheapest.
static bool asksForCheapest(const PlacementProblem &problem, double requestsPerSecond) {
  bool moves = !problem.previous.empty() && problem.moveCost > 0;
  return !moves && (problem.objective == Objective::DollarsPerRequest ||
                    (problem.objective == Objective::DollarsPerHour && requestsPerSecond > 0));
}

Expected<std::vector<ParetoPoint>> paretoFront(const PlacementProblem &problem, int points, const SolveOptions &options,
                                               const SolveResult *best, bool *isComplete) {
  if (Error error = problem.validate())
    return std::move(error);
  if (points < 1 || points > mostParetoPoints)
    return createStringError(
        formatv("a front of {0} points: ask for at least one and at most {1}", points, mostParetoPoints));
  double rate = 0;
  for (auto &agent : problem.agents)
    rate += agent.requestsPerSecond;
  bool single = problem.agents.size() == 1;
  if (!single && rate <= 0)
    return createStringError(
        "a front over several agents needs their requests per second: latencies are weighed by them");
  Clock::time_point begin = Clock::now();
  auto secondsLeft = [&] { return options.timeLimitSeconds - secondsSince(begin); };
  int solves = points + 2;
  auto run = [&](const PlacementProblem &p) {
    SolveOptions own = options;
    own.timeLimitSeconds = std::max(0.0, secondsLeft()) / std::max(1, solves--);
    return Solver(p, own).run();
  };
  PlacementProblem cheap = problem, fast = problem;
  cheap.objective = Objective::DollarsPerRequest, fast.objective = Objective::Latency;
  cheap.previous.clear(), fast.previous.clear();
  SolveResult cheapest = best && asksForCheapest(problem, rate) ? *best : run(cheap), fastest = run(fast);
  constexpr double room = 1 + 1e-6;
  auto isProven = [](const SolveResult &result) { return result.status == SolveResult::Status::Optimal; };
  std::vector<ParetoPoint> front;
  auto keep = [&](const SolveResult &result) {
    if (!result.hasPlan())
      return;
    const Evaluation &of = result.evaluation;
    bool proven = isProven(result) ||
                  (isProven(cheapest) && of.dollarsPerRequest <= cheapest.evaluation.dollarsPerRequest * room) ||
                  (isProven(fastest) && of.latencyMs <= fastest.evaluation.latencyMs * room);
    front.push_back({result.placements, of, proven});
  };
  keep(cheapest);
  bool complete = isProven(fastest);
  auto finish = [&] {
    if (isComplete)
      *isComplete = complete && isProven(cheapest);
  };
  finish();
  if (!fastest.hasPlan() || !cheapest.hasPlan())
    return front;
  // The fastest plan is an end of the front even if no time is left for a cheaper one that is as fast.
  keep(fastest);
  // Nothing is faster than the fastest plan; the cheapest plan that is as fast is that end of the front.
  auto cheapestWithin = [&](double ms) {
    PlacementProblem p = cheap;
    p.agents[0].level.endToEndMs = std::min(p.agents[0].level.endToEndMs, ms * room);
    SolveResult result = run(p);
    complete &= result.status != SolveResult::Status::NoPlanInTime;
    keep(result);
  };
  auto fastestFor = [&](double dollarsPerHour) {
    PlacementProblem p = fast;
    p.dollarsPerHourCap = std::min(p.dollarsPerHourCap, dollarsPerHour * room);
    keep(run(p));
  };
  // The first point is the other end of the front; the last of several is near the cheapest plan.
  for (int point = 0; point < points; ++point) {
    if (point > 0 && secondsLeft() <= 0) {
      complete = false;
      break;
    }
    double share = points == 1 ? 1 : double(point) / (points - 1);
    if (single) {
      double low = fastest.evaluation.agents[0].endToEndMs, high = cheapest.evaluation.agents[0].endToEndMs;
      cheapestWithin(low + (high - low) * share);
    } else {
      double low = cheapest.evaluation.dollarsPerHour, high = fastest.evaluation.dollarsPerHour;
      fastestFor(high + (low - high) * share);
    }
  }
  finish();
  llvm::sort(front, [](const ParetoPoint &a, const ParetoPoint &b) {
    return std::make_pair(a.evaluation.dollarsPerRequest, a.evaluation.latencyMs) <
           std::make_pair(b.evaluation.dollarsPerRequest, b.evaluation.latencyMs);
  });
  // Sorts the cheapest first, keeps only plans faster than all before, and among equal costs the fastest.
  std::vector<ParetoPoint> kept;
  for (auto &point : front) {
    if (!kept.empty() && point.evaluation.latencyMs >= kept.back().evaluation.latencyMs * (1 - 1e-9))
      continue;
    if (!kept.empty() && point.evaluation.dollarsPerRequest <= kept.back().evaluation.dollarsPerRequest * (1 + 1.5e-6))
      kept.pop_back();
    kept.push_back(std::move(point));
  }
  return kept;
}

} // namespace intarsia::plan
