//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Why a plan is as it is: the best plan without each choice, and the figures at which another plan would be better.
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// The plan with one piece moved to the choice that costs least there: says what a move breaks.
static std::string whatBreaks(const PlacementProblem &problem, const Placements &placements, int piece,
                              std::optional<int> pool) {
  Figures figures(problem);
  std::string reason = "its menu has nothing there";
  double least = unlimited;
  for (auto [index, choice] : enumerate(problem.pieces[piece].menu)) {
    if (pool ? choice.pool != *pool : int(index) == placements[piece].choice)
      continue;
    Placements moved = placements;
    moved[piece] = {int(index), smallestReplicas(choice, figures.loads[piece])};
    Evaluation evaluation = evaluate(figures, moved);
    if (evaluation.objective < least && !evaluation.feasible()) {
      least = evaluation.objective;
      reason = evaluation.violations.front();
    }
  }
  return reason;
}

Expected<std::vector<Alternative>> explainChoices(const PlacementProblem &problem, const SolveResult &result,
                                                  bool everyPool, const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  if (!result.hasPlan())
    return createStringError("there is no plan to explain: ask explainInfeasibility for the reason");
  std::vector<std::pair<int, std::optional<int>>> questions;
  for (int piece = 0; piece < int(problem.pieces.size()); ++piece) {
    questions.push_back({piece, std::nullopt});
    if (everyPool)
      for (int pool = 0; pool < int(problem.pools.size()); ++pool)
        if (pool != problem.pieces[piece].menu[result.placements[piece].choice].pool)
          questions.push_back({piece, pool});
  }
  Clock::time_point begin = Clock::now();
  std::vector<Alternative> alternatives;
  for (auto [index, question] : enumerate(questions)) {
    auto [piece, pool] = question;
    double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    SolveOptions own = options;
    own.exportLp.clear();
    own.timeLimitSeconds = std::max(0.02, (options.timeLimitSeconds - spent) / double(questions.size() - index));
    Alternative alternative;
    alternative.piece = piece, alternative.pool = pool;
    PlacementProblem asked = problem;
    std::vector<std::pair<int, int>> forbidden;
    if (pool) {
      if (!asked.pieces[piece].pinnedPool)
        asked.pieces[piece].pinnedPool = *pool;
      else if (asked.pieces[piece].pinnedPool != pool)
        for (auto [choice, figures] : enumerate(asked.pieces[piece].menu))
          forbidden.push_back({piece, int(choice)});
    } else {
      forbidden.push_back({piece, result.placements[piece].choice});
    }
    // With little time the heuristic and the bound answer; then `exact` is false and `bound` says what is known.
    Solver solver(asked, own, forbidden);
    SolveResult best = own.timeLimitSeconds < 0.05 ? solver.estimate() : solver.run();
    alternative.possible = best.hasPlan();
    alternative.exact = best.status == SolveResult::Status::Optimal || best.status == SolveResult::Status::Infeasible;
    alternative.bound = best.bound;
    if (best.hasPlan()) {
      alternative.placements = best.placements;
      alternative.objective = best.evaluation.objective;
      double more = alternative.objective - result.evaluation.objective;
      alternative.reason = formatv("{0:e3} more {1} ({2:f1} %)", more, nameOf(problem.objective),
                                   100 * more / std::max(std::abs(result.evaluation.objective), 1e-300));
    } else {
      alternative.reason = (best.status == SolveResult::Status::Infeasible ? "no plan: " : "none found in time: ") +
                           whatBreaks(problem, result.placements, piece, pool);
    }
    alternatives.push_back(std::move(alternative));
  }
  return alternatives;
}

/// Objective of a plan as a function of the price of a pool: a line.
static double objectiveAt(PlacementProblem &problem, int pool, double price, const Placements &placements) {
  problem.pools[pool].dollarsPerDeviceHour = price;
  return evaluate(problem, placements).objective;
}

