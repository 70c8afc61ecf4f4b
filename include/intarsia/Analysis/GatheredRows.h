//===- GatheredRows.h - Rows that ranks have gathered -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_ANALYSIS_GATHEREDROWS_H
#define INTARSIA_ANALYSIS_GATHEREDROWS_H

#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace intarsia {

/// True if a slice takes the first rows of what ranks gather along the first dimension, and nothing else reads that:
/// the gather writes these rows alone, and the slice is no work of its own.
inline bool isGatheredRows(mlir::tensor::ExtractSliceOp slice) {
  auto gather = slice.getSource().getDefiningOp<mlir::shard::AllGatherOp>();
  if (!gather || !gather.getGatherAxis().isZero() || !gather->hasOneUse() || !slice.hasUnitStride() ||
      slice.getType().getRank() != slice.getSourceType().getRank() ||
      !llvm::all_of(slice.getStaticOffsets(), [](int64_t offset) { return offset == 0; }))
    return false;
  return slice.getType().getShape().drop_front() == slice.getSourceType().getShape().drop_front();
}

/// The slice of a gather's first rows that is all that reads it; null if there is none.
inline mlir::tensor::ExtractSliceOp gatheredRowsOf(mlir::shard::AllGatherOp gather) {
  auto slice = gather->hasOneUse() ? llvm::dyn_cast<mlir::tensor::ExtractSliceOp>(*gather->user_begin()) : nullptr;
  return slice && isGatheredRows(slice) ? slice : nullptr;
}

} // namespace intarsia

#endif
