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

Evaluation evaluate(const Figures &figures, const Placements &placements);
/// Returns the distribution of an agent's latency for the given stages (by piece).
Distribution latencyDistribution(const Figures &figures, int agent, const Placements &placements,
                                 const std::vector<Stage> &stages, Measure measure, bool &exact);
ExecutionTime executionTimeOf(const Region &region, const Stage &stage, bool later);
/// Returns true if the value is above the bound by more than rounding explains.
bool exceeds(double value, double bound);

} // namespace intarsia::plan

#endif
