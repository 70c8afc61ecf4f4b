//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "EachAlone.h"
#include "LeastTimes.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace intarsia::plan {

/// Percentile evaluation is expensive and only breaks ties.
constexpr double secondsToPreferFaster = 0.3, shareToPreferFaster = 0.1;
constexpr size_t fasterOptionsTried = 3;

/// Share of the time for solving parts alone, where percentiles are bounded.
constexpr double shareOfParts = 0.7;

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
      problem(problem), options(options), forbidden(forbiddenChoices), figures(problem),
      program(figures, options.prune, forbidden) {
  for (auto &check : program.checks)
    hasPercentiles |= !check.nominal;
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

void Solver::addRow(Row row) {
  if (lagrangian)
    lagrangian->addRow(row);
  rows.push_back(std::move(row));
  ++statistics.latencyRows;
}

void Solver::addPathRow(const LatencyCheck &check, ArrayRef<int> assignment) {
  PathTerms terms;
  program.latency(check, assignment, &terms);
  Row row = program.rowOf(check, terms);
  if (check.limit < unlimited)
    addRow(row);
  if (check.inObjective) {
    row.latencyOf = check.agent;
    row.upper = 0;
    addRow(std::move(row));
  }
}

//===----------------------------------------------------------------------------------------------------------===//
// Heuristic and bound
//===----------------------------------------------------------------------------------------------------------===//

void Solver::heuristic(double share) {
  Clock::time_point started = Clock::now();
  Clock::time_point within = std::min(
      deadline, started + std::chrono::microseconds(int64_t(std::min(options.timeLimitSeconds, 1e6) * share * 1e6)));
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
      LocalSearch local(program, tightening);
      local.run(assignment, until);
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
  // Starts from the cheapest options, the fastest, and the Lagrangian's first assignment.
  std::vector<int> cheapest, fastest;
  for (auto [piece, all] : enumerate(program.options)) {
    auto cheap = llvm::min_element(all, [&](const Option &a, const Option &b) {
      return program.relaxedCost(a, int(piece)) < program.relaxedCost(b, int(piece));
    });
    auto fast = llvm::min_element(all, [&](const Option &a, const Option &b) {
      return a.stage.waitMs() + a.stage.firstMs + a.stage.restMs < b.stage.waitMs() + b.stage.firstMs + b.stage.restMs;
    });
    cheapest.push_back(int(cheap - all.begin()));
    fastest.push_back(int(fast - all.begin()));
  }
  for (auto &check : program.checks) {
    addPathRow(check, cheapest);
    addPathRow(check, fastest);
  }
  Lagrangian::Step step = lagrangian->evaluate();
  if (step.bound == unlimited) {
    infeasible = true;
    return;
  }
  lowerBound = std::max(lowerBound, step.bound);
  search(step.assignment);
  search(fastest);
  if (bestObjective == unlimited)
    search(cheapest);
  statistics.heuristicObjective = bestObjective;
  statistics.heuristicSeconds += secondsSince(started);
}

void Solver::bound() {
  Clock::time_point started = Clock::now();
  double share = std::min({options.timeLimitSeconds * 0.5, secondsLeft(), 1e6});
  double agility = 1;
  int stalled = 0, sinceSearch = 0;
  double bestSeen = -unlimited;
  for (int iteration = 0; iteration < 1500 && secondsSince(started) < share; ++iteration) {
    Lagrangian::Step step = lagrangian->evaluate();
    if (step.bound == unlimited) {
      infeasible = bestObjective == unlimited;
      lowerBound = bestObjective;
      break;
    }
    if (step.bound > bestSeen + 1e-6 * std::abs(bestSeen) || iteration == 0)
      stalled = 0;
    else
      ++stalled;
    if (step.bound > bestSeen) {
      bestSeen = step.bound;
      lagrangian->keepBest();
    }
    lowerBound = std::max(lowerBound, step.bound);
    // Removes options that no better plan has.
    if (bestObjective < unlimited) {
      double room = bestObjective - step.bound + 1e-9 * std::abs(bestObjective);
      for (auto [piece, rises] : enumerate(lagrangian->rises()))
        for (auto [option, rise] : enumerate(rises))
          if (rise > room && program.active[piece][option] && best[piece] != int(option))
            program.active[piece][option] = 0;
    }
    if (gap() <= options.relativeGap)
      break;
    // Adds rows for paths that became critical.
    if (iteration % 5 == 0)
      for (auto &check : program.checks) {
        double limit = check.limit;
        if (!check.inObjective && !exceeds(program.latency(check, step.assignment), limit))
          continue;
        if (rows.size() < 40 + 30 * program.checks.size() && iteration < 300) {
          PathTerms terms;
          program.latency(check, step.assignment, &terms);
          Row row = program.rowOf(check, terms);
          bool known = llvm::any_of(rows, [&](const Row &other) {
            if (other.name != row.name || other.optionTerms.size() != row.optionTerms.size() ||
                other.pairTerms.size() != row.pairTerms.size())
              return false;
            for (auto [a, b] : zip(other.optionTerms, row.optionTerms))
              if (a.piece != b.piece || a.factors != b.factors)
                return false;
            for (auto [a, b] : zip(other.pairTerms, row.pairTerms))
              if (a.pair != b.pair || a.factors != b.factors)
                return false;
            return true;
          });
          if (!known)
            addPathRow(check, step.assignment);
        }
      }
    if (++sinceSearch >= 100 || (bestObjective == unlimited && sinceSearch >= 20)) {
      sinceSearch = 0;
      LocalSearch local(program, std::vector<double>(problem.agents.size(), 1.0));
      std::vector<int> assignment = step.assignment;
      local.run(assignment, std::min(deadline, Clock::now() + std::chrono::microseconds(int64_t(share * 0.1e6))));
      if (local.violation() == 0)
        offer(assignment);
    }
    if (stalled > 15) {
      agility /= 2;
      stalled = 0;
      lagrangian->restoreBest();
      if (agility < 1e-3)
        break;
    }
    double target = bestObjective < unlimited ? bestObjective : step.bound + std::max(0.1 * std::abs(step.bound), 1e-9);
    lagrangian->move(step, target, agility);
  }
  statistics.lagrangianBound = bestSeen;
  statistics.boundSeconds = secondsSince(started);
}

//===----------------------------------------------------------------------------------------------------------===//
// The road
//===----------------------------------------------------------------------------------------------------------===//

void Solver::branchAndPrice() {
  Clock::time_point started = Clock::now(), until = deadline;
  // Percentiles are expensive to evaluate, and a cut takes many of them. The bound is valid without all cuts; the whole
  // program then has the other half of the time.
  double forCuts = 0.4 * secondsLeft(), spent = 0;
  if (hasPercentiles)
    until = started + std::chrono::microseconds(int64_t(std::min(secondsLeft(), 1e6) * 0.5e6));
  auto judge = [&](int agent, ArrayRef<int> assignment) -> std::optional<Row> {
    if (!problem.agents[agent].level.percentile || spent > forCuts)
      return std::nullopt;
    Clock::time_point asked = Clock::now();
    std::optional<Row> cut = brokenPercentile(agent, assignment);
    spent += secondsSince(asked);
    return cut;
  };
  BranchAndPrice search(program,
                        {[this](ArrayRef<int> assignment) { return offer(assignment); },
                         [this] { return bestObjective; }, [this] { return ArrayRef<int>(best); }, judge},
                        until, options.relativeGap);
  lowerBound = std::max(lowerBound, std::min(search.run(), bestObjective));
  statistics.rootBound = search.rootBound;
  statistics.nodes = search.nodesSolved;
  statistics.rootSeconds = search.rootSeconds;
  statistics.branchAndPriceSeconds = secondsSince(started);
}

SolveResult Solver::finish() {
  SolveResult result;
  if (bestObjective < unlimited) {
    result.placements = program.placementsOf(best);
    result.evaluation = bestEvaluation;
    result.bound = std::min(lowerBound, bestObjective);
    result.gap = gap();
    result.eachBestAlone = std::abs(bestObjective - objectiveOfBestAlone) <= 1e-9 * std::abs(bestObjective);
    result.status =
        result.gap <= options.relativeGap * 1.01 + 1e-9 ? SolveResult::Status::Optimal : SolveResult::Status::TimeLimit;
  } else {
    result.status = infeasible ? SolveResult::Status::Infeasible : SolveResult::Status::NoPlanInTime;
    result.bound = lowerBound;
  }
  for (auto &active : program.active)
    statistics.optionsAfterBound += int(llvm::count(active, 1));
  statistics.seconds = secondsSince(begin);
  result.statistics = statistics;
  return result;
}

static double meanMs(const Option &option) {
  return option.stage.waitMs() + option.stage.firstMs + option.stage.restMs;
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
  using Change = std::vector<std::pair<int, int>>; // pieces and their options
  auto tryFastest = [&](std::vector<std::pair<double, Change>> &changes) {
    llvm::sort(changes);
    for (auto &[ms, change] : ArrayRef(changes).take_front(fasterOptionsTried)) {
      if (Clock::now() >= until)
        return;
      std::vector<int> assignment = best;
      for (auto [piece, option] : change)
        assignment[piece] = option;
      double before = meanMsOf(bestEvaluation);
      if (offer(assignment) && meanMsOf(bestEvaluation) < before)
        return;
    }
  };
  // Linked pieces change together.
  for (const Edge &edge : problem.edges) {
    if (edge.fromKinds.empty() || edge.from == edge.to || Clock::now() >= until)
      continue;
    auto &from = program.options[edge.from], &to = program.options[edge.to];
    const Option &fromNow = from[best[edge.from]], &toNow = to[best[edge.to]];
    std::map<int, std::pair<double, Change>> fastest; // by kind
    for (auto [a, one] : enumerate(from))
      for (auto [b, other] : enumerate(to)) {
        int kind = edge.fromKinds[one.choice];
        double ms = meanMs(one) + meanMs(other);
        if (kind != edge.toKinds[other.choice] || one.cost + other.cost > fromNow.cost + toNow.cost ||
            ms >= (meanMs(fromNow) + meanMs(toNow)) * (1 - 1e-9))
          continue;
        auto [known, inserted] = fastest.try_emplace(kind, ms, Change{{edge.from, int(a)}, {edge.to, int(b)}});
        if (!inserted && ms < known->second.first)
          known->second = {ms, {{edge.from, int(a)}, {edge.to, int(b)}}};
      }
    std::vector<std::pair<double, Change>> changes;
    for (auto &[kind, change] : fastest)
      changes.push_back(change);
    tryFastest(changes);
  }
  for (auto [piece, all] : enumerate(program.options)) {
    const Option now = all[best[piece]];
    std::vector<std::pair<double, Change>> changes;
    for (auto [index, option] : enumerate(all))
      if (option.group == now.group && option.cost <= now.cost && meanMs(option) < meanMs(now) * (1 - 1e-9))
        changes.push_back({meanMs(option), {{int(piece), int(index)}}});
    tryFastest(changes);
  }
}

SolveResult Solver::estimate() {
  if (!infeasible) {
    lagrangian = std::make_unique<Lagrangian>(program);
    heuristic(0.25);
    if (!infeasible && gap() > options.relativeGap)
      bound();
  }
  return finish();
}

Error Solver::exportModel() const {
  if (options.exportLp.empty())
    return Error::success();
  std::vector<std::vector<int>> optionColumns, pairColumns;
  std::vector<int> nodeColumns, latencyColumns;
  return writeLp(build(optionColumns, pairColumns, nodeColumns, latencyColumns), options.exportLp);
}

SolveResult Solver::run() {
  if (!infeasible && options.bound && hasPercentiles && addsUpOverParts(problem))
    eachAlone(shareOfParts);
  if (!infeasible && gap() > options.relativeGap) {
    lagrangian = std::make_unique<Lagrangian>(program);
    // Latencies as the objective are not rows. A single component shares nothing with others.
    bool priced = options.bound && problem.objective != Objective::Latency &&
                  (!hasPercentiles || componentsOf(program).size() > 1);
    bool exactly = priced && !hasPercentiles;
    bool boundsMeans = options.bound && hasPercentiles && problem.objective != Objective::Latency;
    heuristic(exactly || boundsMeans ? 0.02 : 0.2);
    if (!infeasible && boundsMeans && gap() > options.relativeGap)
      boundMeans(0.2);
    if (!infeasible && options.bound && !exactly && gap() > options.relativeGap)
      bound();
    if (!infeasible && priced && gap() > options.relativeGap)
      branchAndPrice();
    lagrangian.reset();
    if (!infeasible && gap() > options.relativeGap && (!exactly || bestObjective == unlimited))
      milp();
  }
  // For intermediate questions only the cost of a plan matters.
  if (firstPlanSeconds > 0)
    preferFaster();
  fillSharedDevices();
  return finish();
}

Expected<SolveResult> solve(const PlacementProblem &problem, const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  Solver solver(problem, options);
  if (Error error = solver.exportModel())
    return std::move(error);
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
