//===- TensorEmitter.h - Elements of tensors on demand ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_TENSOREMITTER_H
#define INTARSIA_LIB_KERNEL_TENSOREMITTER_H

#include "lib/Kernel/LinalgEmitter.h"

namespace intarsia::kernel {

/// Elements are computed on demand: evaluate(value, indices, width) emits what one vector of a tensor needs, looking
/// through elementwise ops, reshapes, slices, gathers and reductions.
class TensorEmitter : public LinalgEmitter {
public:
  using LinalgEmitter::LinalgEmitter;

protected:
  using ElementFn = std::function<Element(llvm::ArrayRef<Index>, int64_t width)>;

  /// A row of the iteration space: all dimensions but the last.
  struct RowScope {
    llvm::SmallVector<mlir::Value> prefix; ///< index of each leading dimension
    mlir::Value flat;                      ///< their row-major index
    Sizes sizes;                           ///< sizes of the leading dimensions
  };

  Element evaluate(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width) override;
  Element evaluateAnew(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateOp(mlir::Operation *op, mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluatePerLane(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateSlice(mlir::tensor::ExtractSliceOp slice, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateExpand(mlir::tensor::ExpandShapeOp expand, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateCollapse(mlir::tensor::CollapseShapeOp collapse, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateRope(nn::RopeOp op, llvm::ArrayRef<Index> at, int64_t width);
  Element rotate(nn::RopeOp op, llvm::ArrayRef<Index> at, int64_t width, mlir::Value pair, mlir::Value partner,
                 double sign);
  Element choose(mlir::Value condition, mlir::Type type, llvm::function_ref<Element()> yes,
                 llvm::function_ref<Element()> no);
  Element evaluateConcat(mlir::tensor::ConcatOp op, llvm::ArrayRef<Index> at, int64_t width);

  /// Returns the integer at an index of a tensor, as i64.
  Element integerAt(mlir::Value tensor, llvm::ArrayRef<Index> at);

  /// True if an argument is a weight that is stored quantized.
  virtual bool isStoredQuantized(mlir::Value tensor) = 0;
  /// Returns the dequantized value at [row, k] of such a weight.
  virtual mlir::Value evaluateQuantized(mlir::Value tensor, mlir::Value row, mlir::Value k) = 0;

  mlir::Value load(const Storage &storage, llvm::ArrayRef<Index> at, int64_t width);
  void store(mlir::Value value, const Storage &storage, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value address(const Storage &storage, llvm::ArrayRef<Index> at);
  /// Returns a tensor as strides over memory, if it is an argument seen through slices and reshapes.
  std::optional<Storage> view(mlir::Value tensor);
  RowScope makeRow(mlir::Value flat, llvm::ArrayRef<mlir::AffineExpr> leading);

  llvm::DenseMap<mlir::Value, ElementFn> bound; ///< values that are computed already: how their elements are read
  const RowScope *currentRow = nullptr;
};

} // namespace intarsia::kernel

#endif
