//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The tasks whose values reach a value, through joins, transfers, streams and regions.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_VALUESOURCES_H
#define INTARSIA_LIB_PLAN_VALUESOURCES_H

#include "dialects/Agent/Agent.h"
#include <tuple>

namespace intarsia::plan {

/// A task, or the request, whose value arrives somewhere.
struct ValueSource {
  mlir::Operation *task = nullptr; ///< null: the request
  mlir::Value value;               ///< the value that the task returns
  agent::AmountAttr every;         ///< set by a stream on the way
  agent::LoopOp loop;              ///< the loop that carried it from a run to the next
  auto key() const {
    mlir::Operation *carrier = agent::LoopOp(loop);
    return std::tuple(task, value.getAsOpaquePointer(), every.getAsOpaquePointer(), carrier);
  }
};

llvm::SmallVector<ValueSource> sourcesOf(mlir::Value value);

} // namespace intarsia::plan

#endif
