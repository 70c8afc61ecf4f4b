//===- MicrosoftActivations.cpp - Activations of com.microsoft ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/MicrosoftActivations.h"

#include "lib/Import/Onnx/Ops/ExactProducts.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {

Value sumOf(NodeContext &node, llvm::ArrayRef<Value> tensors, DataType type) {
  Value result;
  for (Value tensor : tensors) {
    if (!tensor || node.isRefused())
      continue;
    result = result ? combine(node, {result, tensor}, type,
                              [](Scalars &s, Value x, Value y) -> Value {
                                return arith::AddFOp::create(s.builder, s.at, x, y);
                              })
                    : tensor;
  }
  return result;
}

Value productOf(NodeContext &node, Value left, Value right, DataType type) {
  return combine(node, {left, right}, type,
                 [](Scalars &s, Value x, Value y) -> Value { return arith::MulFOp::create(s.builder, s.at, x, y); });
}

Value activated(NodeContext &node, Value tensor, DataType type, llvm::StringRef name, llvm::ArrayRef<float> numbers) {
  auto number = [&](size_t which, double byDefault) { return which < numbers.size() ? numbers[which] : byDefault; };
  auto part = [&](llvm::StringLiteral op) {
    Part part(node, op);
    part.with(tensor, type);
    return part;
  };
  if (name.empty() || name == "Identity" || node.isRefused())
    return tensor;
  if (name == "Relu")
    return part("Relu").build();
  if (name == "Tanh")
    return part("Tanh").build();
  if (name == "Sigmoid")
    return part("Sigmoid").build();
  if (name == "HardSwish")
    return part("HardSwish").build();
  if (name == "Softplus")
    return part("Softplus").build();
  if (name == "Softsign")
    return part("Softsign").build();
  if (name == "Gelu")
    return part("Gelu").build();
  if (name == "LeakyRelu")
    return part("LeakyRelu").set("alpha", number(0, 0.01)).build();
  if (name == "Elu")
    return part("Elu").set("alpha", number(0, 1)).build();
  if (name == "ThresholdedRelu")
    return part("ThresholdedRelu").set("alpha", number(0, 1)).build();
  if (name == "HardSigmoid")
    return part("HardSigmoid").set("alpha", number(0, 0.2)).set("beta", number(1, 0.5)).build();
  if (name == "Clip")
    return unary(node, tensor, type, [&](Scalars &s, Value x) -> Value {
      Value low = s.number(number(0, std::numeric_limits<float>::lowest()));
      Value high = s.number(number(1, std::numeric_limits<float>::max()));
      return smallest(s, largest(s, x, low), high);
    });
  node.refuse("attribute 'activation' is '" + name + "', which is not imported");
  return tensor;
}

