//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Finds the figures at which another plan would be better, or the plan found would break.
//===----------------------------------------------------------------------------------------------------------===//
#include "Evaluate.h"
#include "Slowness.h"
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

namespace {

class Questions {
public:
  Questions(const PlacementProblem &problem, const SolveResult &result, const SolveOptions &options)
      : problem(problem), result(result), options(options) {}

  std::vector<Sensitivity> ask() {
    bool dollars = dependsOnPrices(problem);
    std::vector<Sensitivity> all;
    if (dollars)
      for (auto [index, pool] : enumerate(problem.pools))
        if (pool.dollarsPerDeviceHour > 0) {
          all.push_back({formatv("dollars per device-hour of pool '{0}'", pool.name), pool.dollarsPerDeviceHour});
          all.back().kind = Sensitivity::Kind::Price, all.back().index = int(index);
          left += 1 + isUsed(int(index));
        }
    for (auto [index, agent] : enumerate(problem.agents))
      if (agent.level.endToEndMs != unlimited) {
        all.push_back({formatv("end-to-end bound of agent '{0}' in ms", agent.name), agent.level.endToEndMs});
        all.back().kind = Sensitivity::Kind::EndToEnd, all.back().index = int(index);
        ++left;
      }
    // Questions that need the solver come last: at least half of the time is left for them.
    std::vector<Sensitivity> breaks;
    for (int pool = 0; pool < int(problem.pools.size()); ++pool)
      if (isUsed(pool))
        breaks.push_back(slowness(pool));
    for (auto [index, agent] : enumerate(problem.agents))
      if (agent.requestsPerSecond > 0)
        breaks.push_back(rate(int(index)));
    for (Sensitivity &of : all)
      of.kind == Sensitivity::Kind::Price ? askPrice(of) : askBound(of, dollars);
    append_range(all, breaks);
    return all;
  }

private:
  const PlacementProblem &problem;
  const SolveResult &result;
  SolveOptions options;
  int left = 0; ///< remaining questions that need the solver
  Clock::time_point begin = Clock::now();

  bool isUsed(int pool) const { return result.evaluation.devices[pool] > 0; }
  double spent() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }

  /// Returns the pieces that must be elsewhere in a best plan of a changed problem: pieces that can stay as in this
  /// plan are moved back, together with the pieces linked to them.
  std::vector<int> changesOf(const PlacementProblem &changedProblem, const SolveResult &other) const {
    auto isChanged = [&](const Placements &placements, int piece) {
      return placements[piece].choice != result.placements[piece].choice;
    };
    Figures figures(changedProblem);
    Placements placements = other.placements;
    double most = other.evaluation.objective + 1e-9 * std::abs(other.evaluation.objective);
    std::vector<int> changed, settled;
    for (int piece = 0; piece < int(problem.pieces.size()); ++piece) {
      if (!isChanged(placements, piece) || is_contained(settled, piece))
        continue;
      std::vector<int> alike{piece};
      for (size_t next = 0; next < alike.size(); ++next)
        for (const Edge &edge : problem.edges)
          for (auto [here, there] : {std::pair{edge.from, edge.to}, std::pair{edge.to, edge.from}})
            if (!edge.fromKinds.empty() && here == alike[next] && isChanged(placements, there) &&
                !is_contained(alike, there))
              alike.push_back(there);
      Placements stays = placements;
      for (int moved : alike)
        stays[moved] = result.placements[moved];
      if (Evaluation evaluation = evaluate(figures, stays); evaluation.feasible() && evaluation.objective <= most)
        placements = std::move(stays);
      append_range(settled, alike);
    }
    for (int piece = 0; piece < int(problem.pieces.size()); ++piece)
      if (isChanged(placements, piece))
        changed.push_back(piece);
    return changed;
  }

  /// Returns the time of this question, an equal part of the time left.
  double share() { return std::max(0.0, options.timeLimitSeconds - spent()) / std::max(1, left--); }

  void askPrice(Sensitivity &of) {
    of.below = breakingPrice(of.index, of.given / 10, of.piecesBelow, of.belowIsKnown);
    if (isUsed(of.index))
      of.above = breakingPrice(of.index, of.given * 10, of.piecesAbove, of.aboveIsKnown);
  }

