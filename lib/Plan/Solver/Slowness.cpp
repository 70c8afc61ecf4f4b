//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Slowness.h"
#include "llvm/ADT/STLExtras.h"

namespace intarsia::plan {

static void slow(Choice &choice, double factor, const Choice *called, double calledFactor) {
  auto alone = [](const Choice &of) { return of.millisecondsAlone.value_or(of.milliseconds); };
  auto longer = [&](double whole, double part) {
    return whole > 0 ? factor + (calledFactor - factor) * std::min(1.0, part / whole) : factor;
  };
  double own = longer(choice.milliseconds, called ? called->milliseconds : 0);
  double ownAlone = longer(alone(choice), called ? alone(*called) : 0);
  choice.milliseconds *= own;
  if (choice.millisecondsAlone)
    choice.millisecondsAlone = std::min(*choice.millisecondsAlone * ownAlone, choice.milliseconds);
  if (choice.executionsPerSecond)
    *choice.executionsPerSecond /= own;
  if (choice.firstOutputMs)
    *choice.firstOutputMs *= own;
  choice.tokenMs *= own;
  choice.turnMs *= own, choice.turnWaitMs *= own;
}

static int calledFrom(const PlacementProblem &problem, int caller) {
  auto found = llvm::find_if(problem.pieces, [&](const Piece &piece) { return piece.calledBy == caller; });
  return found == problem.pieces.end() ? -1 : int(found - problem.pieces.begin());
}

std::vector<Choice> slowed(const PlacementProblem &problem, const Placements &placements,
                           llvm::ArrayRef<double> factors) {
  std::vector<Choice> choices;
  for (auto [index, piece] : llvm::enumerate(problem.pieces)) {
    choices.push_back(piece.candidates[placements[index].choice]);
    int called = calledFrom(problem, int(index));
    slow(choices.back(), factors[index],
         called < 0 ? nullptr : &problem.pieces[called].candidates[placements[called].choice],
         called < 0 ? 1 : factors[called]);
  }
  return choices;
}

/// Returns true if the kinds of all edges between the two pieces match.
static bool goTogether(const PlacementProblem &problem, int piece, int choice, int other, int otherChoice) {
  return llvm::all_of(problem.edges, [&](const Edge &edge) {
    if (edge.fromKinds.empty())
      return true;
    if (edge.from == piece && edge.to == other)
      return edge.fromKinds[choice] == edge.toKinds[otherChoice];
    if (edge.from == other && edge.to == piece)
      return edge.fromKinds[otherChoice] == edge.toKinds[choice];
    return true;
  });
}

PlacementProblem slowed(const PlacementProblem &problem, llvm::ArrayRef<double> factors) {
  PlacementProblem result = problem;
  for (auto [index, piece] : llvm::enumerate(result.pieces)) {
    int called = calledFrom(problem, int(index));
    for (auto [position, choice] : llvm::enumerate(piece.candidates)) {
      const Choice *longest = nullptr;
      if (called >= 0 && factors[called] != factors[index])
        for (auto [other, inside] : llvm::enumerate(problem.pieces[called].candidates))
          if ((!longest || inside.milliseconds > longest->milliseconds) &&
              goTogether(problem, int(index), int(position), called, int(other)))
            longest = &inside;
      slow(choice, factors[index], longest, longest ? factors[called] : 1);
    }
  }
  return result;
}

} // namespace intarsia::plan
