//===- LinalgEmitter.h - Elements of linalg ops -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_LINALGEMITTER_H
#define INTARSIA_LIB_KERNEL_LINALGEMITTER_H

#include "lib/Kernel/ArithmeticEmitter.h"
#include "lib/Kernel/Reductions.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace intarsia::kernel {

/// One index of a tensor element while code for `width` neighbouring elements is emitted: lane l has the index
/// base + l where `lane` is set, base otherwise. base is an i64.
struct Index {
  mlir::Value base;
  bool lane = false;
};
using Indices = llvm::SmallVector<Index>;

/// Neighbouring elements of a tensor.
struct Place {
  Indices at;
  int64_t width;
};

/// Returns indices of single elements, and behind them those of neighbours from `last` on, if it is not null.
inline Indices indicesOf(mlir::ValueRange single, mlir::Value last = nullptr) {
  Indices at;
  for (mlir::Value index : single)
    at.push_back({index});
  if (last)
    at.push_back({last, true});
  return at;
}

class TensorEmitter;

/// Bodies and loops of linalg ops, around elements of their operands.
class LinalgEmitter : public LoopEmitter {
public:
  LinalgEmitter(KernelBody &body, TensorEmitter &tensors)
      : LoopEmitter(body), body(body), tensors(tensors), arithmetic(body) {}

  Element evaluateLinalg(mlir::linalg::LinalgOp op, mlir::Value tensor, llvm::ArrayRef<Index> at, int64_t width);
  /// Emits the elements that a reduction has at several places, in one loop, and remembers them: what the places share
  /// is read once in an iteration, and their sums do not wait for each other.
  mlir::LogicalResult reduceTogether(mlir::linalg::LinalgOp op, unsigned result, llvm::ArrayRef<Place> places);

private:
  /// Values of a body, or from outside of it, and what they were emitted as.
  using BodyValues = llvm::DenseMap<mlir::Value, mlir::Value>;

  Element evaluateOperand(mlir::linalg::LinalgOp op, mlir::OpOperand &operand, llvm::ArrayRef<Index> loops,
                          int64_t lanes);
  Element evaluateApart(mlir::linalg::LinalgOp op, mlir::OpOperand &operand, llvm::ArrayRef<Index> loops,
                        int64_t lanes);
  mlir::FailureOr<mlir::AffineExpr> sizeOfLoop(mlir::linalg::LinalgOp op, unsigned loop);
  /// Elements of all results.
  using Elements = mlir::FailureOr<llvm::SmallVector<mlir::Value>>;

  mlir::FailureOr<Index> evaluateIndex(mlir::linalg::LinalgOp op, mlir::AffineExpr expression,
                                       llvm::ArrayRef<Index> loops);
  Elements evaluateBody(mlir::linalg::LinalgOp op, llvm::ArrayRef<Index> loops, mlir::ValueRange running,
                        int64_t lanes);
  bool walkAsOne(mlir::linalg::LinalgOp op, unsigned outer, unsigned inner);
  Elements reduceAlongLanes(mlir::linalg::LinalgOp op, mlir::ValueRange running, llvm::ArrayRef<Index> loops,
                            llvm::ArrayRef<unsigned> outer, std::pair<unsigned, mlir::AffineExpr> inner,
                            llvm::ArrayRef<Reduction> reductions);
  Elements findAlongLanes(mlir::linalg::LinalgOp op, mlir::ValueRange start, llvm::ArrayRef<Index> loops, unsigned loop,
                          const PositionSearch &search);
  mlir::FailureOr<Indices> iterationOf(mlir::linalg::LinalgOp op, unsigned result, llvm::ArrayRef<Index> at);
  Elements startsOf(mlir::linalg::LinalgOp op, unsigned result, llvm::ArrayRef<Index> iteration, int64_t width);
  Elements reduceTogether(mlir::linalg::LinalgOp op, mlir::ValueRange running, llvm::ArrayRef<Place> iterations,
                          llvm::ArrayRef<unsigned> reductions);
  Elements reduceInLoops(mlir::linalg::LinalgOp op, mlir::ValueRange running, llvm::ArrayRef<Index> loops,
                         llvm::ArrayRef<unsigned> reductions, int64_t width);

  /// Emits the body of a linalg op for block arguments that have their values; returns the yielded values.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emitBody(mlir::linalg::LinalgOp op,
                                                           llvm::ArrayRef<mlir::Value> arguments,
                                                           llvm::ArrayRef<Index> iteration, int64_t width);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> valuesOf(mlir::ValueRange range, BodyValues &values, int64_t width);
  mlir::Value emitIndex(const Index &at, int64_t width);
  Element emitExtract(mlir::linalg::LinalgOp op, mlir::tensor::ExtractOp extract, BodyValues &values,
                      llvm::ArrayRef<Index> iteration, int64_t width);

  KernelBody &body;
  TensorEmitter &tensors;
  ArithmeticEmitter arithmetic;
};

} // namespace intarsia::kernel

#endif
