//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "LeastTimes.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace intarsia::plan {

/// Percentile evaluation is expensive and only breaks ties.
constexpr double secondsToPreferFaster = 0.3, shareToPreferFaster = 0.1;
constexpr size_t fasterOptionsTried = 3;
/// Pairs of options of two pieces: some 10 ms of comparing, and 16 MB.
constexpr size_t mostPairsToPreferFaster = 1'000'000;

/// Limit of the tightening per round. A plan whose queues are nearly full is hundreds of times too slow, and no plan is
/// that much faster.
constexpr double mostTightening = 2;
constexpr int roundsOfTightening = 12;

/// Extra time for a first plan, if the time limit allows it: the examples need a tenth of it.
constexpr double secondsForFirstPlan = 1;
/// Time for a first plan in any case: less than half of the smallest useful time limit, and enough for small agents.
constexpr int millisecondsInAnyCase = 300;

void Solver::insistOnPlan() { firstPlanSeconds = secondsForFirstPlan; }

Solver::Solver(const PlacementProblem &problem, const SolveOptions &options,
               ArrayRef<std::pair<int, int>> forbiddenChoices)
    : deadline(begin + std::chrono::microseconds(int64_t(std::min(options.timeLimitSeconds, 1e7) * 1e6))),
      problem(problem), options(options), figures(problem), program(figures, options.prune, forbiddenChoices) {
  for (const LatencyCheck &check : program.checks)
    hasPercentiles |= problem.agents[check.agent].level.percentile.has_value();
  statistics.options = program.optionsBeforePruning;
  for (auto &all : program.options)
    statistics.optionsAfterPruning += int(all.size());
  infeasible = program.impossiblePiece >= 0;
}

double Solver::secondsLeft() const { return std::chrono::duration<double>(deadline - Clock::now()).count(); }

double Solver::gap() const {
  if (bestObjective == unlimited)
    return unlimited;
  return std::max(0.0, (bestObjective - lowerBound) / std::max(std::abs(bestObjective), 1e-12));
}

bool Solver::offer(ArrayRef<int> assignment) {
  Evaluation evaluation = evaluate(figures, program.placementsOf(assignment));
  if (!evaluation.feasible())
    return false;
  // Among equal plans keeps the faster.
  double room = bestObjective == unlimited ? 0 : 1e-12 * std::abs(bestObjective);
  if (evaluation.objective < bestObjective - room ||
      (evaluation.objective <= bestObjective + room && meanMsOf(evaluation) < meanMsOf(bestEvaluation))) {
    bestObjective = evaluation.objective;
    best.assign(assignment.begin(), assignment.end());
    bestEvaluation = std::move(evaluation);
  }
  return true;
}

void Solver::suggest(const Placements &placements) {
  if (infeasible)
    return;
  std::vector<int> assignment = program.assignmentOf(placements);
  if (!is_contained(assignment, -1))
    offer(assignment);
}

//===----------------------------------------------------------------------------------------------------------===//
// Local search
//===----------------------------------------------------------------------------------------------------------===//

