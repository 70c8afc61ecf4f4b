//===- TensorEmitter.h - Elements of tensors on demand ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_TENSOREMITTER_H
#define INTARSIA_LIB_KERNEL_TENSOREMITTER_H

#include "lib/Kernel/LinalgEmitter.h"
#include "lib/Kernel/PanelEmitter.h"
#include "llvm/ADT/SmallBitVector.h"

namespace intarsia::kernel {

/// A row of the iteration space: all dimensions but the last.
struct RowScope {
  llvm::SmallVector<mlir::Value> prefix; ///< index of each leading dimension
  mlir::Value flat;                      ///< their row-major index
  Sizes sizes;                           ///< sizes of the leading dimensions
};

/// Elements are computed on demand: evaluate(value, indices, width) emits what one vector of a tensor needs, looking
/// through elementwise ops, reshapes, slices, gathers and reductions.
class TensorEmitter : public LoopEmitter {
public:
  explicit TensorEmitter(KernelBody &body)
      : LoopEmitter(body), body(body), memory(body), arithmetic(body), weights(body), linalgOps(body, *this) {}

  using ElementFn = std::function<Element(llvm::ArrayRef<Index>, int64_t width)>;

  /// Returns an element of any tensor, or `width` neighbouring ones.
  Element evaluate(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  /// Returns the element if the positions that are computed from data lie inside the tensor, else NaN or the least
  /// integer.
  Element evaluateInside(mlir::Value tensor, llvm::ArrayRef<Index> at, const llvm::SmallBitVector &isComputed,
                         int64_t width);
  /// The same for lanes that lie anywhere, at vectors of indices; none unless one instruction reads them from memory.
  std::optional<mlir::Value> gatherInside(mlir::Value tensor, llvm::ArrayRef<mlir::Value> at,
                                          const llvm::SmallBitVector &isComputed, int64_t width);
  /// Emits the reductions that a tensor's elements at several places are computed from, those of all places in one
  /// loop. Their elements are remembered; evaluate() emits what is computed from them.
  mlir::LogicalResult reduceTogether(mlir::Value tensor, llvm::ArrayRef<Place> places);
  /// Says what an element was emitted as, for those who ask here or further in.
  void remember(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width, mlir::Value element);
  /// Emits a condition that gives one of two elements.
  Element choose(mlir::Value condition, mlir::Type type, llvm::function_ref<Element()> yes,
                 llvm::function_ref<Element()> no);
  /// Returns the integer at an index of a tensor, as i64.
  Element integerAt(mlir::Value tensor, llvm::ArrayRef<Index> at);

  mlir::Value load(const Storage &storage, llvm::ArrayRef<Index> at, int64_t width);
  void store(mlir::Value value, const Storage &storage, llvm::ArrayRef<Index> at, int64_t width);
  /// Computes elements of results of the kernel, and stores them.
  mlir::LogicalResult storeOutputs(llvm::ArrayRef<unsigned> outputs, llvm::ArrayRef<Index> at, int64_t width);
  mlir::LogicalResult storeOutputs(llvm::ArrayRef<Index> at, int64_t width);
  /// Stores elements of a value where it is a result of the kernel.
  void storeResult(mlir::Value elements, mlir::Value result, llvm::ArrayRef<Index> at, int64_t width);
  /// Returns a tensor as strides over memory, if it is an argument seen through slices and reshapes.
  std::optional<Storage> view(mlir::Value tensor);
  /// Returns whether view() is row-major without gaps; nothing if there is none. Emits nothing.
  std::optional<bool> densityOf(mlir::Value tensor);
  /// Returns the row at a row-major index, or at an index for each leading dimension.
  RowScope makeRow(mlir::Value flat, llvm::ArrayRef<mlir::AffineExpr> leading);
  RowScope makeRow(llvm::ArrayRef<mlir::Value> prefix, llvm::ArrayRef<mlir::AffineExpr> leading);

  llvm::DenseMap<mlir::Value, ElementFn> bound; ///< values that are computed already: how their elements are read
  const RowScope *currentRow = nullptr;

private:
  static Code::MemoKey keyOf(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  /// Returns an element that was emitted here or around here; null if there is none.
  mlir::Value remembered(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  mlir::Value orOutside(mlir::Value isInside, mlir::Value elements, int64_t width);
  Element evaluateAnew(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateOp(mlir::Operation *op, mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluatePerLane(mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateSlice(mlir::tensor::ExtractSliceOp slice, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateExpand(mlir::tensor::ExpandShapeOp expand, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateCollapse(mlir::tensor::CollapseShapeOp collapse, llvm::ArrayRef<Index> at, int64_t width);
  Element evaluateRope(nn::RopeOp op, llvm::ArrayRef<Index> at, int64_t width);
  Element rotate(nn::RopeOp op, llvm::ArrayRef<Index> at, int64_t width, mlir::Value pair, mlir::Value partner,
                 double sign);
  Element evaluateConcat(mlir::tensor::ConcatOp op, llvm::ArrayRef<Index> at, int64_t width);
  Storage viewOf(mlir::Value tensor);
  mlir::Value address(const Storage &storage, llvm::ArrayRef<Index> at);

  KernelBody &body;
  MemoryEmitter memory;
  ArithmeticEmitter arithmetic;
  PanelEmitter weights;
  LinalgEmitter linalgOps;
};

/// While it is there, elements are those of a row, and what its ops bind is forgotten with it.
class RowGuard {
public:
  RowGuard(TensorEmitter &tensors, const RowScope &row)
      : tensors(tensors), outer(tensors.currentRow), bound(tensors.bound) {
    tensors.currentRow = &row;
  }
  ~RowGuard() {
    tensors.currentRow = outer;
    tensors.bound = std::move(bound);
  }

private:
  TensorEmitter &tensors;
  const RowScope *outer;
  llvm::DenseMap<mlir::Value, TensorEmitter::ElementFn> bound;
};

} // namespace intarsia::kernel

#endif
