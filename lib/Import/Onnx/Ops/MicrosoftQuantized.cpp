//===- MicrosoftQuantized.cpp - Ops of com.microsoft on integers of 8 bits ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. Elementwise ops compute
// with the numbers that integers mean; products are sums of integers.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/ExactProducts.h"
#include "lib/Import/Onnx/Ops/MicrosoftActivations.h"
#include "lib/Import/Onnx/Ops/MicrosoftAttention.h"
#include "lib/Import/Onnx/Ops/Reduce.h"
#include "lib/Import/Onnx/Ops/Scalars.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Returns the zero point of a tensor, if it has one; refuses one of another type.
Value zeroOf(NodeContext &node, size_t input, size_t zero) {
  if (!node.has(zero) || !node.areOneType({input, zero}))
    return {};
  return oneNumber(node, zero, "zero_point");
}

/// Returns the numbers that a tensor of bytes means, in f32.
Value realOf(NodeContext &node, size_t input, size_t scale, size_t zero) {
  Value tensor = node.tensor(input);
  node.isOf(input, isByte, "int8 or uint8");
  node.isOf(scale, isSingle, "float");
  Value by = oneNumber(node, scale, "scale"), offset = zeroOf(node, input, zero);
  return node.isRefused() ? tensor : dequantized(node, tensor, node.typeOf(input), by, offset, DataType::Float);
}

/// Sets the result to numbers that are quantized by a scale and a zero point of the node.
void quantizedResult(NodeContext &node, Value real, DataType type, size_t scale, size_t zero) {
  if (!real || node.isRefused())
    return;
  node.isOf(scale, isSingle, "float");
  Value by = oneNumber(node, scale, "scale"), offset = node.has(zero) ? oneNumber(node, zero, "zero_point") : Value();
  if (offset && node.typeOf(zero) != type)
    node.refuse("the zero point of the result has elements of " + nameOf(node.typeOf(zero)));
  if (!node.isRefused())
    node.result(0, quantized(node, real, by, offset, type), type);
}

/// Inputs: a, its scale and zero point, b and its, those of the result.
template <bool isSum> void qLinearBinary(NodeContext &node) {
  Value left = realOf(node, 0, 1, 2), right = realOf(node, 3, 4, 5);
  if (!node.areOneType({0, 3}))
    return;
  Value result = isSum ? sumOf(node, {left, right}, DataType::Float) : productOf(node, left, right, DataType::Float);
  quantizedResult(node, result, node.typeOf(0), 6, 7);
}

/// Inputs: x, its scale and zero point, those of the result.
template <typename Build> void qLinearUnary(NodeContext &node, Build build) {
  Value real = realOf(node, 0, 1, 2);
  if (!node.isRefused())
    quantizedResult(node, build(real), node.typeOf(0), 3, 4);
}

void qLinearSigmoid(NodeContext &node) {
  qLinearUnary(node, [&](Value x) { return Part(node, "Sigmoid").with(x, DataType::Float).build(); });
}

void qLinearLeakyRelu(NodeContext &node) {
  qLinearUnary(node, [&](Value x) { return Part(node, "LeakyRelu").with(x, DataType::Float).keep({"alpha"}).build(); });
}

void qLinearSoftmax(NodeContext &node) {
  int64_t version = node.integer("opset", 13);
  qLinearUnary(node, [&](Value x) {
    Part part(node, "Softmax", version >= 13 ? 13 : 11);
    part.with(x, DataType::Float).set("axis", node.integer("axis", -1));
    return part.build();
  });
}

void qLinearReduceMean(NodeContext &node) {
  qLinearUnary(node, [&](Value x) {
    return Part(node, "ReduceMean", 13).with(x, DataType::Float).keep({"axes", "keepdims"}).build();
  });
}

/// Builds a pool of images whose channels are the second dimension, or the last.
template <typename Build> void qLinearPool(NodeContext &node, Build build) {
  bool isChannelsLast = node.integer("channels_last", 0) != 0;
  qLinearUnary(node, [&](Value x) -> Value {
    if (tensorType(x).getRank() < 3) {
      node.refuse("images have " + llvm::Twine(tensorType(x).getRank()) + " dimensions");
      return {};
    }
    if (!isChannelsLast)
      return build(x);
    Value pooled = build(node.ir().channelsFirst(node.at, x));
    return pooled ? node.ir().channelsLast(node.at, pooled) : pooled;
  });
}

