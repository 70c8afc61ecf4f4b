//===- Positions.h - Elements that ops read at positions which they compute ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_POSITIONS_H
#define INTARSIA_IMPORT_ONNX_OPS_POSITIONS_H

#include "lib/Import/Onnx/OpTable.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

namespace intarsia::onnx {

/// Returns the indices of an iteration in the body of an elementwise op.
inline llvm::SmallVector<mlir::Value> positionOf(mlir::OpBuilder &b, mlir::Location at, unsigned rank) {
  llvm::SmallVector<mlir::Value> position;
  for (unsigned dimension = 0; dimension < rank; ++dimension)
    position.push_back(mlir::linalg::IndexOp::create(b, at, dimension));
  return position;
}

/// Returns an index that is in [0, size) in a form that lets the analysis prove it. Other indices are clamped.
inline mlir::Value clampedTo(mlir::OpBuilder &b, mlir::Location at, mlir::Value index, mlir::OpFoldResult size) {
  using namespace mlir::arith;
  mlir::Value zero = ConstantIndexOp::create(b, at, 0), one = ConstantIndexOp::create(b, at, 1);
  mlir::Value last = SubIOp::create(b, at, getValueOrCreateConstantIndexOp(b, at, size), one);
  return MaxSIOp::create(b, at, MinSIOp::create(b, at, index, last), zero);
}

/// Returns a bool: whether an index is in [0, size).
inline mlir::Value isIn(mlir::OpBuilder &b, mlir::Location at, mlir::Value index, mlir::OpFoldResult size) {
  using namespace mlir::arith;
  mlir::Value zero = ConstantIndexOp::create(b, at, 0), end = getValueOrCreateConstantIndexOp(b, at, size);
  return AndIOp::create(b, at, CmpIOp::create(b, at, CmpIPredicate::sge, index, zero),
                        CmpIOp::create(b, at, CmpIPredicate::slt, index, end));
}

/// Returns a tensor repeated along dimensions that may have one element in the call: those that are static and 1, or
/// known to be as large, stay. A size that is neither 1 nor that of the result is read as far as it goes.
mlir::Value repeatedInCall(NodeContext &node, mlir::Value tensor, const Shape &shape);

/// Pads that are sizes of the call, by a number (Constant) or the nearest element (Edge). Negative ones cut off.
mlir::Value paddedInCall(NodeContext &node, mlir::Value tensor, llvm::ArrayRef<Size> low, llvm::ArrayRef<Size> high,
                         nn::PadKind kind, mlir::TypedAttr value);

} // namespace intarsia::onnx

#endif
