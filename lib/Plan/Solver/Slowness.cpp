//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Slowness.h"
#include "llvm/ADT/STLExtras.h"

namespace intarsia::plan {

static void slow(Choice &choice, double factor) {
  choice.milliseconds *= factor;
  if (choice.millisecondsAlone)
    *choice.millisecondsAlone *= factor;
  if (choice.executionsPerSecond)
    *choice.executionsPerSecond /= factor;
  if (choice.firstOutputMs)
    *choice.firstOutputMs *= factor;
  choice.tokenMs *= factor;
  choice.turnMs *= factor, choice.turnWaitMs *= factor;
}

std::vector<Choice> slowed(const PlacementProblem &problem, const Placements &placements,
                           llvm::ArrayRef<double> factors) {
  std::vector<Choice> choices;
  for (auto [piece, placed, factor] : llvm::zip(problem.pieces, placements, factors)) {
    choices.push_back(piece.candidates[placed.choice]);
    slow(choices.back(), factor);
  }
  return choices;
}

PlacementProblem slowed(const PlacementProblem &problem, llvm::ArrayRef<double> factors) {
  PlacementProblem result = problem;
  for (auto [piece, factor] : llvm::zip(result.pieces, factors))
    for (Choice &choice : piece.candidates)
      slow(choice, factor);
  return result;
}

} // namespace intarsia::plan
