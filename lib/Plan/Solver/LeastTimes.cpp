//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Computes a lower bound of each agent's times: one evaluation, without a search, says which promises nothing can hold.
//===----------------------------------------------------------------------------------------------------------===//
#include "LeastTimes.h"
#include "Evaluate.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace intarsia::plan {

/// Percentiles lie on grids: a bound counts as broken only beyond their distance.
constexpr double roomOfGrid = 2e-3;

/// Returns the least time until the first output, after it, and between tokens, each over all choices of the piece:
/// pins are constraints of their own. Whether the time until the first output or the one after it is random depends on
/// whether anything follows: a piece whose choices differ in that counts as taking no time.
static Stage leastStageOf(const Piece &piece) {
  Stage least;
  least.firstMs = least.restMs = least.tokenMs = unlimited;
  bool follows = false, ends = false;
  for (const Choice &choice : piece.candidates) {
    double whole = choice.milliseconds, first = choice.firstOutputMs.value_or(whole);
    double alone = whole > 0 ? std::min(1.0, choice.millisecondsAlone.value_or(whole) / whole) : 1;
    least.firstMs = std::min(least.firstMs, first * alone);
    least.restMs = std::min(least.restMs, (whole - first) * alone);
    least.tokenMs = std::min(least.tokenMs, choice.tokenMs * alone);
    (whole > first ? follows : ends) = true;
  }
  if (follows == ends)
    least.firstMs = least.restMs = 0;
  if (std::isinf(least.tokenMs))
    least.tokenMs = 0;
  return least;
}

namespace {
class LeastTimes {
public:
  explicit LeastTimes(const PlacementProblem &problem) : problem(problem), figures(problem) {
    for (const Piece &piece : problem.pieces)
      stages.push_back(leastStageOf(piece));
  }

  std::optional<Conflict> worst() {
    std::optional<Conflict> found;
    double worstFactor = 1 + roomOfGrid;
    auto offer = [&](Conflict::Kind kind, size_t agent, double bound, double least, auto textOf) {
      if (bound < unlimited && least > bound * worstFactor) {
        worstFactor = bound > 0 ? least / bound : unlimited;
        found = Conflict{kind, int(agent), textOf(), bound, std::nullopt};
      }
    };
    for (auto [index, agent] : enumerate(problem.agents)) {
      const ServiceLevel &level = agent.level;
      offer(Conflict::Kind::Token, index, level.tokenMs, tokenMs(agent),
            [&] { return formatv("agent '{0}': {1:f3} ms between tokens at most", agent.name, level.tokenMs).str(); });
      for (auto [kind, measure, bound, what] :
           {std::tuple(Conflict::Kind::FirstOutput, Measure::FirstOutput, level.firstOutputMs,
                       "first output after {1:f3} ms"),
            std::tuple(Conflict::Kind::EndToEnd, Measure::EndToEnd, level.endToEndMs, "end-to-end in {1:f3} ms")}) {
        if (bound == unlimited)
          continue;
        double least = msOf(index, measure);
        offer(kind, index, bound, least, [&, index = index, measure = measure, what = what, bound = bound] {
          std::string promise = formatv((std::string("agent '{0}': ") + what + " at most").c_str(), agent.name, bound);
          return promise + reasonOf(index, measure, least);
        });
      }
    }
    return found;
  }

private:
  const PlacementProblem &problem;
  const Figures figures;
  std::vector<Stage> stages;

  double tokenMs(const Agent &agent) const {
    double least = 0;
    for (const Region &region : agent.regions)
      if (region.kind == Region::Kind::Piece)
        least = std::max(least, stages[region.piece].tokenMs);
    return least;
  }

  double msOf(size_t agent, Measure measure) const {
    auto nothingIsSent = [](int) { return 0.0; };
    return timeOf(figures, int(agent), measure, problem.agents[agent].level.percentile, stages, nothingIsSent);
  }

  /// Names the piece without whose time the most would be saved.
  std::string reasonOf(size_t agent, Measure measure, double least) {
    std::set<int> pieces;
    for (const Region &region : problem.agents[agent].regions)
      if (region.kind == Region::Kind::Piece)
        pieces.insert(region.piece);
    int slowest = -1;
    double without = least;
    for (int piece : pieces) {
      Stage own = stages[piece];
      stages[piece].firstMs = stages[piece].restMs = 0;
      if (double ms = msOf(agent, measure); ms < without)
        slowest = piece, without = ms;
      stages[piece] = own;
    }
    std::string text =
        formatv("; with each task at its fastest, nothing waiting and nothing sent, it takes {0:f3} ms", least);
    if (slowest >= 0)
      text += formatv(", without '{0}' {1:f3}", problem.pieces[slowest].name, without).str();
    return text;
  }
};
} // namespace

std::optional<Conflict> impossiblePromise(const PlacementProblem &problem) { return LeastTimes(problem).worst(); }

} // namespace intarsia::plan
