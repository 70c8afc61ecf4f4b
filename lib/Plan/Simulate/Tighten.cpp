//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Plan, simulate, tighten: bounds become stricter until the simulation holds the promises.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Simulation.h"
#include "lib/Plan/Solver/Evaluate.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

namespace {
/// A bound of an agent, with the plan's figure and the simulated one.
struct Promise {
  const char *what;
  double ServiceLevel::*bound;
  double Evaluation::OfAgent::*planned;
  SimulationReport::Percentiles SimulationReport::OfAgent::*simulated;
};
constexpr Promise promises[] = {
    {"end to end", &ServiceLevel::endToEndMs, &Evaluation::OfAgent::endToEndMs, &SimulationReport::OfAgent::endToEndMs},
    {"first token", &ServiceLevel::firstOutputMs, &Evaluation::OfAgent::firstOutputMs,
     &SimulationReport::OfAgent::firstOutputMs},
    {"next token", &ServiceLevel::tokenMs, &Evaluation::OfAgent::tokenMs, &SimulationReport::OfAgent::tokenMs}};
} // namespace

std::vector<BrokenPromise> brokenPromises(const PlacementProblem &problem, const SimulationReport &report) {
  std::vector<BrokenPromise> broken;
  for (auto [index, agent] : enumerate(problem.agents))
    for (const Promise &promise : promises) {
      double bound = agent.level.*promise.bound, simulated = (report.agents[index].*promise.simulated).atLevel;
      if (exceeds(simulated, bound))
        broken.push_back({int(index), promise.what, bound, simulated});
    }
  return broken;
}

static double worstOf(ArrayRef<BrokenPromise> broken) {
  double worst = 1;
  for (const BrokenPromise &promise : broken)
    worst = std::max(worst, promise.simulated / promise.bound);
  return worst;
}

Expected<TightenedPlan> tighten(const PlacementProblem &problem, const SolveResult &first,
                                const SimulationOptions &simulation, const SolveOptions &solveOptions, int mostRounds) {
  TightenedPlan best{first, problem};
  PlacementProblem tighter = problem;
  SolveResult current = first;
  double worst = unlimited, secondsToSimulate = 0;
  // Simulations have the requested length; plans have equal parts of the time that the next simulation leaves.
  auto begin = std::chrono::steady_clock::now();
  auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  auto left = [&] { return solveOptions.timeLimitSeconds - spent() - secondsToSimulate; };
  auto solveInPart = [&](const PlacementProblem &wanted, int rounds) {
    SolveOptions own = solveOptions;
    own.timeLimitSeconds = std::max(0.0, left()) / rounds;
    return solve(wanted, own);
  };
  for (int round = 0;; ++round) {
    double spentBefore = spent();
    Expected<SimulationReport> report = simulate(problem, current.placements, simulation);
    secondsToSimulate = spent() - spentBefore;
    if (!report)
      return report.takeError();
    std::vector<BrokenPromise> broken = brokenPromises(problem, *report);
    std::string text;
    for (const BrokenPromise &promise : broken)
      text += formatv("{0}@{1}: {2} {3:f1} of {4:f1} ms", text.empty() ? "" : ", ", problem.agents[promise.agent].name,
                      promise.what, promise.simulated, promise.bound);
    const char *holds = report->hasTooFewFailures()
                            ? "the simulation, in which too few replicas fail, holds all promises"
                            : "the simulation holds all promises";
    best.rounds.push_back(broken.empty() ? holds : "broken: " + text);
    if (double now = worstOf(broken); now < worst) {
      worst = now;
      best.result = current, best.problem = tighter, best.simulation = *report;
    }
    best.holds = broken.empty();
    if (best.holds || round == mostRounds)
      return best;
    if (left() <= 0) {
      best.rounds.push_back(
          "out of time: whether a faster plan holds them is not settled; give more with --time-limit");
      return best;
    }
    // The plan's figure is off by the factor simulated / planned, so its bound becomes smaller than the promise by this
    // factor.
    Evaluation evaluation = evaluate(problem, current.placements);
    PlacementProblem wanted = tighter;
    for (auto [index, agent] : enumerate(wanted.agents))
      for (const Promise &promise : promises) {
        double asked = problem.agents[index].level.*promise.bound;
        double simulated = (report->agents[index].*promise.simulated).atLevel;
        if (exceeds(simulated, asked))
          agent.level.*promise.bound = evaluation.agents[index].*promise.planned * asked / simulated;
      }
    // The new bound is an estimate: if no plan holds it, one that goes half of the way may be enough.
    Expected<SolveResult> next = solveInPart(wanted, mostRounds - round);
    for (int halving = 0; next && !next->hasPlan() && halving < 3 && left() > 0; ++halving) {
      for (auto [index, agent] : enumerate(wanted.agents))
        for (const Promise &promise : promises) {
          double planned = evaluation.agents[index].*promise.planned, &bound = agent.level.*promise.bound;
          if (std::isfinite(bound) && bound < planned)
            bound = (bound + planned) / 2;
        }
      next = solveInPart(wanted, mostRounds - round);
    }
    if (!next)
      return next.takeError();
    if (!next->hasPlan()) {
      best.rounds.push_back(next->status == SolveResult::Status::Infeasible ? "no plan is faster by what is missing"
                                                                            : "no faster plan was found in time");
      return best;
    }
    if (next->placements == current.placements) {
      best.rounds.push_back("the plan stays the same");
      return best;
    }
    tighter = std::move(wanted);
    current = std::move(*next);
  }
}

} // namespace intarsia::plan
