//===- Quantized.cpp - Quantized tensors and what computes with them ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A quantized element q means (q - zero point) * scale. Numbers are rounded half to even, and clamped to the type.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/Reduce.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

bool isQuantized(DataType type) {
  return type == DataType::Int8 || type == DataType::Uint8 || type == DataType::Int16 || type == DataType::Uint16;
}

/// Returns scales or zero points in a shape that is broadcast to that of the tensor: one for all, one for each index of
/// an axis, or one for each block along it.
std::optional<Value> spread(NodeContext &node, Value numbers, const Shape &shape, int64_t axis, int64_t block) {
  Shape own = node.graph.shapeOf(node.at, numbers);
  bool isOne = llvm::all_of(own, [](const Size &size) { return !size.isDynamic() && size.value == 1; });
  if (isOne)
    return node.reshaped(numbers, {});
  axis = node.axis(axis, shape.size());
  if (node.isRefused())
    return std::nullopt;
  if (block > 0 && own.size() == shape.size()) {
    if (own[axis].isDynamic() || shape[axis].isDynamic()) {
      node.refuse("the number of blocks depends on sizes of the call");
      return std::nullopt;
    }
    // The last block may have fewer elements than the others.
    int64_t reach = 0, size = shape[axis].value;
    if (own[axis].value < 1 || llvm::MulOverflow(own[axis].value, block, reach) || reach - block >= size ||
        size > reach) {
      node.refuse(llvm::Twine(own[axis].value) + " blocks of " + llvm::Twine(block) + " do not go with " +
                  llvm::Twine(size) + " elements");
      return std::nullopt;
    }
    // Each number is that of the elements of its block.
    Shape split(own), whole(own);
    split.insert(split.begin() + axis + 1, 1);
    Shape repeated = split;
    repeated[axis + 1] = block;
    whole[axis] = reach;
    Value result = node.reshaped(node.broadcastTo(node.reshaped(numbers, split), repeated), whole);
    return whole[axis].value == shape[axis].value ? result : node.sliced(result, axis, 0, shape[axis]);
  }
  if (own.size() != 1 || block != 0) {
    node.refuse("scales have " + llvm::Twine(own.size()) + " dimensions");
    return std::nullopt;
  }
  Shape wide(shape.size() - axis, 1);
  wide[0] = own[0];
  return node.reshaped(numbers, wide);
}

/// Returns the numbers that quantized elements mean, in `to`.
Value dequantized(NodeContext &node, Value tensor, DataType type, Value scale, Value zero, DataType to) {
  llvm::SmallVector<Value> operands{tensor, scale};
  if (zero)
    operands.push_back(zero);
  Type element = node.irType(to), f32 = node.ops().getF32Type();
  return node.broadcast(operands, element, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Type wide = b.getI32Type();
    auto widen = [&](Value value) -> Value {
      if (value.getType() == wide)
        return value;
      return isUnsigned(type) ? Value(arith::ExtUIOp::create(b, at, wide, value))
                              : Value(arith::ExtSIOp::create(b, at, wide, value));
    };
    Value moved = widen(v[0]);
    if (zero)
      moved = arith::SubIOp::create(b, at, moved, widen(v[2]));
    Value number = arith::SIToFPOp::create(b, at, f32, moved);
    Value result = arith::MulFOp::create(b, at, number, importer::widened(b, at, v[1], f32));
    return element == f32 ? result : Value(arith::TruncFOp::create(b, at, element, result));
  });
}