/// The price nearest to the given one on the way to `end` where another plan becomes better. From the far end plans get
/// better until none beats the present one at the crossing: as costs are lines, that crossing is exact.
static std::optional<double> breakingPrice(const PlacementProblem &original, int pool, double end,
                                           const SolveResult &result, const SolveOptions &options,
                                           std::vector<int> &changed) {
  PlacementProblem problem = original;
  double given = original.pools[pool].dollarsPerDeviceHour, at = end;
  std::optional<double> found;
  for (int round = 0; round < 30; ++round) {
    problem.pools[pool].dollarsPerDeviceHour = at;
    Solver solver(problem, options);
    solver.suggest(result.placements);
    SolveResult other = solver.run();
    if (other.status != SolveResult::Status::Optimal)
      return std::nullopt;
    double own = objectiveAt(problem, pool, at, result.placements);
    if (other.evaluation.objective >= own * (1 - 1e-7))
      return found;
    double ownGiven = objectiveAt(problem, pool, given, result.placements);
    double otherGiven = objectiveAt(problem, pool, given, other.placements);
    // own - other is below zero at the given price (or zero), above zero here.
    double here = own - other.evaluation.objective, there = ownGiven - otherGiven;
    double crossing = there >= 0 ? given : at + (given - at) * here / (here - there);
    changed.clear();
    for (size_t piece = 0; piece < problem.pieces.size(); ++piece)
      if (other.placements[piece].choice != result.placements[piece].choice)
        changed.push_back(int(piece));
    if (std::abs(crossing - at) <= 1e-6 * given)
      return crossing;
    found = at = crossing;
  }
  return found;
}

Expected<std::vector<Sensitivity>> explainSensitivity(const PlacementProblem &problem, const SolveResult &result,
                                                      const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  if (!result.hasPlan())
    return createStringError("there is no plan to explain: ask explainInfeasibility for the reason");
  std::vector<Sensitivity> all;
  if (problem.objective == Objective::DollarsPerHour || problem.objective == Objective::DollarsPerRequest)
    for (auto [index, pool] : enumerate(problem.pools)) {
      if (pool.dollarsPerDeviceHour <= 0)
        continue;
      Sensitivity of{formatv("dollars per device-hour of pool '{0}'", pool.name), pool.dollarsPerDeviceHour};
      of.below = breakingPrice(problem, int(index), pool.dollarsPerDeviceHour / 10, result, options, of.piecesBelow);
      if (result.evaluation.devices[index] > 0)
        of.above = breakingPrice(problem, int(index), pool.dollarsPerDeviceHour * 10, result, options, of.piecesAbove);
      all.push_back(std::move(of));
    }
  for (auto [index, agent] : enumerate(problem.agents)) {
    if (agent.level.endToEndMs == unlimited)
      continue;
    Sensitivity of{formatv("end-to-end bound of agent '{0}' in ms", agent.name), agent.level.endToEndMs};
    of.below = result.evaluation.agents[index].endToEndMs;
    // The fastest of the plans that cost less: their latency is the bound from which this plan is not the best.
    PlacementProblem cheaper = problem;
    cheaper.agents[index].level.endToEndMs = unlimited;
    if (problem.objective == Objective::DollarsPerHour ||
        (problem.objective == Objective::DollarsPerRequest && result.evaluation.dollarsPerHour > 0)) {
      cheaper.dollarsPerHourCap = std::min(cheaper.dollarsPerHourCap, result.evaluation.dollarsPerHour * (1 - 1e-5));
      cheaper.objective = Objective::Latency, cheaper.latencyAgent = int(index);
      cheaper.previous.clear();
      SolveResult other = Solver(cheaper, options).run();
      if (other.status == SolveResult::Status::Optimal) {
        of.above = other.evaluation.agents[index].endToEndMs;
        for (size_t piece = 0; piece < problem.pieces.size(); ++piece)
          if (other.placements[piece].choice != result.placements[piece].choice)
            of.piecesAbove.push_back(int(piece));
      }
    }
    all.push_back(std::move(of));
  }
  return all;
}

} // namespace intarsia::plan