void qLinearAveragePool(NodeContext &node) {
  qLinearPool(node, [&](Value x) {
    return Part(node, "AveragePool")
        .with(x, DataType::Float)
        .keep({"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"})
        .build();
  });
}

void qLinearGlobalAveragePool(NodeContext &node) {
  qLinearPool(node, [&](Value x) { return Part(node, "GlobalAveragePool").with(x, DataType::Float).build(); });
}

/// Inputs: scale and zero point of the result, then tensors, each with its scale and zero point.
void qLinearConcat(NodeContext &node) {
  DataType type = node.typeOf(1);
  Part part(node, "Concat");
  if (node.inputCount() < 5 || node.inputCount() % 3 != 2 || !node.has(1))
    return node.refuse("has " + llvm::Twine(node.inputCount()) + " inputs, or no zero point");
  for (size_t input = 2; input < node.inputCount(); input += 3) {
    Value real = realOf(node, input, input + 1, input + 2);
    if (node.isRefused())
      return;
    part.with(real, DataType::Float);
  }
  if (node.isOf(1, isByte, "int8 or uint8"))
    quantizedResult(node, part.keep({"axis"}).build(), type, 0, 1);
}

/// Inputs: a condition, x with its scale and zero point, y with its, those of the result.
void qLinearWhere(NodeContext &node) {
  Value left = realOf(node, 1, 2, 3), right = realOf(node, 4, 5, 6);
  if (!node.areOneType({1, 4}) || node.isRefused() || !node.has(0))
    return node.refuse("the condition is missing");
  Value chosen =
      Part(node, "Where").with(node.input(0)).with(left, DataType::Float).with(right, DataType::Float).build();
  quantizedResult(node, chosen, node.typeOf(1), 7, 8);
}

//===-- Products ----------------------------------------------------------------------------------------------===//

/// Returns a scale of the columns of a product in f32.
Value scaleOfColumns(NodeContext &node, size_t input, Value sums, llvm::StringRef name) {
  Shape shape = node.graph.shapeOf(node.at, sums);
  Value scale = onePerIndex(node, input, shape.empty() ? Size(1) : shape.back(), 0, name);
  return node.cast(scale, node.typeOf(input), DataType::Float);
}

/// Inputs: a, its scale and zero point, b and its, 32-bit integers that are added, scale and zero point of the result,
/// which is in f32 without them.
void qGemm(NodeContext &node) {
  bool turnsLeft = node.integer("transA", 0) != 0, turnsRight = node.integer("transB", 0) != 0;
  double alpha = node.number("alpha", 1);
  ByteOperand left = byteOperand(node, 0, 2), right = byteOperand(node, 3, 5);
  if (node.isRefused() || tensorType(left.tensor).getRank() != 2 || tensorType(right.tensor).getRank() != 2)
    return node.refuse("inputs are no matrices");
  if (turnsLeft)
    left.tensor = node.transposed(left.tensor, {1, 0});
  if (left.zero)
    left.zero = oneNumber(node, 2, "a_zero_point");
  Value sums = exactMatrixProduct(node, left, right, turnsRight);
  for (size_t scale : {1, 4, 7})
    if (node.has(scale))
      node.isOf(scale, isSingle, "float");
  if (!sums || node.isRefused())
    return;
  Value ofResult = node.has(7) ? oneNumber(node, 7, "y_scale") : Value();
  Value factor =
      factorOf(node, oneNumber(node, 1, "a_scale"), scaleOfColumns(node, 4, sums, "b_scale"), ofResult, alpha);
  Value added;
  if (node.has(6)) {
    added = node.tensor(6);
    if (!node.isOf(6, isInt32, "int32") || tensorType(added).getRank() > 2)
      return node.refuse("input 'C' is no matrix of int32");
    if (!node.isBroadcastTo(added, node.graph.shapeOf(node.at, sums), "C"))
      return;
  }
  if (!node.has(7)) {
    if (added)
      sums = combine(node, {sums, added}, DataType::Int32, [](Scalars &s, Value x, Value y) -> Value {
        return arith::AddIOp::create(s.builder, s.at, x, y);
      });
    return node.isRefused() ? void() : node.result(0, scaledSums(node, sums, factor), DataType::Float);
  }
  DataType to = node.has(8) ? node.typeOf(8) : node.typeOf(0);
  if (!isByte(to))
    return node.refuse("results are of type " + nameOf(to));
  Value zero = node.has(8) ? oneNumber(node, 8, "y_zero_point") : Value();
  if (!node.isRefused())
    node.result(0, requantized(node, sums, added, factor, zero, to), to);
}

