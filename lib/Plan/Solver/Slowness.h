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

/// Returns the choices of a plan with all times of each piece scaled by its factor. The time of an execution that calls
/// another piece includes the time of the called piece; that part gets the factor of the called piece. (In a forward
/// step of a decode, attention, exchange and experts run one after the other. Where alternating batches overlap them,
/// the step is slowed too much, but by less than one of their steps.)
std::vector<Choice> slowed(const PlacementProblem &problem, const Placements &placements,
                           llvm::ArrayRef<double> factors);

/// Does the same for whole problems; a caller's time includes the longest of the choices that go with its own.
PlacementProblem slowed(const PlacementProblem &problem, llvm::ArrayRef<double> factors);

} // namespace intarsia::plan

#endif
