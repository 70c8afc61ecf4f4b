//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Confidence.h"
#include "Random.h"
#include "lib/Plan/Solver/Evaluate.h"
#include "lib/Plan/Solver/Slowness.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace llvm;

namespace intarsia::plan {

double TimeErrors::factorAt(double level) const {
  size_t count = quantiles.size();
  if (count == 0)
    return 1;
  double position = level * double(count + 1) - 1;
  auto beyond = [&](double from, double edge) {
    return std::exp(from + spread * (normalQuantile(level) - normalQuantile(edge)));
  };
  if (position <= 0)
    return beyond(quantiles.front(), 1 / double(count + 1));
  if (position >= double(count - 1))
    return beyond(quantiles.back(), double(count) / double(count + 1));
  size_t below = size_t(position);
  double share = position - double(below);
  return std::exp(quantiles[below] * (1 - share) + quantiles[below + 1] * share);
}

PlacementProblem slowedTo(const PlacementProblem &problem, const ErrorModel &errors, double level) {
  std::vector<double> factors;
  for (const ErrorModel::OfPiece &of : errors.pieces)
    factors.push_back(of.kind >= 0 ? errors.kinds[of.kind].factorAt(level) : 1);
  return slowed(problem, factors);
}

namespace {
Confidence::Estimate estimate(int64_t held, int64_t trials) {
  double adjusted = double(held + 2) / double(trials + 4);
  return {double(held) / double(trials), std::sqrt(adjusted * (1 - adjusted) / double(trials + 4))};
}

/// A plan under sampled errors: the problem has only the placed choices, whose times are set anew for each trial.
class Trials {
public:
  Trials(const PlacementProblem &problem, const Placements &placements, const ErrorModel &errors)
      : errors(errors), placed(problem) {
    for (size_t index = 0; index < placed.pieces.size(); ++index) {
      Piece &piece = placed.pieces[index];
      piece.candidates = {Choice(piece.candidates[placements[index].choice])};
      piece.pinnedReplicas = placements[index].replicas;
      piece.headroom = 0; // it is there for errors such as these
      plan.push_back({0, placements[index].replicas});
    }
    for (Edge &edge : placed.edges) {
      if (!edge.fromKinds.empty()) {
        edge.fromKinds = {edge.fromKinds[placements[edge.from].choice]};
        edge.toKinds = {edge.toKinds[placements[edge.to].choice]};
      }
    }
    // The piece that draws for another: the first of its kind and subject on its pool.
    for (size_t index = 0; index < placed.pieces.size(); ++index) {
      size_t first = 0;
      while (errors.pieces[first].kind != errors.pieces[index].kind ||
             errors.pieces[first].subject != errors.pieces[index].subject || poolOf(first) != poolOf(index))
        ++first;
      drawers.push_back(first);
    }
    figures.emplace(placed); // follow from rates, bytes and pools, not from times
  }

  struct Broken {
    bool saturated = false, endToEnd = false, firstOutput = false, token = false;
    bool any() const { return saturated || endToEnd || firstOutput || token; }
  };
  /// Samples all errors and returns the promises of each agent that they break.
  std::vector<Broken> run(uint64_t seed) {
    Random random(seed);
    std::vector<double> levels, factors;
    for (size_t index = 0; index < placed.pieces.size(); ++index)
      levels.push_back(random.unit());
    for (auto [of, drawer] : llvm::zip(errors.pieces, drawers))
      factors.push_back(of.kind >= 0 ? errors.kinds[of.kind].factorAt(levels[drawer]) : 1);
    std::vector<Choice> choices = slowed(placed, plan, factors);
    std::vector<Stage> stages;
    std::vector<bool> saturated;
    for (auto [index, choice] : llvm::enumerate(choices)) {
      const Load &load = figures->loads[index];
      saturated.push_back(plan[index].replicas < smallestReplicas(choice, load));
      // An unstable queue has no percentiles.
      stages.push_back(saturated.back() ? Stage() : figures->stage(int(index), 0, choice, plan[index].replicas));
    }
    std::vector<Broken> result;
    for (size_t agent = 0; agent < placed.agents.size(); ++agent)
      result.push_back(brokenOf(int(agent), stages, saturated));
    return result;
  }

private:
  int poolOf(size_t piece) const { return placed.pieces[piece].candidates.front().pool; }

  Broken brokenOf(int index, const std::vector<Stage> &stages, const std::vector<bool> &saturated) const {
    const Agent &agent = placed.agents[index];
    Broken broken;
    for (const Region &region : agent.regions)
      if (region.kind == Region::Kind::Piece) {
        broken.saturated |= saturated[region.piece];
        broken.token |= exceeds(stages[region.piece].tokenMs, agent.level.tokenMs);
      }
    if (broken.saturated)
      return broken;
    auto breaks = [&](Measure measure, double bound) {
      return std::isfinite(bound) && exceeds(timeOf(*figures, index, measure, agent.level.percentile, stages,
                                                    [&](int edge) { return figures->transfer(edge, 0, 0).ms; }),
                                             bound);
    };
    broken.endToEnd = breaks(Measure::EndToEnd, agent.level.endToEndMs);
    broken.firstOutput = breaks(Measure::FirstOutput, agent.level.firstOutputMs);
    return broken;
  }

  const ErrorModel &errors;
  PlacementProblem placed;
  std::optional<Figures> figures;
  std::vector<size_t> drawers; ///< by piece: the piece whose draw it uses
  Placements plan;
};
} // namespace

Expected<Confidence> confidenceOf(const PlacementProblem &problem, const Placements &placements,
                                  const ErrorModel &errors, const ConfidenceOptions &options) {
  if (errors.pieces.size() != problem.pieces.size() || placements.size() != problem.pieces.size())
    return createStringError(formatv("errors of {0} pieces and placements of {1}, the problem has {2}",
                                     errors.pieces.size(), placements.size(), problem.pieces.size()));
  for (auto [piece, of] : llvm::zip(problem.pieces, errors.pieces))
    if (of.kind >= int(errors.kinds.size()))
      return createStringError(
          formatv("piece '{0}' has errors of kind {1}, there are {2}", piece.name, of.kind, errors.kinds.size()));
  if (options.trials < 1)
    return createStringError("confidence of no trial");
  Trials trials(problem, placements, errors);
  size_t agents = problem.agents.size();
  std::vector<int64_t> held(agents);
  int64_t allHeld = 0;
  Confidence result;
  result.agents.resize(agents);
  auto begin = std::chrono::steady_clock::now();
  auto isOver = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >= options.timeLimitSeconds;
  };
  for (int trial = 0; trial < options.trials && (trial == 0 || !isOver()); ++trial) {
    ++result.trials;
    bool all = true;
    for (auto [index, broken] : llvm::enumerate(trials.run(options.seed * 1000003 + uint64_t(trial)))) {
      Confidence::OfAgent &counts = result.agents[index];
      counts.endToEnd += broken.endToEnd, counts.firstOutput += broken.firstOutput;
      counts.token += broken.token, counts.saturated += broken.saturated;
      held[index] += !broken.any();
      all &= !broken.any();
    }
    allHeld += all;
  }
  result.holds = estimate(allHeld, result.trials);
  for (auto [of, count] : llvm::zip(result.agents, held)) {
    of.holds = estimate(count, result.trials);
    for (double *share : {&of.endToEnd, &of.firstOutput, &of.token, &of.saturated})
      *share /= result.trials;
  }
  return result;
}

} // namespace intarsia::plan
