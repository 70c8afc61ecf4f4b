//===- Losses.cpp - Losses of classifiers -------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html and SoftmaxCrossEntropyLoss.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Reduce.h"
#include "lib/Import/Onnx/Ops/Scalars.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Builds the loss of logarithms of probabilities [batch, classes, positions…] for classes [batch, positions…]. The
/// loss of a position is the negative logarithm of its class, times the weight of the class; the losses are summed, and
/// divided by the sum of the weights for a mean.
void loss(NodeContext &node, Value logarithms) {
  Value target = node.tensor(1), weight = node.has(2) ? node.tensor(2) : Value();
  DataType type = node.typeOf(0);
  llvm::StringRef reduction = node.text("reduction", "mean");
  if (reduction != "none" && reduction != "mean" && reduction != "sum")
    node.refuse("attribute 'reduction' is '" + reduction + "', must be none, mean or sum");
  bool isIgnored = node.hasAttribute("ignore_index");
  int64_t ignored = node.integer("ignore_index", -1);
  Shape scores = node.graph.shapeOf(node.at, logarithms), shape = node.graph.shapeOf(node.at, target);
  if (scores.size() != shape.size() + 1 || shape.empty())
    node.refuse("scores have " + llvm::Twine(scores.size()) + " dimensions and classes " + llvm::Twine(shape.size()));
  if (node.isRefused() || !node.isOf(1, isIndex, "int32 or int64") || !node.areOneType({0, 2}))
    return;
  for (unsigned dimension = 0; dimension < shape.size(); ++dimension)
    if (!requireEqual(node, dimensionOf("target", dimension, shape),
                      dimensionOf("input", dimension == 0 ? 0 : dimension + 1, scores)))
      return;
  if (weight) {
    Shape ofWeight = node.graph.shapeOf(node.at, weight);
    if (ofWeight.size() != 1)
      return node.refuse("input 'weight' has " + llvm::Twine(ofWeight.size()) + " dimensions, must have 1");
    if (!requireEqual(node, dimensionOf("weight", 0, ofWeight), dimensionOf("input", 1, scores)))
      return;
  }
  auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
  Type element = node.irType(type);
  // The weight of a position: 0 of a class that is ignored.
  auto classOf = [&](OpBuilder &b, Location at, Value given, Value &isCounted) -> Value {
    Value skipped = arith::ConstantOp::create(b, at, b.getIntegerAttr(given.getType(), ignored));
    isCounted = isIgnored ? Value(arith::CmpIOp::create(b, at, arith::CmpIPredicate::ne, given, skipped))
                          : Value(arith::ConstantOp::create(b, at, b.getBoolAttr(true)));
    Value zero = arith::ConstantOp::create(b, at, b.getIntegerAttr(given.getType(), 0));
    Value kept = isIgnored ? Value(arith::SelectOp::create(b, at, isCounted, given, zero)) : given;
    return arith::IndexCastOp::create(b, at, b.getIndexType(), kept);
  };
  Value weights = node.ir().elementwise(
      node.at, element, shape, {{target, all}}, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        Value isCounted, index = classOf(b, at, v[0], isCounted);
        Value one = weight ? Value(tensor::ExtractOp::create(b, at, weight, index))
                           : importer::floatConstant(b, at, element, 1);
        return arith::SelectOp::create(b, at, isCounted, one, importer::floatConstant(b, at, element, 0));
      });
  node.graph.setShape(weights, shape);
  Value losses = node.ir().elementwise(node.at, element, shape, {{target, all}, {weights, all}},
                                       [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                                         Value isCounted, index = classOf(b, at, v[0], isCounted);
                                         llvm::SmallVector<Value> position;
                                         for (unsigned dimension = 0; dimension < shape.size(); ++dimension) {
                                           position.push_back(linalg::IndexOp::create(b, at, dimension));
                                           if (dimension == 0)
                                             position.push_back(index);
                                         }
                                         Value score = tensor::ExtractOp::create(b, at, logarithms, position);
                                         return arith::MulFOp::create(b, at, arith::NegFOp::create(b, at, score), v[1]);
                                       });
  node.graph.setShape(losses, shape);
  llvm::SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  if (reduction == "none")
    return node.result(0, losses, type);
  Value sum = reduced(node, losses, type, Reduction::Sum, axes, false);
  if (reduction == "mean") {
    Value whole = reduced(node, weights, type, Reduction::Sum, axes, false);
    sum = combine(node, {sum, whole}, type,
                  [](Scalars &s, Value x, Value y) -> Value { return arith::DivFOp::create(s.builder, s.at, x, y); });
  }
  node.result(0, sum, type);
}

void negativeLogLikelihood(NodeContext &node) {
  Value logarithms = node.tensor(0);
  if (!isFloat(node.typeOf(0)))
    node.refuse("elements are of type " + nameOf(node.typeOf(0)));
  if (!node.isRefused())
    loss(node, logarithms);
}

void softmaxCrossEntropy(NodeContext &node) {
  Value scores = node.tensor(0);
  DataType type = node.typeOf(0);
  if (!isFloat(type) || tensorType(scores).getRank() < 2)
    node.refuse("elements are of type " + nameOf(type) + ", or scores have no classes");
  if (node.isRefused())
    return;
  Value sum = reduced(node, scores, type, Reduction::LogSumExp, {1}, true);
  Value logarithms = combine(node, {scores, sum}, type, [](Scalars &s, Value x, Value y) -> Value {
    return arith::SubFOp::create(s.builder, s.at, x, y);
  });
  node.result(1, logarithms, type);
  loss(node, logarithms);
}

} // namespace

llvm::ArrayRef<OpRow> lossOps() {
  static const OpRow rows[] = {
      {"", "NegativeLogLikelihoodLoss", 12, negativeLogLikelihood},
      {"", "SoftmaxCrossEntropyLoss", 12, softmaxCrossEntropy},
  };
  return rows;
}

} // namespace intarsia::onnx
