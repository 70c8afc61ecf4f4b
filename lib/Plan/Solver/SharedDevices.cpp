//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Fills shared devices after a plan has been found.
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace intarsia::plan {

void Solver::fillSharedDevices() {
  // Doubles a share, all else equal, where that costs nothing and slows no agent: the most effective first, until
  // nothing fits.
  while (bestObjective < unlimited) {
    std::vector<int> chosen;
    Evaluation chosenEvaluation;
    auto consider = [&](size_t piece, size_t index) {
      const Option &taken = program.options[piece][best[piece]], &option = program.options[piece][index];
      const Choice &now = problem.pieces[piece].candidates[taken.choice],
                   &choice = problem.pieces[piece].candidates[option.choice];
      if (choice.pool != now.pool || choice.deviceShare != 2 * now.deviceShare || choice.slots != now.slots ||
          option.replicas != taken.replicas || choice.milliseconds > now.milliseconds)
        return;
      std::vector<int> changed = best;
      changed[piece] = int(index);
      Evaluation evaluation = evaluate(figures, program.placementsOf(changed));
      bool slower = llvm::any_of(zip(evaluation.agents, bestEvaluation.agents), [](auto pair) {
        auto &[after, before] = pair;
        return after.endToEndMs > before.endToEndMs || after.firstOutputMs > before.firstOutputMs;
      });
      if (evaluation.feasible() && !slower && evaluation.objective <= bestObjective &&
          (chosen.empty() || evaluation.latencyMs < chosenEvaluation.latencyMs))
        chosen = std::move(changed), chosenEvaluation = std::move(evaluation);
    };
    for (auto [piece, all] : enumerate(program.options))
      if (problem.pieces[piece].candidates[all[best[piece]].choice].deviceShare < 1)
        for (size_t index = 0; index < all.size(); ++index)
          consider(piece, index);
    if (chosen.empty())
      return;
    best = std::move(chosen);
    bestObjective = chosenEvaluation.objective;
    bestEvaluation = std::move(chosenEvaluation);
  }
}

} // namespace intarsia::plan
