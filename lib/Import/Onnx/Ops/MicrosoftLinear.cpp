//===- MicrosoftLinear.cpp - Products, convolutions and copies of older ops of com.microsoft ----------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/MicrosoftActivations.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Returns a factor of FusedMatMul as the product reads it. With `turnsBatch` its first dimension and those of the
/// batch have changed places.
Value turned(NodeContext &node, Value tensor, bool turns, bool turnsBatch) {
  int64_t rank = tensorType(tensor).getRank();
  llvm::SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (rank < 2)
    return tensor;
  if (turnsBatch)
    std::rotate(permutation.begin(), permutation.begin() + 1, permutation.end() - 1);
  if (turns)
    std::swap(permutation[rank - 2], permutation[rank - 1]);
  return node.transposed(tensor, permutation);
}

Value scaled(NodeContext &node, Value tensor, DataType type, double factor) {
  return factor == 1 ? tensor : unary(node, tensor, type, [&](Scalars &s, Value x) -> Value {
    return arith::MulFOp::create(s.builder, s.at, x, s.number(factor));
  });
}

/// Returns the three numbers of an activation that matrix products end with.
llvm::SmallVector<float, 3> numbersOf(NodeContext &node) {
  llvm::SmallVector<float, 3> numbers;
  for (llvm::StringRef name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (node.hasAttribute(name))
      numbers.push_back(float(node.number(name, 0)));
  return numbers;
}

void fusedMatMul(NodeContext &node) {
  Value left = node.tensor(0), right = node.tensor(1);
  DataType type = node.typeOf(0);
  bool turnsLeft = node.integer("transA", 0) != 0, turnsRight = node.integer("transB", 0) != 0;
  bool turnsLeftBatch = node.integer("transBatchA", 0) != 0, turnsRightBatch = node.integer("transBatchB", 0) != 0;
  double alpha = node.number("alpha", 1);
  if (!node.areOneType({0, 1}) || !node.isOf(0, isFloat, "floats"))
    return;
  left = turned(node, left, turnsLeft, turnsLeftBatch);
  right = turned(node, right, turnsRight, turnsRightBatch);
  std::optional<Value> product = matrixProduct(node, left, right, type);
  if (!product)
    return;
  Value result =
      activated(node, scaled(node, *product, type, alpha), type, node.text("activation", ""), numbersOf(node));
  if (result)
    node.result(result);
}

void fusedGemm(NodeContext &node) {
  Part part(node, "Gemm");
  for (size_t number = 0; number < 3; ++number)
    if (node.has(number))
      part.with(node.input(number));
  Value product = part.keep({"alpha", "beta", "transA", "transB"}).build();
  if (!product)
    return;
  if (Value result = activated(node, product, node.typeOf(0), node.text("activation", ""), numbersOf(node)))
    node.result(result);
}

void gemmFastGelu(NodeContext &node) {
  Value left = node.tensor(0), right = node.tensor(1), bias = node.has(2) ? node.tensor(2) : Value();
  DataType type = node.typeOf(0);
  if (!node.areOneType({0, 1, 2}) || !node.isComputed(0))
    return;
  std::optional<Value> product = matrixProduct(node, left, right, type);
  if (!product)
    return;
  if (bias && !node.isBroadcastTo(bias, node.graph.shapeOf(node.at, *product), "bias"))
    return;
  Value sum = sumOf(node, {*product, bias}, type);
  if (Value result = Part(node, "Gelu").with(sum, type).set("approximate", "tanh").build())
    node.result(result);
}

/// A convolution, plus a tensor of the result's shape, and an activation.
template <bool isChannelsLast> void fusedConv(NodeContext &node) {
  auto first = [&](Value images) { return isChannelsLast ? node.ir().channelsFirst(node.at, images) : images; };
  Value images = node.tensor(0);
  DataType type = node.typeOf(0);
  if (node.isRefused() || tensorType(images).getRank() < 3)
    return node.refuse("images have " + llvm::Twine(tensorType(images).getRank()) + " dimensions");
  Part part(node, "Conv");
  part.with(first(images), type);
  for (size_t number : {1, 2})
    if (node.has(number))
      part.with(node.input(number));
  Value sum = part.keep({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}).build();
  if (!sum)
    return;
  if (node.has(3)) {
    Value other = node.tensor(3);
    if (!node.areOneType({0, 3}))
      return;
    if (tensorType(other).getRank() != tensorType(sum).getRank())
      return node.refuse("input 'Z' has " + llvm::Twine(tensorType(other).getRank()) + " dimensions");
    other = first(other);
    if (!node.isBroadcastTo(other, node.graph.shapeOf(node.at, sum), "Z"))
      return;
    sum = sumOf(node, {sum, other}, type);
  }
  const Attribute *given = node.attribute("activation_params");
  if (given && given->type != AttributeType::Floats)
    return node.refuse("attribute 'activation_params' is no list of numbers");
  llvm::ArrayRef<float> numbers = given ? llvm::ArrayRef<float>(given->numbers) : llvm::ArrayRef<float>();
  Value result = activated(node, sum, type, node.text("activation", ""), numbers);
  if (result && !node.isRefused())
    node.result(isChannelsLast ? node.ir().channelsLast(node.at, result) : result);
}

void nhwcMaxPool(NodeContext &node) {
  Value images = node.tensor(0);
  DataType type = node.typeOf(0);
  if (node.isRefused() || tensorType(images).getRank() < 3)
    return node.refuse("images have " + llvm::Twine(tensorType(images).getRank()) + " dimensions");
  Value pooled = Part(node, "MaxPool")
                     .with(node.ir().channelsFirst(node.at, images), type)
                     .keep({"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"})
                     .build();
  if (pooled)
    node.result(node.ir().channelsLast(node.at, pooled));
}

/// Distances of each row of one matrix to each of another.
void cDist(NodeContext &node) {
  Value left = node.tensor(0), right = node.tensor(1);
  DataType type = node.typeOf(0);
  llvm::StringRef metric = node.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    return node.refuse("attribute 'metric' is '" + metric + "', must be sqeuclidean or euclidean");
  if (!node.areOneType({0, 1}) ||
      !node.isOf(0, [](DataType t) { return t == DataType::Float || t == DataType::Double; }, "float or double"))
    return;
  Shape rows = node.graph.shapeOf(node.at, left), others = node.graph.shapeOf(node.at, right);
  if (rows.size() != 2 || others.size() != 2 ||
      (!rows[1].isDynamic() && !others[1].isDynamic() && rows[1].value != others[1].value))
    return node.refuse("inputs must be matrices with equal numbers of columns");
  Value sums =
      node.ir().reduce(node.at, node.numberAttribute(type, 0), {rows[0], others[0], rows[1]}, {0, 1},
                       {{left, {0, 2}}, {right, {1, 2}}}, [](OpBuilder &b, Location at, ValueRange v) -> Value {
                         Value difference = arith::SubFOp::create(b, at, v[0], v[1]);
                         Value square = arith::MulFOp::create(b, at, difference, difference);
                         return arith::AddFOp::create(b, at, square, v[2]);
                       });
  node.graph.setShape(sums, {rows[0], others[0]});
  node.result(metric == "sqeuclidean" ? sums : unary(node, sums, type, [](Scalars &s, Value x) -> Value {
    return math::SqrtOp::create(s.builder, s.at, x);
  }));
}

/// An op that the standard has under the same or another name.
void asTheStandard(NodeContext &node, llvm::StringLiteral op, int64_t version) {
  DataType type = node.typeOf(0);
  if (Value result = Part(node, op, version).likeTheNode().build())
    node.result(0, result, type);
}

void gridSample(NodeContext &node) { asTheStandard(node, "GridSample", 16); }
void trilu(NodeContext &node) { asTheStandard(node, "Trilu", 14); }
void range(NodeContext &node) {
  if (node.has(2))
    return asTheStandard(node, "Range", 11);
  GraphValue one{node.typeOf(0), {}, std::make_shared<Elements>(Elements{{}, {Element(1)}})};
  if (isFloat(one.type))
    one.elements = std::make_shared<Elements>(Elements{{}, {Element::ofReal(1)}});
  DataType type = node.typeOf(0);
  if (Value result = Part(node, "Range", 11).with(node.input(0)).with(node.input(1)).with(one).build())
    node.result(0, result, type);
}
void gatherNd(NodeContext &node) { asTheStandard(node, "GatherND", 11); }
void pad(NodeContext &node) { asTheStandard(node, "Pad", 11); }
void causalConv(NodeContext &node) {
  if (node.isWanted(1))
    return node.refuse("output 1 is not imported");
  asTheStandard(node, "CausalConvWithState", 27);
}
void expandDims(NodeContext &node) {
  DataType type = node.typeOf(0);
  if (Value result = Part(node, "Unsqueeze").with(node.input(0)).with(node.input(1)).build())
    node.result(0, result, type);
}

} // namespace