void Solver::heuristic(double share) {
  Clock::time_point started = Clock::now();
  Clock::time_point within = std::min(
      deadline, started + std::chrono::microseconds(int64_t(std::min(options.timeLimitSeconds, 1e6) * share * 1e6)));
  LocalSearch local(program);
  auto search = [&](std::vector<int> assignment) {
    // A first plan is worth more than the steps that follow.
    Clock::time_point until = within;
    if (bestObjective == unlimited && firstPlanSeconds > 0) {
      Clock::time_point latest = std::max(deadline, begin + std::chrono::milliseconds(millisecondsInAnyCase));
      until = std::clamp(started + std::chrono::microseconds(int64_t(firstPlanSeconds * 1e6)), within, latest);
    }
    // Checks of means only bound percentiles from below. Their limits are tightened until the percentiles themselves
    // hold, and loosened again where no plan meets limits that strict.
    std::vector<double> tightening(problem.agents.size(), 1.0), held = tightening;
    std::vector<int> plan = assignment;
    for (int round = 0; round < (hasPercentiles ? roundsOfTightening : 1); ++round) {
      local.run(assignment, tightening, until);
      if (local.violation() > 0) {
        if (round == 0 || Clock::now() >= until)
          return;
        assignment = plan;
        for (auto [strict, before] : zip(tightening, held))
          strict = std::sqrt(strict * before);
        continue;
      }
      Evaluation evaluation = evaluate(figures, program.placementsOf(assignment));
      bool isPlan = evaluation.feasible();
      if (isPlan)
        offer(assignment);
      if (isPlan || Clock::now() >= until)
        return;
      plan = assignment, held = tightening;
      for (auto [index, agent] : enumerate(problem.agents)) {
        auto &of = evaluation.agents[index];
        double excess = std::max(of.endToEndMs / agent.level.endToEndMs, of.firstOutputMs / agent.level.firstOutputMs);
        if (excess > 1)
          tightening[index] /= std::min(1 + (excess - 1) * (1 + 0.25 * round) + 1e-3, mostTightening);
      }
    }
  };
  // Starts from the fastest options and from the cheapest.
  std::vector<int> cheapest, fastest;
  for (auto [piece, all] : enumerate(program.options)) {
    auto cheap = llvm::min_element(all, [&](const Option &a, const Option &b) {
      return program.relaxedCost(a, int(piece)) < program.relaxedCost(b, int(piece));
    });
    auto fast =
        llvm::min_element(all, [&](const Option &a, const Option &b) { return a.stage.meanMs() < b.stage.meanMs(); });
    cheapest.push_back(int(cheap - all.begin()));
    fastest.push_back(int(fast - all.begin()));
  }
  search(fastest);
  search(cheapest);
  statistics.heuristicObjective = bestObjective;
  statistics.heuristicSeconds += secondsSince(started);
}

//===----------------------------------------------------------------------------------------------------------===//
// The road
//===----------------------------------------------------------------------------------------------------------===//

void Solver::branchAndPrice() {
  Clock::time_point started = Clock::now();
  BranchAndPrice search(program,
                        {[this](ArrayRef<int> assignment) { return offer(assignment); },
                         [this] { return bestObjective; }, [this] { return ArrayRef<int>(best); }},
                        deadline, options.relativeGap);
  lowerBound = std::max(lowerBound, std::min(search.run(), bestObjective));
  infeasible = lowerBound == unlimited;
  if (infeasible)
    for (auto [resource, isScarce] : zip(program.resources, search.scarce))
      if (isScarce)
        scarce.push_back({resource.kind, resource.index});
  statistics.rootBound = search.rootBound;
  statistics.nodes = search.nodesSolved;
  statistics.rootSeconds = search.rootSeconds;
  statistics.branchAndPriceSeconds = secondsSince(started);
}

SolveResult Solver::finish() {
  SolveResult result;
  if (bestObjective < unlimited) {
    result.placements = faster.empty() ? program.placementsOf(best) : faster;
    result.evaluation = bestEvaluation;
    result.bound = std::min(lowerBound, bestObjective);
    result.gap = gap();
    result.status =
        result.gap <= options.relativeGap * 1.01 + 1e-9 ? SolveResult::Status::Optimal : SolveResult::Status::TimeLimit;
  } else {
    result.status = infeasible ? SolveResult::Status::Infeasible : SolveResult::Status::NoPlanInTime;
    result.bound = lowerBound;
    result.scarce = scarce;
  }
  for (auto &active : program.active)
    statistics.optionsAfterBound += int(llvm::count(active, 1));
  statistics.seconds = secondsSince(begin);
  result.statistics = statistics;
  return result;
}

/// Returns the mean milliseconds of a request over all agents.
double Solver::meanMsOf(const Evaluation &evaluation) const {
  double sum = 0;
  for (auto [agent, weight] : zip(evaluation.agents, figures.weights))
    sum += weight * agent.meanMs;
  return sum;
}

