//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_EVALUATE_H
#define INTARSIA_PLAN_EVALUATE_H

#include "Figures.h"

namespace intarsia::plan {

/// `onlyPromised`: percentiles that nothing bounds, which take nearly all of the time, are left at the nominal times.
Evaluation evaluate(const Figures &figures, const Placements &placements, bool onlyPromised = false);
/// Returns a time of an agent for the given stages (by piece) and times of edges: at a percentile, or nominal.
double timeOf(const Figures &figures, int agent, Measure measure, std::optional<double> percentile,
              const std::vector<Stage> &stages, AgentLatency::EdgeTime edgeMs);
ExecutionTime executionTimeOf(const Region &region, const Stage &stage, bool later);
/// Returns true if the value is above the bound by more than rounding explains.
bool exceeds(double value, double bound);

} // namespace intarsia::plan

#endif
