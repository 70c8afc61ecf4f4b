//===- LoopSizes.h - How often loops of linalg ops run ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_ANALYSIS_LOOPSIZES_H
#define INTARSIA_ANALYSIS_LOOPSIZES_H

#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace intarsia {

/// Returns the number of iterations of a loop: the size of the first operand's dimension that the loop alone indexes;
/// null if no operand has such a dimension.
inline mlir::AffineExpr sizeOfLoop(mlir::linalg::LinalgOp op, unsigned loop, const SymbolicSizes &sizes) {
  for (mlir::OpOperand &operand : op->getOpOperands())
    if (llvm::isa<mlir::RankedTensorType>(operand.get().getType()))
      for (auto [index, size] :
           llvm::zip_equal(op.getMatchingIndexingMap(&operand).getResults(), sizes.of(operand.get())))
        if (index == mlir::getAffineDimExpr(loop, op->getContext()))
          return size;
  return nullptr;
}

} // namespace intarsia

#endif
