//===- LinearResults.h - What kernels of linears do with their sums ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_LINEARRESULTS_H
#define INTARSIA_LIB_TARGET_GPU_LINEARRESULTS_H

#include "lib/Target/GPU/FunctionEmitter.h"
#include <functional>
#include <limits>

namespace intarsia::gpu {

/// The most rows that a linear multiplies without matrix instructions and tiles.
inline constexpr int64_t mostOfFewRows = 4;

/// Numbers of rows that an emitter makes functions for: more than `above`, at most `most`.
struct RowRange {
  int64_t above = 0, most = std::numeric_limits<int64_t>::max();
};

/// Returns an expression that is 1 if there are at most so many rows, else 0.
inline mlir::AffineExpr isAtMost(mlir::AffineExpr rows, int64_t most) {
  mlir::AffineExpr one = mlir::getAffineConstantExpr(1, rows.getContext());
  mlir::AffineExpr limit = mlir::getAffineConstantExpr(most + 1, rows.getContext());
  return limit.floorDiv(rows + one).ceilDiv(limit);
}

/// The results of a linear: its rows are those of all of them, however many dimensions these have.
class LinearResults : public LoopEmitter {
public:
  LinearResults(FunctionEmitter &function, TensorEmitter &tensors, ContractionOpInterface root)
      : LoopEmitter(function), function(function), tensors(tensors), root(root) {}

  int64_t features() { return cast<mlir::RankedTensorType>(root.getRight().getType()).getDimSize(0); }
  int64_t depth() { return cast<mlir::RankedTensorType>(root.getRight().getType()).getDimSize(1); }

  mlir::AffineExpr rowsOfLinear() {
    return function.productExpression(mlir::ArrayRef(function.sizes.of(root->getResult(0))).drop_back());
  }
  mlir::Value rows() { return function.size(rowsOfLinear()); }

  /// Returns the indices of an element, or of neighbouring ones, of a row of a tensor.
  Indices indicesAt(mlir::Value tensor, mlir::Value row, mlir::Value last);

  /// Returns sums of a row from a column on by the scales of both factors, where these are not in the sums.
  std::function<mlir::Value(mlir::Value sums, mlir::Value row, mlir::Value column, int64_t width)> scaled;

  /// Stores `width` elements of the results from a column on, with the bias and all ops behind the linear. sums(column,
  /// width) returns sums of this row.
  mlir::LogicalResult storeResults(mlir::Value row, mlir::Value column, int64_t width,
                                   llvm::function_ref<mlir::Value(mlir::Value column, int64_t width)> sums);

private:
  FunctionEmitter &function;
  TensorEmitter &tensors;
  ContractionOpInterface root;
};

} // namespace intarsia::gpu

#endif
