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

/// How many choices are looked at for what a move breaks: percentiles are dear to evaluate.
constexpr size_t movesLookedAt = 4;

/// The plan with one piece moved to choices that cost little there, and with it what must be alike; cheapest first.
static std::vector<Placements> movesOf(const Figures &figures, const Placements &placements, int piece,
                                       std::optional<int> pool, ArrayRef<std::pair<int, int>> forbidden) {
  const PlacementProblem &problem = figures.problem;
  auto placed = [&](int of, int choice) -> Placed {
    return {choice, smallestReplicas(problem.pieces[of].menu[choice], figures.loads[of])};
  };
  auto byDollars = [&](int of, auto wanted) {
    std::vector<std::pair<double, int>> found;
    for (auto [index, choice] : enumerate(problem.pieces[of].menu))
      if (wanted(int(index)))
        found.push_back({figures.footprint(choice) * double(placed(of, int(index)).replicas) *
                             problem.pools[choice.pool].dollarsPerDeviceHour,
                         int(index)});
    llvm::sort(found);
    return found;
  };
  auto moves = byDollars(piece, [&](int choice) {
    return pool ? problem.pieces[piece].menu[choice].pool == *pool
                : !is_contained(forbidden, std::make_pair(piece, choice));
  });
  std::vector<Placements> plans;
  for (auto [cost, choice] : ArrayRef(moves).take_front(movesLookedAt)) {
    Placements moved = placements;
    moved[piece] = placed(piece, choice);
    // What must be like it moves with it, and what must be like that.
    std::vector<int> settled{piece};
    for (size_t next = 0; next < settled.size(); ++next)
      for (const Edge &edge : problem.edges) {
        int here = settled[next];
        if (edge.fromKinds.empty() || edge.from == edge.to || (edge.from != here && edge.to != here))
          continue;
        bool leaves = edge.from == here;
        int other = leaves ? edge.to : edge.from;
        int kind = (leaves ? edge.fromKinds : edge.toKinds)[moved[here].choice];
        const std::vector<int> &kinds = leaves ? edge.toKinds : edge.fromKinds;
        if (is_contained(settled, other) || kinds[moved[other].choice] == kind)
          continue;
        settled.push_back(other);
        if (auto alike = byDollars(other, [&](int candidate) { return kinds[candidate] == kind; }); !alike.empty())
          moved[other] = placed(other, alike.front().second);
      }
    plans.push_back(std::move(moved));
  }
  return plans;
}

/// Says what the first of these plans breaks that breaks something.
static std::string whatBreaks(const Figures &figures, ArrayRef<Placements> plans) {
  for (const Placements &plan : plans)
    if (Evaluation evaluation = evaluate(figures, plan); !evaluation.feasible())
      return evaluation.violations.front();
  return plans.empty() ? "its menu has nothing there" : "what else the plan has does not go with it";
}

/// The choices that are not asked for once more: the plan's own; of a piece that may be in the replicas of another, or
/// have its own, all that are as the plan has it.
static std::vector<std::pair<int, int>> alikeTo(const PlacementProblem &problem, const Placements &placements,
                                                int piece) {
  std::vector<std::pair<int, int>> alike;
  const std::vector<Choice> &menu = problem.pieces[piece].menu;
  bool mayBeGuest = llvm::any_of(menu, [](const Choice &choice) { return choice.devicesPerReplica == 0; });
  for (const Edge &edge : problem.edges) {
    if (!mayBeGuest || edge.from != piece || edge.sameReplicas.empty())
      continue;
    auto isGuest = [&](int choice) { return is_contained(edge.sameReplicas, edge.fromKinds[choice]); };
    for (int choice = 0; choice < int(menu.size()); ++choice)
      if (isGuest(choice) == isGuest(placements[piece].choice))
        alike.push_back({piece, choice});
    if (alike.size() < menu.size())
      return alike;
  }
  return {{piece, placements[piece].choice}};
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
  Figures figures(problem);
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
      forbidden = alikeTo(problem, result.placements, piece);
    }
    // With little time the heuristic and the bound answer; then `exact` is false and `bound` says what is known.
    Solver solver(asked, own, forbidden);
    std::vector<Placements> moves = movesOf(figures, result.placements, piece, pool, forbidden);
    for (const Placements &moved : moves)
      solver.suggest(moved);
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
                           whatBreaks(figures, moves);
    }
    alternatives.push_back(std::move(alternative));
  }
  return alternatives;
}

} // namespace intarsia::plan