  /// Returns the price nearest to the given one on the way to `end` at which another plan becomes better. Starting at
  /// `end`, each better plan moves the price to its crossing with the present plan, until no plan beats the present one
  /// there. As costs are linear in the price, that crossing is exact.
  std::optional<double> breakingPrice(int pool, double end, std::vector<int> &changed, bool &isKnown) {
    PlacementProblem priced = problem, unbounded = problem;
    // Dollars do not depend on times, and percentiles are expensive to evaluate.
    for (Agent &agent : unbounded.agents)
      agent.level = {};
    // The objective of a plan is linear in the price.
    auto objectiveAt = [&](double price, const Placements &placements) {
      unbounded.pools[pool].dollarsPerDeviceHour = price;
      return evaluate(unbounded, placements).objective;
    };
    double given = problem.pools[pool].dollarsPerDeviceHour, at = end, until = share() + spent();
    std::optional<double> found;
    for (int round = 0; round < 30; ++round) {
      SolveOptions own = options;
      own.timeLimitSeconds = until - spent();
      isKnown = own.timeLimitSeconds > 0;
      if (!isKnown)
        return std::nullopt;
      priced.pools[pool].dollarsPerDeviceHour = at;
      Solver solver(priced, own);
      solver.suggest(result.placements);
      SolveResult other = solver.run();
      isKnown = other.status == SolveResult::Status::Optimal;
      if (!isKnown)
        return std::nullopt;
      double here = objectiveAt(at, result.placements);
      if (other.evaluation.objective >= here * (1 - 1e-7))
        return found;
      double hereGiven = objectiveAt(given, result.placements);
      double otherGiven = objectiveAt(given, other.placements);
      // This plan's objective less the other's is at most 0 at the given price, and positive here.
      double atEnd = here - other.evaluation.objective, atGiven = hereGiven - otherGiven;
      double crossing = atGiven >= 0 ? given : at + (given - at) * atEnd / (atEnd - atGiven);
      changed = changesOf(priced, other);
      if (std::abs(crossing - at) <= 1e-6 * given)
        return crossing;
      found = at = crossing;
    }
    return found;
  }

  /// Turns the cost of moves into a price of executions by the choices that are moves, so that it counts in dollars an
  /// hour. Returns the cost of this plan's moves; nothing if a piece without load would move for nothing.
  std::optional<double> payForMoves(PlacementProblem &changed) const {
    Figures figures(problem);
    double perHour = problem.moveCost;
    if (problem.objective == Objective::DollarsPerRequest)
      perHour *= figures.requestsPerSecond * 3600;
    for (auto [index, piece] : enumerate(changed.pieces)) {
      double perSecond = figures.loads[index].perSecond * figures.loads[index].meanScale;
      if (problem.previous[index].choice < 0 || piece.candidates.size() == 1)
        continue;
      if (perSecond <= 0)
        return std::nullopt;
      for (auto [position, choice] : enumerate(piece.candidates))
        if (int(position) != problem.previous[index].choice)
          choice.dollarsPerExecution += perHour / 3600 / perSecond;
    }
    changed.previous.clear();
    changed.moveCost = 0;
    return perHour * result.evaluation.moves;
  }

  void askBound(Sensitivity &of, bool dollars) {
    of.below = result.evaluation.agents[of.index].endToEndMs;
    double seconds = share();
    of.aboveIsKnown = false;
    if (!dollars || result.evaluation.dollarsPerHour <= 0)
      return;
    // Finds the fastest plan that costs less: its latency is the bound from which this plan is not the best.
    PlacementProblem cheaper = problem;
    cheaper.agents[of.index].level.endToEndMs = unlimited;
    cheaper.objective = Objective::Latency, cheaper.latencyAgent = of.index;
    double most = result.evaluation.dollarsPerHour;
    if (!problem.previous.empty() && problem.moveCost > 0) {
      std::optional<double> moves = payForMoves(cheaper);
      if (!moves)
        return;
      most += *moves;
    }
    cheaper.dollarsPerHourCap = std::min(cheaper.dollarsPerHourCap, most * (1 - 1e-5));
    SolveOptions own = options;
    own.timeLimitSeconds = seconds;
    if (seconds <= 0)
      return;
    SolveResult other = Solver(cheaper, own).run();
    of.aboveIsKnown = other.status == SolveResult::Status::Optimal || other.status == SolveResult::Status::Infeasible;
    if (other.status == SolveResult::Status::Optimal) {
      of.above = other.evaluation.agents[of.index].endToEndMs;
      of.piecesAbove = changesOf(cheaper, other);
    }
  }

  /// Violations of this plan in another problem.
  struct Verdict {
    std::string violation; ///< in words; empty: nothing
    /// The largest of the bounded times over its bound, less one; infinite if there is none, or something else is
    /// violated.
    double excess = unlimited;
  };

