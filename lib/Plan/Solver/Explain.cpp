//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Why a plan is as it is: the best plan without each choice.
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

} // namespace intarsia::plan
