//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Plans for slower and slower times, until one holds with the requested probability.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Confidence.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Largest number of plans.
constexpr int mostRounds = 7;
/// Least distance between the levels of the search, in standard deviations.
constexpr double leastStep = 0.1;
constexpr double highestLevel = 0.999;

std::string textOf(const Confidence::Estimate &estimate, double asked) {
  int digits = 3;
  for (double scaled = asked * 1000; digits < 9 && std::abs(scaled - std::round(scaled)) > 1e-6; scaled *= 10)
    ++digits;
  std::string text;
  raw_string_ostream(text) << format("%.*f ± %.*f", digits, estimate.probability, digits, estimate.standardError);
  return text;
}

int trialsFor(double probability) {
  return std::max(ConfidenceOptions().trials, int(std::ceil(3 / (1 - probability) * (1 - 1e-9))));
}

static std::string factorsAt(const ErrorModel &errors, double level) {
  std::string text;
  for (const TimeErrors &kind : errors.kinds)
    text += formatv("{0}{1} × {2:f2}", text.empty() ? "" : ", ", kind.kind, kind.factorAt(level));
  return text;
}

Expected<ConfidentPlan> planWithConfidence(const PlacementProblem &problem, const SolveResult &first,
                                           const ErrorModel &errors, double probability,
                                           const SolveOptions &solveOptions, const ConfidenceOptions &options) {
  if (!(probability < 1) || options.trials < trialsFor(probability)) {
    std::string asked;
    raw_string_ostream(asked) << format("%.12g", probability);
    return createStringError(formatv("{0} trials do not show a probability of {1}: what breaks too often may break in "
                                     "none of them; take {2} or ask for less",
                                     options.trials, asked, trialsFor(std::min(probability, 1 - 1e-8))));
  }
  // Trials follow each plan; the rest of the time is divided equally between the rounds and the final explanation.
  auto begin = std::chrono::steady_clock::now();
  auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  auto left = [&] { return solveOptions.timeLimitSeconds - spent(); };
  auto trialsOf = [&](const Placements &placements) {
    ConfidenceOptions timed = options;
    timed.timeLimitSeconds = left();
    return confidenceOf(problem, placements, errors, timed);
  };
  Expected<Confidence> confidence = trialsOf(first.placements);
  double secondsOfTrials = spent();
  if (!confidence)
    return confidence.takeError();
  ConfidentPlan plan{first, problem, *confidence};
  auto isSure = [&](const Confidence &of) {
    return of.holds.probability >= probability && of.trials >= trialsFor(probability);
  };
  plan.holds = isSure(*confidence);
  plan.rounds.push_back("times as predicted: holds with " + textOf(confidence->holds, probability));
  if (plan.holds)
    return plan;
  std::vector<std::pair<Placements, Confidence>> known{{first.placements, *confidence}};
  double objective = unlimited;
  auto standard = [](double level) { return normalQuantile(level); };
  double low = standard(0.5), high = standard(highestLevel), next = standard(probability);
  std::optional<double> infeasible;
  SolveOptions own = solveOptions;
  for (int round = 0; round < mostRounds && high - low > leastStep; ++round) {
    own.timeLimitSeconds = (left() - secondsOfTrials) / (mostRounds - round + 1);
    if (own.timeLimitSeconds <= 0) {
      plan.settled = false;
      plan.rounds.push_back(formatv("out of time after {0} of {1} rounds: whether {2} is not settled; give more with "
                                    "--time-limit",
                                    round, mostRounds,
                                    plan.holds ? "a cheaper plan is as sure" : "a plan is sure enough"));
      break;
    }
    double level = std::erfc(-next / std::sqrt(2.0)) / 2;
    PlacementProblem slowed = slowedTo(problem, errors, level);
    Expected<SolveResult> result = solve(slowed, own);
    if (!result)
      return result.takeError();
    std::string text = formatv("times exceeded in {0:P1} of cases ({1}): ", 1 - level, factorsAt(errors, level));
    if (!result->hasPlan()) {
      plan.rounds.push_back(text + (result->status == SolveResult::Status::Infeasible ? "no plan" : "none in time"));
      if (result->status == SolveResult::Status::Infeasible)
        infeasible = level;
      else
        plan.settled = false;
      high = next;
    } else {
      auto same = llvm::find_if(known, [&](auto &entry) { return entry.first == result->placements; });
      if (same == known.end()) {
        Expected<Confidence> of = trialsOf(result->placements);
        if (!of)
          return of.takeError();
        known.push_back({result->placements, *of});
        same = known.end() - 1;
      }
      const Confidence &of = same->second;
      double cost = evaluate(problem, result->placements).objective;
      plan.rounds.push_back(
          text +
          formatv("{0} {1}, holds with {2}", formatv("{0:e3}", cost), nameOf(problem.objective),
                  textOf(of.holds, probability))
              .str() +
          (result->status == SolveResult::Status::TimeLimit ? "; cheaper ones were not ruled out in time" : ""));
      plan.settled &= result->status != SolveResult::Status::TimeLimit;
      bool holds = isSure(of);
      bool better = holds ? !plan.holds || cost < objective
                          : !plan.holds && of.holds.probability > plan.confidence.holds.probability;
      if (better) {
        plan.result = *result, plan.problem = std::move(slowed), plan.confidence = of, plan.holds = holds;
        objective = cost;
      }
      (holds ? high : low) = next;
    }
    next = (low + high) / 2;
  }
  if (plan.holds || !infeasible)
    return plan;
  own.timeLimitSeconds = std::max(0.0, left());
  Expected<std::vector<Conflict>> limits = explainInfeasibility(slowedTo(problem, errors, *infeasible), own);
  if (!limits)
    return limits.takeError();
  plan.limits = std::move(*limits);
  return plan;
}

} // namespace intarsia::plan