  Verdict judge(PlacementProblem changed) const {
    for (Piece &piece : changed.pieces)
      piece.headroom = 0; // it is there for slower times and more requests
    Figures figures(changed);
    for (auto [index, piece] : enumerate(changed.pieces))
      if (auto [choice, replicas] = result.placements[index];
          replicas < smallestReplicas(piece.candidates[choice], figures.loads[index]))
        return {formatv("the replicas of '{0}' do not sustain the load", piece.name)};
    Evaluation evaluation = evaluate(figures, result.placements, /*onlyPromised=*/true);
    Verdict verdict{"", -unlimited};
    for (auto [agent, of] : zip(changed.agents, evaluation.agents))
      for (auto [value, bound, what] : {std::tuple(of.firstOutputMs, agent.level.firstOutputMs, "first output"),
                                        std::tuple(of.endToEndMs, agent.level.endToEndMs, "end-to-end time")}) {
        if (bound == unlimited)
          continue;
        if (exceeds(value, bound) && verdict.violation.empty())
          verdict.violation = formatv("the {0} of agent '{1}' breaks its bound", what, agent.name);
        verdict.excess = std::max(verdict.excess, value / bound - 1);
      }
    if (verdict.violation.empty() && !evaluation.feasible())
      return {evaluation.violations.front()};
    return verdict;
  }

  /// Finds the least factor between 1 and 10 above which this plan breaks, to a part in a thousand; times and loads
  /// only get worse with the factor.
  void findBreak(Sensitivity &of, function_ref<PlacementProblem(double)> changed) {
    of.belowIsKnown = false;
    double until = options.timeLimitSeconds / 2, holds = 1, fails = 10;
    Verdict holding = judge(changed(holds)), failing = judge(changed(fails));
    if (failing.violation.empty())
      return;
    for (int round = 0; fails > holds * (1 + 1e-3); ++round) {
      of.aboveIsKnown = spent() < until;
      if (!of.aboveIsKnown)
        return;
      double middle = std::sqrt(holds * fails);
      // Times grow nearly in proportion: tries where the line through both ends crosses zero, moved a little towards
      // the farther end, so that the next such point is on the other side. Every fourth round tries the middle instead.
      if (round % 4 != 3 && std::isfinite(holding.excess) && std::isfinite(failing.excess)) {
        double root = holds - holding.excess * (fails - holds) / (failing.excess - holding.excess);
        root *= root - holds > fails - root ? 1 - 3e-4 : 1 + 3e-4;
        middle = std::clamp(root, holds * (1 + 2e-4), fails * (1 - 2e-4));
      }
      Verdict there = judge(changed(middle));
      if (there.violation.empty())
        holds = middle, holding = std::move(there);
      else
        fails = middle, failing = std::move(there);
    }
    of.above = holds * of.given;
    of.breaks = std::move(failing.violation);
  }

  Sensitivity slowness(int pool) {
    Sensitivity of{formatv("times on pool '{0}' over the given ones", problem.pools[pool].name), 1};
    of.kind = Sensitivity::Kind::Slowness, of.index = pool;
    findBreak(of, [&](double factor) {
      std::vector<double> factors;
      for (auto [piece, placed] : zip(problem.pieces, result.placements))
        factors.push_back(piece.candidates[placed.choice].pool == pool ? factor : 1);
      PlacementProblem slower = problem;
      for (auto [piece, placed, choice] :
           zip(slower.pieces, result.placements, slowed(problem, result.placements, factors)))
        piece.candidates[placed.choice] = choice;
      return slower;
    });
    return of;
  }

  Sensitivity rate(int agent) {
    Sensitivity of{formatv("requests per second of agent '{0}'", problem.agents[agent].name),
                   problem.agents[agent].requestsPerSecond};
    of.kind = Sensitivity::Kind::Rate, of.index = agent;
    findBreak(of, [&](double factor) {
      PlacementProblem busier = problem;
      busier.agents[agent].requestsPerSecond *= factor;
      return busier;
    });
    return of;
  }
};
} // namespace

bool dependsOnPrices(const PlacementProblem &problem) {
  if (problem.objective == Objective::DollarsPerRequest)
    return any_of(problem.agents, [](const Agent &agent) { return agent.requestsPerSecond > 0; });
  return problem.objective == Objective::DollarsPerHour;
}

Expected<std::vector<Sensitivity>> explainSensitivity(const PlacementProblem &problem, const SolveResult &result,
                                                      const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  if (!result.hasPlan())
    return createStringError("there is no plan to explain: ask explainInfeasibility for the reason");
  return Questions(problem, result, options).ask();
}

} // namespace intarsia::plan
