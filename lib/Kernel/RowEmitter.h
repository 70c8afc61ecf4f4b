//===- RowEmitter.h - What the elements of a row share: norms, softmax, reductions ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_ROWEMITTER_H
#define INTARSIA_LIB_KERNEL_ROWEMITTER_H

#include "lib/Kernel/TensorEmitter.h"

namespace intarsia::kernel {

/// Whole rows of tensors.
class RowEmitter : public LoopEmitter {
public:
  RowEmitter(KernelBody &body, TensorEmitter &tensors)
      : LoopEmitter(body), body(body), memory(body), tensors(tensors) {}

  /// Emits, at the start of a row, what its elements share: statistics of norms and softmax, reductions.
  mlir::LogicalResult prepareRow(const RowScope &row, llvm::ArrayRef<mlir::Value> roots);

  /// Stores a row of outputs element by element: rows kernels, and the last step of a linear.
  mlir::LogicalResult emitRow(const RowScope &row, llvm::ArrayRef<unsigned> outputs);

private:
  /// A row that is read several times: where it lies if that is memory in f32, else computed once into scratch.
  struct NormInput {
    mlir::Value tensor;
    mlir::AffineExpr length;
    llvm::SmallVector<mlir::Value> prefix;
    mlir::Value scratch; ///< null where it lies in memory
  };
  /// What features are normalized by.
  struct Moments {
    mlir::Value mean; ///< null if it is not subtracted
    mlir::Value inverse;
  };
  NormInput normInput(mlir::Value tensor, const RowScope &row);
  Element readFirst(const NormInput &input, mlir::Value i, int64_t width);
  Element readAgain(const NormInput &input, mlir::Value i, int64_t width);
  mlir::LogicalResult prepareSoftmax(nn::SoftmaxOp softmax, const RowScope &row);
  mlir::LogicalResult prepareCumulate(nn::CumulateOp cumulate, const RowScope &row);
  mlir::LogicalResult prepareNorm(NormOpInterface norm, const RowScope &row);
  /// Prepares what `quantize`, to E4M3 by rows or to E2M1 by blocks, and nn.dequantize make of the elements of a row.
  mlir::LogicalResult prepareE4M3(mlir::Value dequantized, nn::QuantizeOp quantize, const RowScope &row);
  mlir::LogicalResult prepareE2M1(mlir::Value dequantized, nn::QuantizeOp quantize, const RowScope &row);
  bool isReadTwice(mlir::Operation *op, const RowScope &row);
  mlir::LogicalResult prepareTwice(mlir::Value value, const RowScope &row);
  /// Returns the largest magnitude of `count` elements from `begin` on.
  Element largestMagnitude(const NormInput &input, mlir::Value begin, mlir::Value count, bool isFirst);
  mlir::FailureOr<Moments> momentsOf(const NormStatistics &statistics, const NormInput &input, mlir::Value begin,
                                     mlir::Value count);
  /// Returns an element less the mean, by the deviation.
  mlir::Value normalized(mlir::Value x, const Moments &moments, int64_t width);
  /// Returns a normalized element by the scale of its feature, and with the bias.
  Element scaled(NormOpInterface norm, mlir::Value x, mlir::Value feature, int64_t width);

  KernelBody &body;
  MemoryEmitter memory;
  TensorEmitter &tensors;
};

} // namespace intarsia::kernel

#endif