/// Returns numbers quantized to a type.
Value quantized(NodeContext &node, Value tensor, Value scale, Value zero, DataType to) {
  llvm::SmallVector<Value> operands{tensor, scale};
  if (zero)
    operands.push_back(zero);
  Type element = node.irType(to), f32 = node.ops().getF32Type();
  unsigned bits = bitsOf(to);
  double low = isUnsigned(to) ? 0 : -double(1ll << (bits - 1));
  double high = isUnsigned(to) ? double((1ll << bits) - 1) : double((1ll << (bits - 1)) - 1);
  return node.broadcast(operands, element, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Value number = importer::widened(b, at, v[0], f32), by = importer::widened(b, at, v[1], f32);
    Value rounded = math::RoundEvenOp::create(b, at, arith::DivFOp::create(b, at, number, by));
    if (zero) {
      Value offset = isUnsigned(to) ? Value(arith::UIToFPOp::create(b, at, f32, v[2]))
                                    : Value(arith::SIToFPOp::create(b, at, f32, v[2]));
      rounded = arith::AddFOp::create(b, at, rounded, offset);
    }
    Value least = importer::floatConstant(b, at, f32, low), most = importer::floatConstant(b, at, f32, high);
    Value clamped = arith::MinimumFOp::create(b, at, arith::MaximumFOp::create(b, at, rounded, least), most);
    Value integer = arith::FPToSIOp::create(b, at, b.getI32Type(), clamped);
    return arith::TruncIOp::create(b, at, element, integer);
  });
}

void dequantizeLinear(NodeContext &node) {
  Value tensor = node.tensor(0), scale = node.tensor(1), zero = node.has(2) ? node.tensor(2) : Value();
  DataType type = node.typeOf(0), ofScale = node.typeOf(1);
  auto to = DataType(node.integer("output_dtype", int64_t(ofScale)));
  Shape shape = node.graph.shapeOf(node.at, tensor);
  int64_t axis = node.integer("axis", 1);
  if (!isQuantized(type) && type != DataType::Int32)
    node.refuse("elements are of type " + nameOf(type));
  node.isOf(1, isComputedByNn, "floats of 16 or 32 bits");
  node.areOneType({0, 2});
  if (node.isRefused() || !isComputedByNn(to))
    return node.refuse("'output_dtype' is " + nameOf(to) + ", must be a float of 16 or 32 bits");
  int64_t block = node.integer("block_size", 0);
  std::optional<Value> wideScale = spread(node, scale, shape, axis, block);
  std::optional<Value> wideZero = zero ? spread(node, zero, shape, axis, block) : Value();
  if (wideScale && wideZero)
    node.result(0, dequantized(node, tensor, type, *wideScale, *wideZero, to), to);
}

void quantizeLinear(NodeContext &node) {
  Value tensor = node.tensor(0), scale = node.tensor(1), zero = node.has(2) ? node.tensor(2) : Value();
  auto to = zero ? node.typeOf(2) : DataType(node.integer("output_dtype", 0));
  if (to == DataType::Undefined)
    to = DataType::Uint8;
  Shape shape = node.graph.shapeOf(node.at, tensor);
  int64_t axis = node.integer("axis", 1);
  if (!isQuantized(to))
    node.refuse("results are of type " + nameOf(to));
  node.isOf(0, isComputedByNn, "floats of 16 or 32 bits");
  node.isOf(1, isComputedByNn, "floats of 16 or 32 bits");
  if (node.isRefused())
    return;
  int64_t block = node.integer("block_size", 0);
  std::optional<Value> wideScale = spread(node, scale, shape, axis, block);
  std::optional<Value> wideZero = zero ? spread(node, zero, shape, axis, block) : Value();
  if (wideScale && wideZero)
    node.result(0, quantized(node, tensor, *wideScale, *wideZero, to), to);
}

/// The range of a tensor and 0, mapped onto 0 to 255.
void dynamicQuantize(NodeContext &node) {
  Value tensor = node.tensor(0);
  if (node.isRefused() || node.typeOf(0) != DataType::Float)
    return node.refuse("elements are of type " + nameOf(node.typeOf(0)));
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
        Value clamped =
            arith::MinimumFOp::create(b, at, arith::MaximumFOp::create(b, at, quotient, s.number(0)), s.number(255));
        Value integer = arith::FPToSIOp::create(b, at, b.getI32Type(), math::RoundEvenOp::create(b, at, clamped));
        return arith::TruncIOp::create(b, at, b.getI8Type(), integer);
      });
  node.result(0, quantized(node, tensor, scale, zero, DataType::Uint8), DataType::Uint8);
  node.result(1, scale, type);
  node.result(2, zero, DataType::Uint8);
}

