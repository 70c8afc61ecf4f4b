//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Pieces that take longer than their menus say.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SLOWNESS_H
#define INTARSIA_PLAN_SLOWNESS_H

#include "intarsia/Placement.h"
#include "llvm/ADT/ArrayRef.h"

namespace intarsia::plan {

/// The choices of a plan, all times of each piece with its factor. An execution that calls another piece has that one's
/// time within its own: this part has the factor of the piece that is called. (A decode's step is attention, exchange
/// and experts one after the other; where batches that take turns hide some of it, it is slowed by too much, but by
/// less than one of their steps.)
std::vector<Choice> slowed(const PlacementProblem &problem, const Placements &placements,
                           llvm::ArrayRef<double> factors);

/// The same for whole menus, where a caller has within it the longest of the choices that go with its own.
PlacementProblem slowed(const PlacementProblem &problem, llvm::ArrayRef<double> factors);

} // namespace intarsia::plan

#endif
