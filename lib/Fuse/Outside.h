//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Ops that may stand outside groups when the phase ends: used by the pass that wraps the rest and the one that
// verifies.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_OUTSIDE_H
#define INTARSIA_LIB_FUSE_OUTSIDE_H

#include "lib/Fuse/KernelShapes.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"

namespace intarsia::fuse {

/// Groups, weights and constants and what is known ahead of time of them, views, index arithmetic, the terminator.
inline bool mayStayOutside(mlir::Operation *op) {
  if (llvm::isa<nn::GroupOp, mlir::tensor::DimOp>(op) || op->hasTrait<mlir::OpTrait::IsTerminator>() || isReshape(op))
    return true;
  if ((op->getNumResults() == 1 || llvm::isa<nn::QuantizeOp>(op)) && isCompileTime(op->getResult(0)))
    return true;
  if (llvm::isa<mlir::tensor::EmptyOp>(op)) // what a transposed weight is written to
    return llvm::all_of(op->getUsers(), [](mlir::Operation *user) {
      return llvm::isa<mlir::linalg::TransposeOp>(user) && isCompileTime(user->getResult(0));
    });
  return llvm::isa_and_nonnull<mlir::arith::ArithDialect>(op->getDialect()) &&
         llvm::all_of(op->getResultTypes(), [](mlir::Type type) { return type.isIndex(); });
}

/// Ops that groups have copies of; the originals are dead once everything is in a group.
inline bool isClonedIntoGroups(mlir::Operation *op) {
  if (llvm::isa<mlir::tensor::EmptyOp, mlir::linalg::FillOp, mlir::tensor::SplatOp>(op))
    return true;
  return llvm::isa_and_nonnull<mlir::arith::ArithDialect>(op->getDialect()) &&
         llvm::none_of(op->getResultTypes(), [](mlir::Type type) { return llvm::isa<mlir::TensorType>(type); });
}

} // namespace intarsia::fuse

#endif
