//===- Scalars.h - Bodies of elementwise ops ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_SCALARS_H
#define INTARSIA_IMPORT_ONNX_OPS_SCALARS_H

#include "lib/Import/Onnx/OpTable.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace intarsia::onnx {

/// The inside of an elementwise op: floats of 16 bits and fewer are f32 here, and rounded once at its end.
struct Scalars {
  mlir::OpBuilder &builder;
  mlir::Location at;
  DataType type;      ///< as the model has it
  mlir::Type element; ///< as it is computed

  /// Returns a constant.
  mlir::Value number(double value) {
    mlir::TypedAttr attribute = mlir::isa<mlir::FloatType>(element)
                                    ? mlir::TypedAttr(builder.getFloatAttr(element, value))
                                    : mlir::TypedAttr(builder.getIntegerAttr(element, int64_t(value)));
    return mlir::arith::ConstantOp::create(builder, at, attribute);
  }
  /// Computes a function that kernels have in f32 alone.
  template <typename Op, typename... Operands> mlir::Value inSingle(Operands... operands) {
    if (!element.isF64())
      return Op::create(builder, at, operands...);
    auto narrow = [&](mlir::Value value) -> mlir::Value {
      return mlir::arith::TruncFOp::create(builder, at, builder.getF32Type(), value);
    };
    mlir::Value result = Op::create(builder, at, narrow(operands)...);
    return mlir::arith::ExtFOp::create(builder, at, element, result);
  }
};

/// Returns the larger of two numbers, NaN if one is.
inline mlir::Value largest(Scalars &s, mlir::Value left, mlir::Value right) {
  if (isFloat(s.type))
    return mlir::arith::MaximumFOp::create(s.builder, s.at, left, right);
  if (isUnsigned(s.type))
    return mlir::arith::MaxUIOp::create(s.builder, s.at, left, right);
  return mlir::arith::MaxSIOp::create(s.builder, s.at, left, right);
}

/// Returns the smaller of two numbers, NaN if one is.
inline mlir::Value smallest(Scalars &s, mlir::Value left, mlir::Value right) {
  if (isFloat(s.type))
    return mlir::arith::MinimumFOp::create(s.builder, s.at, left, right);
  if (isUnsigned(s.type))
    return mlir::arith::MinUIOp::create(s.builder, s.at, left, right);
  return mlir::arith::MinSIOp::create(s.builder, s.at, left, right);
}

/// Builds an elementwise op over tensors of one type of elements, which are broadcast: `compute(Scalars &, Value…)`.
template <typename Compute>
mlir::Value combine(NodeContext &node, llvm::ArrayRef<mlir::Value> tensors, DataType type, Compute compute) {
  mlir::Type stored = node.irType(type);
  auto body = [&](mlir::OpBuilder &builder, mlir::Location at, mlir::ValueRange values) -> mlir::Value {
    bool isNarrow = mlir::isa<mlir::FloatType>(stored) && stored.getIntOrFloatBitWidth() < 32;
    Scalars scalars{builder, at, type, isNarrow ? mlir::Type(builder.getF32Type()) : stored};
    llvm::SmallVector<mlir::Value, 3> operands;
    for (mlir::Value value : values)
      operands.push_back(isNarrow ? importer::widened(builder, at, value, scalars.element) : value);
    mlir::Value result;
    if constexpr (std::is_invocable_v<Compute, Scalars &, mlir::Value>)
      result = compute(scalars, operands[0]);
    else if constexpr (std::is_invocable_v<Compute, Scalars &, mlir::Value, mlir::Value>)
      result = compute(scalars, operands[0], operands[1]);
    else
      result = compute(scalars, operands[0], operands[1], operands[2]);
    return result.getType() == stored ? result : mlir::arith::TruncFOp::create(builder, at, stored, result).getResult();
  };
  return node.broadcast(tensors, stored, body);
}

template <typename Compute> mlir::Value unary(NodeContext &node, mlir::Value tensor, DataType type, Compute compute) {
  return combine(node, {tensor}, type, compute);
}

/// Flips the first bit of integers without a sign: as integers with a sign they then have the same order. Flipping it
/// again gives the integers back.
inline mlir::Value withOtherSign(NodeContext &node, mlir::Value integers) {
  mlir::Type type = tensorType(integers).getElementType();
  return node.broadcast(
      {integers}, type, [&](mlir::OpBuilder &b, mlir::Location at, mlir::ValueRange v) -> mlir::Value {
        auto first = b.getIntegerAttr(type, llvm::APInt::getSignMask(type.getIntOrFloatBitWidth()));
        return mlir::arith::XOrIOp::create(b, at, v[0], mlir::arith::ConstantOp::create(b, at, first));
      });
}

} // namespace intarsia::onnx

#endif