void Solver::preferFaster() {
  if (bestObjective == unlimited || problem.objective == Objective::Latency)
    return;
  double seconds = std::min(secondsToPreferFaster, shareToPreferFaster * options.timeLimitSeconds);
  Clock::time_point until = Clock::now() + std::chrono::microseconds(int64_t(seconds * 1e6));
  // Dominance leaves out what costs no less and is faster: the time of an agent without a promise does not count in it,
  // and a larger part of a node that is paid for in any case does.
  Program all(figures, /*prune=*/false);
  std::vector<int> taken = all.assignmentOf(program.placementsOf(best));
  if (is_contained(taken, -1))
    return;
  double most = all.costOf(taken) + 1e-12 * std::abs(bestObjective);
  // Milliseconds of two pieces, and their options; or of one, twice.
  using Change = std::tuple<double, int, int>;
  auto tryFastest = [&](int one, int other, std::vector<Change> changes) {
    llvm::sort(changes);
    size_t tried = 0;
    for (auto [ms, option, otherOption] : changes) {
      if (tried == fasterOptionsTried || Clock::now() >= until)
        return;
      std::vector<int> assignment = taken;
      assignment[one] = option, assignment[other] = otherOption;
      if (all.costOf(assignment) > most)
        continue;
      ++tried;
      Evaluation evaluation = evaluate(figures, all.placementsOf(assignment));
      if (!evaluation.feasible() || evaluation.objective > bestObjective + 1e-12 * std::abs(bestObjective) ||
          meanMsOf(evaluation) >= meanMsOf(bestEvaluation))
        continue;
      bestEvaluation = std::move(evaluation);
      taken = std::move(assignment);
      faster = all.placementsOf(taken);
      return;
    }
  };
  auto msOf = [&](int piece, int option) { return all.options[piece][option].stage.meanMs(); };
  auto isFaster = [](double ms, double now) { return ms < now * (1 - 1e-9); };
  // Linked pieces change together.
  for (const Edge &edge : problem.edges) {
    if (edge.fromKinds.empty() || edge.from == edge.to || Clock::now() >= until)
      continue;
    double now = msOf(edge.from, taken[edge.from]) + msOf(edge.to, taken[edge.to]);
    if (all.options[edge.from].size() * all.options[edge.to].size() > mostPairsToPreferFaster)
      continue;
    std::vector<Change> changes;
    for (auto [a, from] : enumerate(all.options[edge.from]))
      for (auto [b, to] : enumerate(all.options[edge.to]))
        if (double ms = from.stage.meanMs() + to.stage.meanMs();
            edge.fromKinds[from.choice] == edge.toKinds[to.choice] && isFaster(ms, now))
          changes.push_back({ms, int(a), int(b)});
    tryFastest(edge.from, edge.to, std::move(changes));
  }
  for (int piece = 0; piece < int(all.options.size()); ++piece) {
    std::vector<Change> changes;
    for (int option = 0; option < int(all.options[piece].size()); ++option)
      if (double ms = msOf(piece, option); isFaster(ms, msOf(piece, taken[piece])))
        changes.push_back({ms, option, option});
    tryFastest(piece, piece, std::move(changes));
  }
}

SolveResult Solver::run() {
  if (!infeasible && gap() > options.relativeGap) {
    heuristic(std::min(hasPercentiles ? 0.1 : 0.02, secondsForFirstPlan / options.timeLimitSeconds));
    if (gap() > options.relativeGap && secondsLeft() > 0)
      branchAndPrice();
  }
  fillSharedDevices();
  // For intermediate questions only the cost of a plan matters.
  if (firstPlanSeconds > 0)
    preferFaster();
  return finish();
}

Expected<SolveResult> solve(const PlacementProblem &problem, const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  Solver solver(problem, options);
  // One evaluation of a long agent may take seconds.
  constexpr double secondsToAskPromises = 2;
  if (options.timeLimitSeconds > secondsToAskPromises && impossiblePromise(problem)) {
    SolveResult result;
    result.status = SolveResult::Status::Infeasible;
    return result;
  }
  if (!problem.previous.empty() && llvm::all_of(problem.previous, [](const Placed &p) { return p.choice >= 0; }))
    solver.suggest(problem.previous);
  solver.insistOnPlan();
  return solver.run();
}

} // namespace intarsia::plan
