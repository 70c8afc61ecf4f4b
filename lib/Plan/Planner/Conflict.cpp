//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Describes conflicts in words: the constraint, the value that would be enough, and the devices' rates for it.
//===----------------------------------------------------------------------------------------------------------===//
#include "Parts.h"
#include "Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

std::optional<Need> needOf(const PlanReport &report, const Conflict &conflict) {
  bool ofTokens = conflict.kind == Conflict::Kind::Token;
  if (!ofTokens && conflict.kind != Conflict::Kind::FirstOutput)
    return std::nullopt;
  const PlacementProblem &problem = *report.problem;
  std::optional<Need> slowest;
  for (const Region &region : problem.agents[conflict.index].regions) {
    if (region.kind != Region::Kind::Piece)
      continue;
    const Piece &piece = problem.pieces[region.piece];
    std::optional<Need> fastest;
    for (auto [choice, meaning] : zip(piece.candidates, report.built->meanings[region.piece])) {
      if (!meaning.demand || meaning.demand->isMemory != ofTokens ||
          (piece.pinnedPool && choice.pool != *piece.pinnedPool))
        continue;
      double milliseconds = ofTokens ? choice.tokenMs : choice.milliseconds;
      // The time between tokens is 0 for a decode without a bound on it.
      if (milliseconds > 0 && (!fastest || milliseconds < fastest->milliseconds))
        fastest = {piece.name, choice.label, *meaning.demand, meaning.demand->amount * 1000 / conflict.given,
                   milliseconds};
    }
    if (fastest && (!slowest || fastest->milliseconds > slowest->milliseconds))
      slowest = std::move(fastest);
  }
  return slowest;
}

static std::string textOf(const Need &need, double boundMs) {
  auto digits = [](double value) { return plan::digits(value, 4); };
  const ChoiceMeaning::Demand &demand = need.demand;
  std::string text = formatv("; the fastest on offer for '{0}' is {1}: ", need.piece, need.choice);
  text += demand.isMemory ? "a forward step reads " + digits(demand.amount * 1e-9) + " GB on each device"
                          : "a mean prompt takes " + digits(demand.amount * 1e-12) + " Tflop on each device";
  StringRef unit = demand.isMemory ? "TB/s" : "TFLOP/s";
  double has = demand.perSecond * 1e-12;
  if (need.neededPerSecond > demand.perSecond)
    return text + formatv(", which needs {0} {1} or more within {2} ms; the device has {3}",
                          digits(need.neededPerSecond * 1e-12), unit, digits(boundMs), digits(has))
                      .str();
  return text + formatv(", {0} ms at the device's {1} {2}; of the {3} ms that it takes the rest is overhead, exchange "
                        "between devices, and what of that rate is not reached",
                        digits(demand.amount / demand.perSecond * 1000), digits(has), unit, digits(need.milliseconds))
                    .str();
}

std::string textOf(const PlanReport &report, const Conflict &conflict) {
  std::optional<Need> need = needOf(report, conflict);
  return conflict.text + (need ? textOf(*need, conflict.given) : "");
}

} // namespace intarsia::plan
