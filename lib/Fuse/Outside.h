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

#include "intarsia/Analysis/ControlFlow.h"
#include "intarsia/Analysis/GatheredRows.h"
#include "lib/Fuse/KernelShapes.h"
#include "lib/Fuse/Regions.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"

namespace intarsia::fuse {

/// True for the call of a function that holds a body of control flow during the phase.
inline bool isOutlined(mlir::Operation *op) {
  auto call = llvm::dyn_cast<mlir::func::CallOp>(op);
  auto callee = call ? mlir::SymbolTable::lookupNearestSymbolFrom(op, call.getCalleeAttr()) : nullptr;
  return callee && callee->hasAttr(outlinedAttr);
}

/// True for an element that the host reads, to compute with it or to decide by it.
inline bool isReadByHost(mlir::Operation *op) {
  return llvm::isa<mlir::tensor::ExtractOp>(op) && op->getResult(0).getType().isIntOrIndex() &&
         llvm::all_of(op->getUsers(), [](mlir::Operation *user) {
           return isControlFlow(user) || isOutlined(user) || user->hasTrait<mlir::OpTrait::IsTerminator>() ||
                  llvm::isa<mlir::cf::AssertOp>(user) ||
                  (llvm::isa_and_nonnull<mlir::arith::ArithDialect>(user->getDialect()) &&
                   llvm::all_of(user->getResultTypes(), [](mlir::Type type) { return type.isIntOrIndex(); }));
         });
}

/// Groups, weights and constants and what is computed of them at compile time, views, what ranks do together and what
/// they have gathered, integers that the host computes with or reads from tensors, what it asserts, control flow, the
/// terminator.
inline bool mayStayOutside(mlir::Operation *op) {
  if (isControlFlow(op) || llvm::isa_and_nonnull<mlir::shard::ShardDialect>(op->getDialect()) || isOutlined(op) ||
      isReadByHost(op) || llvm::isa<nn::GroupOp, mlir::tensor::CastOp, mlir::tensor::DimOp, mlir::cf::AssertOp>(op) ||
      op->hasTrait<mlir::OpTrait::IsTerminator>() || isReshape(op))
    return true;
  if (auto slice = llvm::dyn_cast<mlir::tensor::ExtractSliceOp>(op); slice && isGatheredRows(slice))
    return true;
  if ((op->getNumResults() == 1 || llvm::isa<nn::QuantizeOp>(op)) && isCompileTime(op->getResult(0)))
    return true;
  if (llvm::isa<mlir::tensor::EmptyOp>(op)) // what a transposed weight is written to, what is received
    return llvm::all_of(op->getUsers(), [](mlir::Operation *user) {
      return llvm::isa<mlir::shard::RecvOp, mlir::shard::BroadcastOp>(user) ||
             (llvm::isa<mlir::linalg::TransposeOp>(user) && isCompileTime(user->getResult(0)));
    });
  return llvm::isa_and_nonnull<mlir::arith::ArithDialect>(op->getDialect()) &&
         llvm::all_of(op->getResultTypes(), [](mlir::Type type) { return type.isIntOrIndex(); });
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
