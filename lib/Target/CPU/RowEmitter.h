//===- RowEmitter.h - What the elements of a row share: norms, softmax, reductions ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_ROWEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_ROWEMITTER_H

#include "lib/Target/CPU/TensorEmitter.h"

namespace intarsia::cpu {

/// Whole rows of tensors.
class RowEmitter : public TensorEmitter {
public:
  using TensorEmitter::TensorEmitter;

protected:
  /// Emits, at the start of a row, what its elements share: statistics of norms and softmax, reductions.
  void prepareRow(const RowScope &row, llvm::ArrayRef<mlir::Value> roots);
  void prepareNorm(mlir::Operation *op, const RowScope &row);

  /// Stores a row of outputs element by element: rows kernels, and the last step of a linear.
  void emitRow(const RowScope &row, llvm::ArrayRef<unsigned> outputs);
};

} // namespace intarsia::cpu

#endif
