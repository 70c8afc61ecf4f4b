//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Explains a plan: the best plan without each choice.
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <deque>

using namespace llvm;

namespace intarsia::plan {

/// Largest number of moves examined for violations: percentiles are expensive to evaluate.
constexpr size_t movesLookedAt = 4;

/// Returns the plan with one piece moved to choices that cost little there, together with the linked pieces; cheapest
/// first.
static std::vector<Placements> movesOf(const Figures &figures, const Placements &placements, int piece,
                                       std::optional<int> pool, ArrayRef<std::pair<int, int>> forbidden) {
  const PlacementProblem &problem = figures.problem;
  auto placed = [&](int of, int choice) -> Placed {
    return {choice, smallestReplicas(problem.pieces[of].candidates[choice], figures.loads[of])};
  };
  auto byDollars = [&](int of, auto wanted) {
    std::vector<std::pair<double, int>> found;
    for (auto [index, choice] : enumerate(problem.pieces[of].candidates))
      if (wanted(int(index)))
        found.push_back({figures.footprint(choice) * double(placed(of, int(index)).replicas) *
                             problem.pools[choice.pool].dollarsPerDeviceHour,
                         int(index)});
    llvm::sort(found);
    return found;
  };
  auto moves = byDollars(piece, [&](int choice) {
    return pool ? problem.pieces[piece].candidates[choice].pool == *pool
                : !is_contained(forbidden, std::make_pair(piece, choice));
  });
  std::vector<Placements> plans;
  for (auto [cost, choice] : ArrayRef(moves).take_front(movesLookedAt)) {
    Placements moved = placements;
    moved[piece] = placed(piece, choice);
    // Linked pieces move too, and the pieces linked to these.
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

/// Returns the first violation of the first of these plans that is infeasible.
static std::string whatBreaks(const Figures &figures, ArrayRef<Placements> plans) {
  for (const Placements &plan : plans)
    if (Evaluation evaluation = evaluate(figures, plan); !evaluation.feasible())
      return evaluation.violations.front();
  return plans.empty() ? "it has no candidate there" : "what else the plan has does not go with it";
}

/// Returns the choices to exclude from the question: the plan's own; for a piece that may run in the replicas of
/// another or in its own, all choices that share this with the plan.
static std::vector<std::pair<int, int>> alikeTo(const PlacementProblem &problem, const Placements &placements,
                                                int piece) {
  std::vector<std::pair<int, int>> alike;
  const std::vector<Choice> &candidates = problem.pieces[piece].candidates;
  bool mayBeGuest = llvm::any_of(candidates, [](const Choice &choice) { return choice.devicesPerReplica == 0; });
  for (const Edge &edge : problem.edges) {
    if (!mayBeGuest || edge.from != piece || edge.sameReplicas.empty())
      continue;
    auto isGuest = [&](int choice) { return is_contained(edge.sameReplicas, edge.fromKinds[choice]); };
    for (int choice = 0; choice < int(candidates.size()); ++choice)
      if (isGuest(choice) == isGuest(placements[piece].choice))
        alike.push_back({piece, choice});
    if (alike.size() < candidates.size())
      return alike;
  }
  return {{piece, placements[piece].choice}};
}

/// A piece, and the pool that it is forced to; without a pool the plan's choice is forbidden.
using Question = std::pair<int, std::optional<int>>;

/// Returns the best plan of the question; `reason` says what breaks if there is none.
static Alternative ask(const Figures &figures, const Placements &placements, Question question,
                       const SolveOptions &options) {
  const PlacementProblem &problem = figures.problem;
  auto [piece, pool] = question;
  Alternative alternative;
  alternative.piece = piece, alternative.pool = pool;
  PlacementProblem asked = problem;
  std::vector<std::pair<int, int>> forbidden;
  if (pool) {
    if (!asked.pieces[piece].pinnedPool)
      asked.pieces[piece].pinnedPool = *pool;
    else if (asked.pieces[piece].pinnedPool != pool)
      for (auto [choice, figures] : enumerate(asked.pieces[piece].candidates))
        forbidden.push_back({piece, int(choice)});
  } else {
    forbidden = alikeTo(problem, placements, piece);
  }
  Solver solver(asked, options, forbidden);
  std::vector<Placements> moves = movesOf(figures, placements, piece, pool, forbidden);
  for (const Placements &moved : moves)
    solver.suggest(moved);
  SolveResult best = solver.run();
  alternative.possible = best.hasPlan();
  alternative.exact = best.status == SolveResult::Status::Optimal || best.status == SolveResult::Status::Infeasible;
  alternative.bound = best.bound;
  if (best.hasPlan()) {
    alternative.placements = best.placements;
    alternative.objective = best.evaluation.objective;
  } else {
    alternative.reason = whatBreaks(figures, moves);
  }
  return alternative;
}

static int movesIn(const PlacementProblem &problem, const Placements &placements) {
  int moves = 0;
  for (auto [before, now] : zip(problem.previous, placements))
    moves += before.choice >= 0 && before.choice != now.choice;
  return moves;
}

Expected<std::vector<Alternative>> explainChoices(const PlacementProblem &problem, const SolveResult &result,
                                                  bool everyPool, const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  if (!result.hasPlan())
    return createStringError("there is no plan to explain: ask explainInfeasibility for the reason");
  std::vector<Question> questions;
  for (int piece = 0; piece < int(problem.pieces.size()); ++piece) {
    questions.push_back({piece, std::nullopt});
    if (everyPool)
      for (int pool = 0; pool < int(problem.pools.size()); ++pool)
        if (pool != problem.pieces[piece].candidates[result.placements[piece].choice].pool)
          questions.push_back({piece, pool});
  }
  Clock::time_point begin = Clock::now();
  Figures figures(problem);
  std::vector<Alternative> alternatives;
  for (auto [index, question] : enumerate(questions)) {
    double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    if (spent >= options.timeLimitSeconds) {
      Alternative alternative;
      alternative.piece = question.first, alternative.pool = question.second;
      alternative.reason = "not looked for: the time was over";
      alternatives.push_back(std::move(alternative));
      continue;
    }
    SolveOptions own = options;
    own.timeLimitSeconds = std::max(0.02, (options.timeLimitSeconds - spent) / double(questions.size() - index));
    Alternative alternative = ask(figures, result.placements, question, own);
    if (!alternative.possible) {
      alternative.reason = (alternative.exact ? "no plan: " : "none found in time: ") + alternative.reason;
    } else {
      // The penalty of a move is no money: costs are compared without it, and moves are counted apart.
      int moves = movesIn(problem, alternative.placements);
      double now = result.evaluation.objective - problem.moveCost * result.evaluation.moves;
      double more = alternative.objective - problem.moveCost * moves - now;
      alternative.reason =
          formatv("{0:e3} {1} {2}", std::abs(more), more < 0 ? "less" : "more", nameOf(problem.objective));
      // A relative difference is undefined when the objective is 0.
      if (now != 0)
        alternative.reason += formatv(" ({0:f1} %)", 100 * more / std::abs(now)).str();
      if (int further = moves - result.evaluation.moves)
        alternative.reason += formatv(", {0} {1} {2}", std::abs(further), further > 0 ? "more" : "fewer",
                                      std::abs(further) == 1 ? "move" : "moves");
    }
    alternatives.push_back(std::move(alternative));
  }
  return alternatives;
}

} // namespace intarsia::plan