llvm::ArrayRef<OpRow> microsoftLinearOps() {
  static const OpRow rows[] = {
      {"com.microsoft", "FusedMatMul", 1, fusedMatMul},
      {"com.microsoft", "FusedMatMulActivation", 1, fusedMatMul},
      {"com.microsoft", "TransposeMatMul", 1, fusedMatMul},
      {"com.microsoft", "FusedGemm", 1, fusedGemm},
      {"com.microsoft", "GemmFastGelu", 1, gemmFastGelu},
      {"com.microsoft", "FusedConv", 1, fusedConv<false>},
      {"com.microsoft", "NhwcConv", 1, fusedConv<true>},
      {"com.microsoft", "NhwcFusedConv", 1, fusedConv<true>},
      {"com.microsoft", "NhwcMaxPool", 1, nhwcMaxPool},
      {"com.microsoft", "CDist", 1, cDist},
      {"com.microsoft", "GridSample", 1, gridSample},
      {"com.microsoft", "Trilu", 1, trilu},
      {"com.microsoft", "Range", 1, range},
      {"com.microsoft", "GatherND", 1, gatherNd},
      {"com.microsoft", "Pad", 1, pad},
      {"com.microsoft", "ExpandDims", 1, expandDims},
      {"com.microsoft", "CausalConvWithState", 1, causalConv},
  };
  return rows;
}

} // namespace intarsia::onnx