/// Returns sums times a factor, plus a bias of the columns in f32.
Value floatOf(NodeContext &node, Value sums, Value factor, size_t bias) {
  Value result = scaledSums(node, sums, factor);
  if (!node.has(bias))
    return result;
  Value added = node.cast(node.tensor(bias), node.typeOf(bias), DataType::Float);
  if (tensorType(added).getRank() > 1)
    node.refuse("the bias has " + llvm::Twine(tensorType(added).getRank()) + " dimensions");
  node.isBroadcastTo(added, node.graph.shapeOf(node.at, result), "bias");
  return node.isRefused() ? result : sumOf(node, {result, added}, DataType::Float);
}

void dynamicQuantizeMatMul(NodeContext &node) {
  Value input = node.tensor(0);
  ByteOperand right = byteOperand(node, 1, 3);
  for (size_t each : {0, 2})
    node.isOf(each, isSingle, "float");
  if (node.isRefused())
    return;
  DynamicBytes bytes = dynamicallyQuantized(node, input);
  Value sums = exactMatrixProduct(node, {bytes.bytes, DataType::Uint8, bytes.zero}, right);
  if (!sums)
    return;
  Value factor = factorOf(node, bytes.scale, scaleOfColumns(node, 2, sums, "b_scale"));
  Value result = floatOf(node, sums, factor, 4);
  if (!node.isRefused())
    node.result(0, result, DataType::Float);
}

void matMulIntegerToFloat(NodeContext &node) {
  DataType type = node.typeOf(2);
  ByteOperand left = byteOperand(node, 0, 4), right = byteOperand(node, 1, 5);
  if (!node.isComputed(2) || !node.areOneType({2, 3, 6}))
    return;
  if (left.zero)
    left.zero = oneNumber(node, 4, "a_zero_point");
  Value sums = exactMatrixProduct(node, left, right);
  if (!sums)
    return;
  Value ofLeft = node.cast(oneNumber(node, 2, "a_scale"), type, DataType::Float);
  Value factor = factorOf(node, ofLeft, scaleOfColumns(node, 3, sums, "b_scale"));
  Value result = floatOf(node, sums, factor, 6);
  if (!node.isRefused())
    node.result(0, node.cast(result, DataType::Float, type), type);
}

/// Inputs: rows, a weight, a bias, their scales, a mask, their zero points, and the past.
void qAttention(NodeContext &node) {
  DataType type = node.typeOf(3);
  ByteOperand left = byteOperand(node, 0, 6), right = byteOperand(node, 1, 7);
  if (!node.isComputed(3) || !node.areOneType({2, 3, 4, 8}))
    return;
  if (node.integer("past_present_share_buffer", 0) != 0)
    return node.refuse("attribute 'past_present_share_buffer' must be 0");
  if (left.zero)
    left.zero = oneNumber(node, 6, "input_zero_point");
  if (tensorType(left.tensor).getRank() != 3 || tensorType(right.tensor).getRank() != 2)
    return node.refuse("the input must have 3 dimensions, and the weight 2");
  Value sums = exactMatrixProduct(node, left, right);
  if (!sums)
    return;
  Value ofLeft = node.cast(oneNumber(node, 3, "input_scale"), type, DataType::Float);
  Value projections = floatOf(node, sums, factorOf(node, ofLeft, scaleOfColumns(node, 4, sums, "weight_scale")), 2);
  if (!node.isRefused())
    attentionOfProjections(node, node.cast(projections, DataType::Float, type), type,
                           {/*mask=*/5, /*past=*/8, /*bias=*/std::numeric_limits<size_t>::max()});
}

