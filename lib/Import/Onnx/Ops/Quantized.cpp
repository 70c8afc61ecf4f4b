//===- Quantized.cpp - Quantized tensors and what computes with them ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A quantized element q means (q - zero point) * scale. Numbers are rounded half to even, and clamped to the type.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/ExactProducts.h"
#include "lib/Import/Onnx/Ops/Part.h"
#include "lib/Import/Onnx/Ops/Reduce.h"
#include "lib/Import/Onnx/Ops/Scalars.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
Value dequantized(NodeContext &node, Value tensor, DataType type, Value scale, Value zero, DataType to) {
  Part part(node, "DequantizeLinear");
  part.with(tensor, type).with(scale, DataType::Float);
  if (zero)
    part.with(zero, type);
  return part.set("output_dtype", int64_t(to)).build();
}

Value quantized(NodeContext &node, Value tensor, Value scale, Value zero, DataType to) {
  Part part(node, "QuantizeLinear");
  part.with(tensor, DataType::Float).with(scale, DataType::Float);
  if (zero)
    part.with(zero, to);
  return part.set("output_dtype", int64_t(to)).build();
}

/// The range of a tensor and 0, mapped onto 0 to 255.
DynamicBytes dynamicallyQuantized(NodeContext &node, Value tensor) {
  llvm::SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, tensorType(tensor).getRank()));
  DataType type = DataType::Float;
  Value least = reduced(node, tensor, type, Reduction::Min, axes, false);
  Value most = reduced(node, tensor, type, Reduction::Max, axes, false);
  auto low = [](Scalars &s, Value x) -> Value { return arith::MinimumFOp::create(s.builder, s.at, x, s.number(0)); };
  Value scale = combine(node, {least, most}, type, [&](Scalars &s, Value x, Value y) -> Value {
    Value high = arith::MaximumFOp::create(s.builder, s.at, y, s.number(0));
    Value range = arith::SubFOp::create(s.builder, s.at, high, low(s, x));
    Value divided = arith::DivFOp::create(s.builder, s.at, range, s.number(255));
    // Of nothing but zeros, any scale will do.
    Value isZero = arith::CmpFOp::create(s.builder, s.at, arith::CmpFPredicate::OEQ, divided, s.number(0));
    return arith::SelectOp::create(s.builder, s.at, isZero, s.number(1), divided);
  });
  Value zero =
      node.broadcast({least, scale}, node.ops().getI8Type(), [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        Scalars s{b, at, type, b.getF32Type()};
        Value quotient = arith::DivFOp::create(b, at, arith::NegFOp::create(b, at, low(s, v[0])), v[1]);
        return clampedInteger(b, at, math::RoundEvenOp::create(b, at, quotient), DataType::Uint8, b.getI8Type());
      });
  return {quantized(node, tensor, scale, zero, DataType::Uint8), scale, zero};
}

namespace {

void dynamicQuantize(NodeContext &node) {
  Value tensor = node.tensor(0);
  if (node.isRefused() || node.typeOf(0) != DataType::Float)
    return node.refuse("elements are of type " + nameOf(node.typeOf(0)));
  DynamicBytes result = dynamicallyQuantized(node, tensor);
  node.result(0, result.bytes, DataType::Uint8);
  node.result(1, result.scale, DataType::Float);
  node.result(2, result.zero, DataType::Uint8);
}

void matMulInteger(NodeContext &node) {
  ByteOperand left = byteOperand(node, 0, 2), right = byteOperand(node, 1, 3);
  if (Value sums = exactMatrixProduct(node, left, right))
    node.result(0, sums, DataType::Int32);
}

/// Returns numbers of the rows of a matrix, one for all or one each, in a shape that is broadcast to it.
Value ofRows(NodeContext &node, Value numbers) {
  Shape own = node.graph.shapeOf(node.at, numbers);
  if (own.size() != 1)
    return numbers;
  return node.reshaped(numbers, !own[0].isDynamic() && own[0].value == 1 ? Shape() : Shape{own[0], 1});
}

/// Inputs: a, its scale, its zero point, b and its, the scale and the zero point of the result.
void qLinearMatMul(NodeContext &node) {
  ByteOperand left = byteOperand(node, 0, 2), right = byteOperand(node, 3, 5);
  DataType to = node.typeOf(7), ofScale = node.typeOf(1);
  if (!node.areOneType({1, 4, 6}) || !node.isComputed(1) || !node.isOf(7, isByte, "int8 or uint8"))
    return;
  Value sums = exactMatrixProduct(node, left, right);
  if (!sums)
    return;
  auto scale = [&](size_t input) { return node.cast(node.tensor(input), ofScale, DataType::Float); };
  Value ofLeft = ofRows(node, scale(1)), ofRight = scale(4), ofResult = ofRows(node, scale(6));
  Value zero = ofRows(node, node.tensor(7));
  if (node.isRefused())
    return;
  Value factor = factorOf(node, ofLeft, ofRight, ofResult);
  Value result = requantized(node, sums, {}, factor, zero, to);
  if (!node.isRefused())
    node.result(0, result, to);
}

} // namespace

llvm::ArrayRef<OpRow> quantizedOps() {
  static const OpRow rows[] = {
      {"", "DynamicQuantizeLinear", 11, dynamicQuantize},
      {"", "MatMulInteger", 10, matMulInteger},
      {"", "QLinearMatMul", 10, qLinearMatMul},
  };
  return rows;
}

} // namespace intarsia::onnx
