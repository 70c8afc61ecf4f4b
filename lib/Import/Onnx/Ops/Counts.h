//===- Counts.h - Sizes that a call computes ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_COUNTS_H
#define INTARSIA_IMPORT_ONNX_OPS_COUNTS_H

#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {

/// Refuses a node in a branch or a loop of the call: sizes that a call computes are needed before these begin.
inline bool isOutsideOfBranches(NodeContext &node) {
  if (!mlir::isa<mlir::func::FuncOp>(node.ops().getInsertionBlock()->getParentOp()))
    node.refuse("stands in a branch or a loop of the call, and computes a size");
  return !node.isRefused();
}

} // namespace intarsia::onnx

#endif