bool isShort(DataType type) { return type == DataType::Int16 || type == DataType::Uint16; }

void matMulInteger16(NodeContext &node) {
  Value left = node.tensor(0), right = node.tensor(1);
  if (!node.isOf(0, isShort, "integers of 16 bits") || !node.isOf(1, isShort, "integers of 16 bits") ||
      node.isRefused())
    return;
  bool hasNoSign = isUnsigned(node.typeOf(0)) && isUnsigned(node.typeOf(1));
  Value one = node.cast(left, node.typeOf(0), DataType::Int32),
        other = node.cast(right, node.typeOf(1), DataType::Int32);
  if (std::optional<Value> product = matrixProduct(node, one, other, DataType::Int32))
    node.result(0, *product, hasNoSign ? DataType::Uint32 : DataType::Int32);
}

/// Products of elements minus their zero points.
void mulInteger(NodeContext &node) {
  auto moved = [&](size_t input, size_t zero) {
    Value tensor = node.tensor(input);
    node.isOf(input, isByte, "int8 or uint8");
    Value offset = zeroOf(node, input, zero);
    if (node.isRefused())
      return tensor;
    Value wide = node.cast(tensor, node.typeOf(input), DataType::Int32);
    return offset ? combine(node, {wide, node.cast(offset, node.typeOf(input), DataType::Int32)}, DataType::Int32,
                            [](Scalars &s, Value x, Value y) -> Value {
                              return arith::SubIOp::create(s.builder, s.at, x, y);
                            })
                  : wide;
  };
  Value left = moved(0, 1), right = moved(2, 3);
  if (!node.isRefused())
    node.result(
        0,
        combine(node, {left, right}, DataType::Int32,
                [](Scalars &s, Value x, Value y) -> Value { return arith::MulIOp::create(s.builder, s.at, x, y); }),
        DataType::Int32);
}

/// An op that the standard has with more types.
template <bool isQuantize> void asTheStandard(NodeContext &node) {
  DataType type = isQuantize ? node.has(2) ? node.typeOf(2) : DataType::Uint8 : node.typeOf(1);
  Value result = (isQuantize ? Part(node, "QuantizeLinear") : Part(node, "DequantizeLinear")).likeTheNode().build();
  if (result)
    node.result(0, result, type);
}

} // namespace

llvm::ArrayRef<OpRow> microsoftQuantizedOps() {
  static const OpRow rows[] = {
      {"com.microsoft", "QLinearAdd", 1, qLinearBinary<true>},
      {"com.microsoft", "QLinearMul", 1, qLinearBinary<false>},
      {"com.microsoft", "QLinearSigmoid", 1, qLinearSigmoid},
      {"com.microsoft", "QLinearLeakyRelu", 1, qLinearLeakyRelu},
      {"com.microsoft", "QLinearSoftmax", 1, qLinearSoftmax},
      {"com.microsoft", "QLinearReduceMean", 1, qLinearReduceMean},
      {"com.microsoft", "QLinearAveragePool", 1, qLinearAveragePool},
      {"com.microsoft", "QLinearGlobalAveragePool", 1, qLinearGlobalAveragePool},
      {"com.microsoft", "QLinearConcat", 1, qLinearConcat},
      {"com.microsoft", "QLinearWhere", 1, qLinearWhere},
      {"com.microsoft", "QGemm", 1, qGemm},
      {"com.microsoft", "DynamicQuantizeMatMul", 1, dynamicQuantizeMatMul},
      {"com.microsoft", "MatMulIntegerToFloat", 1, matMulIntegerToFloat},
      {"com.microsoft", "MatMulInteger16", 1, matMulInteger16},
      {"com.microsoft", "MulInteger", 1, mulInteger},
      {"com.microsoft", "QAttention", 1, qAttention},
      {"com.microsoft", "QuantizeLinear", 1, asTheStandard<true>, Takes::Elements},
      {"com.microsoft", "DequantizeLinear", 1, asTheStandard<false>, Takes::Elements},
  };
  return rows;
}

} // namespace intarsia::onnx
