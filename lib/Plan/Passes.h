//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_PASSES_H
#define INTARSIA_LIB_PLAN_PASSES_H

#include "dialects/Agent/Agent.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace intarsia::plan {

#define GEN_PASS_DECL
#include "lib/Plan/Passes.h.inc"

/// Returns all ops of a kind in a module, in order: a pass may change them while it iterates over the list.
template <typename Op> llvm::SmallVector<Op> collect(mlir::ModuleOp module) {
  llvm::SmallVector<Op> ops;
  module.walk([&](Op op) { ops.push_back(op); });
  return ops;
}

/// Returns the placement of the pieces that cannot take a task's full placement: only its pool.
inline fleet::PlacementAttr poolOf(fleet::PlacementAttr place) {
  return place ? fleet::PlacementAttr::get(place.getContext(), place.getPool(), 1, 1, 1, 1, 1, std::nullopt, 1,
                                           mlir::StringAttr(), /*aggregated=*/false)
               : place;
}

} // namespace intarsia::plan

#endif