/// Returns quantized elements minus their zero points, as 32-bit integers.
Value moved(NodeContext &node, Value tensor, DataType type, Value zero, bool isLeft) {
  Value wide = node.cast(tensor, type, DataType::Int32);
  if (!zero)
    return wide;
  Value offset = node.cast(zero, type, DataType::Int32);
  Shape own = node.graph.shapeOf(node.at, offset);
  // Rows of the left matrix have a zero point each, columns of the right one.
  if (isLeft && own.size() == 1 && !(own[0].value == 1))
    offset = node.reshaped(offset, {own[0], 1});
  return combine(node, {wide, offset}, DataType::Int32,
                 [](Scalars &s, Value x, Value y) -> Value { return arith::SubIOp::create(s.builder, s.at, x, y); });
}

void matMulInteger(NodeContext &node) {
  Value left = node.tensor(0), right = node.tensor(1);
  Value leftZero = node.has(2) ? node.tensor(2) : Value(), rightZero = node.has(3) ? node.tensor(3) : Value();
  if (node.isRefused() || !isQuantized(node.typeOf(0)) || !isQuantized(node.typeOf(1)))
    return node.refuse("elements are of types " + nameOf(node.typeOf(0)) + " and " + nameOf(node.typeOf(1)));
  if (!node.areOneType({0, 2}) || !node.areOneType({1, 3}))
    return;
  Value a = moved(node, left, node.typeOf(0), leftZero, true), b = moved(node, right, node.typeOf(1), rightZero, false);
  if (std::optional<Value> product = matrixProduct(node, a, b, DataType::Int32))
    node.result(0, *product, DataType::Int32);
}

/// Inputs: a, its scale, its zero point, b and its, the scale and the zero point of the result.
void qLinearMatMul(NodeContext &node) {
  llvm::SmallVector<Value> in;
  for (size_t number = 0; number < 8; ++number)
    in.push_back(node.tensor(number));
  DataType type = node.typeOf(0), other = node.typeOf(3), to = node.typeOf(7), ofScale = node.typeOf(1);
  if (node.isRefused() || !isQuantized(type) || !isQuantized(other) || !isQuantized(to))
    return node.refuse("elements are of types " + nameOf(type) + " and " + nameOf(other));
  if (!node.areOneType({0, 2}) || !node.areOneType({3, 5}) || !node.areOneType({1, 4, 6}) ||
      !node.isOf(1, isComputedByNn, "floats of 16 or 32 bits"))
    return;
  std::optional<Value> sum = matrixProduct(node, moved(node, in[0], type, in[2], true),
                                           moved(node, in[3], other, in[5], false), DataType::Int32);
  if (!sum)
    return;
  auto number = [&](Value scale) { return node.reshaped(node.cast(scale, ofScale, DataType::Float), {}); };
  for (size_t each : {1, 4, 6, 7})
    if (!tensorType(in[each]).hasStaticShape() || tensorType(in[each]).getNumElements() != 1)
      return node.refuse("scales of rows and columns are not imported, nor zero points of those of the result");
  Value product =
      combine(node, {number(in[1]), number(in[4])}, DataType::Float,
              [](Scalars &s, Value x, Value y) -> Value { return arith::MulFOp::create(s.builder, s.at, x, y); });
  Value real = dequantized(node, *sum, DataType::Int32, product, {}, DataType::Float);
  node.result(0, quantized(node, real, number(in[6]), node.reshaped(in[7], {}), to), to);
}

} // namespace

llvm::ArrayRef<OpRow> quantizedOps() {
  static const OpRow rows[] = {
      {"", "DequantizeLinear", 10, dequantizeLinear},     {"", "QuantizeLinear", 10, quantizeLinear},
      {"", "DynamicQuantizeLinear", 11, dynamicQuantize}, {"", "MatMulInteger", 10, matMulInteger},
      {"", "QLinearMatMul", 10, qLinearMatMul},
  };
  return rows;
}

} // namespace intarsia::onnx