namespace {

bool isOfFloats(NodeContext &node) { return node.isOf(0, isFloat, "floats"); }

/// Returns the input plus a bias, if there is one; null if the node is refused.
Value withBias(NodeContext &node) {
  Value tensor = node.tensor(0), bias = node.has(1) ? node.tensor(1) : Value();
  if (!isOfFloats(node) || !node.areOneType({0, 1}) ||
      (bias && !node.isBroadcastTo(bias, node.graph.shapeOf(node.at, tensor), "bias")))
    return {};
  Value sum = sumOf(node, {tensor, bias}, node.typeOf(0));
  return node.isRefused() ? Value() : sum;
}

/// Sets the result; functions of f64 are computed in f32.
void geluResult(NodeContext &node, Value tensor, bool isTanh) {
  if (!tensor)
    return;
  DataType type = node.typeOf(0), computed = type == DataType::Double ? DataType::Float : type;
  Part part(node, "Gelu");
  part.with(node.cast(tensor, type, computed), computed);
  if (isTanh)
    part.set("approximate", "tanh");
  if (Value result = part.build())
    node.result(node.cast(result, computed, type));
}

void gelu(NodeContext &node) { geluResult(node, withBias(node), /*isTanh=*/false); }

void fastGelu(NodeContext &node) { geluResult(node, withBias(node), /*isTanh=*/true); }

/// x * sigmoid(alpha * x)
Value quickGeluOf(Scalars &s, Value x, double alpha) {
  Value negative = arith::MulFOp::create(s.builder, s.at, x, s.number(-alpha));
  Value sum = arith::AddFOp::create(s.builder, s.at, s.number(1), s.inSingle<math::ExpOp>(negative));
  return arith::DivFOp::create(s.builder, s.at, x, sum);
}

void quickGelu(NodeContext &node) {
  double alpha = node.number("alpha", 1.702f);
  Value x = node.tensor(0);
  if (isOfFloats(node) && !node.isRefused())
    node.result(unary(node, x, node.typeOf(0), [&](Scalars &s, Value v) { return quickGeluOf(s, v, alpha); }));
}

/// The input is scaled first; both factors are rounded to the type.
void scaledSilu(NodeContext &node) {
  DataType type = node.typeOf(0);
  double alpha = node.number("alpha", 1);
  Value x = node.tensor(0);
  if (!isOfFloats(node) || node.isRefused())
    return;
  Value scaled;
  if (node.has(1)) {
    Value factor = oneNumber(node, 1, "scale");
    if (!node.isRefused())
      scaled = productOf(node, x, node.cast(factor, node.typeOf(1), type), type);
  } else {
    scaled = unary(node, x, type, [&](Scalars &s, Value v) -> Value {
      return arith::MulFOp::create(s.builder, s.at, v, s.number(alpha));
    });
  }
  if (node.isRefused())
    return;
  if (Value gate = Part(node, "Sigmoid").with(scaled, type).build())
    node.result(productOf(node, scaled, gate, type));
}

/// The first half of the features times the gelu of the second.
void biasSplitGelu(NodeContext &node) {
  Value sum = withBias(node);
  if (!sum)
    return;
  DataType type = node.typeOf(0);
  Shape shape = node.graph.shapeOf(node.at, sum);
  if (shape.empty() || shape.back().isDynamic() || shape.back().value % 2 != 0)
    return node.refuse("the number of features is not known, or is odd");
  auto axis = int64_t(shape.size()) - 1;
  int64_t half = shape.back().value / 2;
  Value left = node.sliced(sum, axis, 0, half), right = node.sliced(sum, axis, half, half);
  if (Value gate = Part(node, "Gelu").with(right, type).build())
    node.result(productOf(node, left, gate, type));
}

void biasAdd(NodeContext &node) {
  Value x = node.tensor(0), bias = node.tensor(1), skip = node.tensor(2);
  Shape shape = node.graph.shapeOf(node.at, x);
  if (!isOfFloats(node) || !node.areOneType({0, 1, 2}) || !node.isBroadcastTo(bias, shape, "bias") ||
      !node.isBroadcastTo(skip, shape, "skip"))
    return;
  Value sum = sumOf(node, {x, bias, skip}, node.typeOf(0));
  if (!node.isRefused())
    node.result(sum);
}

/// x + y * gate
void gatedAdd(NodeContext &node) {
  Value x = node.tensor(0), y = node.tensor(1), gate = node.tensor(2);
  DataType type = node.typeOf(0);
  Shape shape = node.graph.shapeOf(node.at, x);
  if (!isOfFloats(node) || !node.areOneType({0, 1, 2}) || !node.isBroadcastTo(y, shape, "Y") ||
      !node.isBroadcastTo(gate, shape, "gate"))
    return;
  Value gated = productOf(node, y, gate, type);
  Value sum = sumOf(node, {x, gated}, type);
  if (!node.isRefused())
    node.result(sum);
}

/// Softmax over all dimensions from an axis on.
void biasSoftmax(NodeContext &node) {
  Value sum = withBias(node);
  if (!sum)
    return;
  if (Value result = Part(node, "Softmax", 11).with(sum, node.typeOf(0)).keep({"axis"}).build())
    node.result(result);
}

} // namespace

llvm::ArrayRef<OpRow> microsoftActivationOps() {
  static const OpRow rows[] = {
      {"com.microsoft", "Gelu", 1, gelu},
      {"com.microsoft", "BiasGelu", 1, gelu},
      {"com.microsoft", "FastGelu", 1, fastGelu},
      {"com.microsoft", "QuickGelu", 1, quickGelu},
      {"com.microsoft", "ScaledSiLU", 1, scaledSilu},
      {"com.microsoft", "BiasSplitGelu", 1, biasSplitGelu},
      {"com.microsoft", "BiasAdd", 1, biasAdd},
      {"com.microsoft", "GatedAdd", 1, gatedAdd},
      {"com.microsoft", "BiasSoftmax", 1, biasSoftmax},
  };
  return rows;
}

} // namespace intarsia::onnx
