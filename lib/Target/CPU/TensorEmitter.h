//===- TensorEmitter.h - Elements of tensors on demand ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_TENSOREMITTER_H
#define INTARSIA_LIB_TARGET_CPU_TENSOREMITTER_H

#include "lib/Target/CPU/FunctionEmitter.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SmallBitVector.h"

namespace intarsia::cpu {

/// One index of a tensor element while code for `width` neighbouring elements is emitted: lane l has the index
/// base + l where `lane` is set, base otherwise. base is an i64.
struct Index {
  mlir::Value base;
  bool lane = false;
};
using Indices = llvm::SmallVector<Index>;

/// Elements are computed on demand: evaluate(value, indices, width) emits what one vector of a tensor needs, looking
/// through elementwise ops, reshapes, slices, gathers and reductions.
class TensorEmitter : public FunctionEmitter {
public:
  using FunctionEmitter::FunctionEmitter;

protected:
  using ElementFn = std::function<mlir::Value(llvm::ArrayRef<Index>, int64_t width)>;

  /// A row of the iteration space: all dimensions but the last.
  struct RowScope {
    llvm::SmallVector<mlir::Value> prefix; ///< index of each leading dimension
    mlir::Value flat;                      ///< their row-major number
    Sizes sizes;                           ///< sizes of the leading dimensions
  };

  mlir::Value evaluate(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluateOp(mlir::Operation *op, mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluatePerLane(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  /// Returns the element if the positions that are computed from data lie inside the tensor, else NaN or the least
  /// integer.
  mlir::Value evaluateInside(mlir::Value tensor, llvm::ArrayRef<Index> at, const llvm::SmallBitVector &isComputed,
                             int64_t width);
  mlir::Value evaluateLinalg(mlir::linalg::LinalgOp op, mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluateOperand(mlir::linalg::LinalgOp op, mlir::OpOperand &operand, llvm::ArrayRef<Index> loops,
                              int64_t lanes);
  mlir::AffineExpr sizeOfLoop(mlir::linalg::LinalgOp op, unsigned loop);
  mlir::Value evaluateSlice(mlir::tensor::ExtractSliceOp slice, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluateExpand(mlir::tensor::ExpandShapeOp expand, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluateCollapse(mlir::tensor::CollapseShapeOp collapse, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluateRope(nn::RopeOp op, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value evaluateConcat(mlir::tensor::ConcatOp op, llvm::ArrayRef<Index> at, int64_t width);
  /// Emits one scalar op (of a linalg body, or an elementwise op on tensors) on vectors of `width`.
  mlir::Value emitElementwise(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, int64_t width);
  /// Emits the body of a linalg op for block arguments that have their values; returns the yielded values.
  llvm::SmallVector<mlir::Value> emitBody(mlir::linalg::LinalgOp op, llvm::ArrayRef<mlir::Value> arguments,
                                          llvm::ArrayRef<Index> iteration, int64_t width);

  /// Returns the integer at an index of a tensor, as i64.
  mlir::Value integerAt(mlir::Value tensor, llvm::ArrayRef<Index> at);

  /// True if an argument is a weight whose elements are stored as codes.
  virtual bool isStoredAsCodes(mlir::Value tensor) = 0;
  /// Returns the number at [row, k] of such a weight.
  virtual mlir::Value evaluateCode(mlir::Value tensor, mlir::Value row, mlir::Value k) = 0;

  mlir::Value load(const Storage &storage, llvm::ArrayRef<Index> at, int64_t width);
  void store(mlir::Value value, const Storage &storage, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value address(const Storage &storage, llvm::ArrayRef<Index> at);
  /// Returns a tensor as strides over memory, if it is an argument seen through slices and reshapes.
  std::optional<Storage> view(mlir::Value tensor);
  RowScope makeRow(mlir::Value flat, llvm::ArrayRef<mlir::AffineExpr> leading);

  llvm::DenseMap<mlir::Value, ElementFn> bound; ///< values that are computed already: how their elements are read
  const RowScope *currentRow = nullptr;
};

} // namespace intarsia::cpu

#endif
