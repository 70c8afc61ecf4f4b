//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Scales pieces to be slower than their choices predict.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SLOWNESS_H
#define INTARSIA_PLAN_SLOWNESS_H

#include "intarsia/Plan/Placement.h"
#include "llvm/ADT/ArrayRef.h"

namespace intarsia::plan {

/// Returns the choices of a plan with all times of each piece scaled by its factor.
std::vector<Choice> slowed(const PlacementProblem &problem, const Placements &placements,
                           llvm::ArrayRef<double> factors);

/// Does the same for all candidates of a problem.
PlacementProblem slowed(const PlacementProblem &problem, llvm::ArrayRef<double> factors);

} // namespace intarsia::plan

#endif
