//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_INPUTRANGES_H
#define INTARSIA_LIB_LOWER_INPUTRANGES_H

#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace intarsia::lower {

/// Indices that no call can be checked for, since kernels compute them: the host checks them while it runs.
struct ComputedIndex {
  mlir::Operation *op;    ///< uses them as indices, in a group
  unsigned input;         ///< of the group
  llvm::StringRef name;   ///< of the op's operand: "positions"
  mlir::AffineExpr limit; ///< each must be less
};

/// Indices that kernels have computed, by the group that uses them.
using ComputedIndices = llvm::DenseMap<mlir::Operation *, llvm::SmallVector<ComputedIndex>>;

/// Lets calls be checked for the inputs that ops use as indices (IndexOperandOpInterface): arguments whose elements are
/// all indices get nn.range, and nn.below where a size is the limit, unless they have narrower ones. Returns the
/// indices that kernels compute and do not guard. Fails, with an error at the op, if a given range or default is not
/// inside the limit, or if an index cannot be checked.
mlir::FailureOr<ComputedIndices> inferInputRanges(mlir::func::FuncOp function, const SymbolicSizes &sizes);

} // namespace intarsia::lower

#endif
