//===- Selection.cpp - Results whose size a call computes ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/Selection.h"

#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Counts.h"
#include "lib/Import/Onnx/Ops/Scalars.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// True for elements that are compared with 0 and with one another.
bool isCompared(DataType type) { return !isFloat(type) || isComputedByNn(type) || type == DataType::Double; }

/// Returns a result of which the call computes the size of one dimension, after its sizes are remembered.
Value withSize(NodeContext &node, Value result, Shape shape, unsigned dimension) {
  shape[dimension] = node.ir().sizeOf(node.at, result, dimension);
  node.graph.setShape(result, shape);
  return result;
}

void nonZero(NodeContext &node) {
  Value input = node.tensor(0);
  if (node.isRefused() || !node.isOf(0, isCompared, "numbers of 16 bits or more, integers or bool") ||
      !isOutsideOfBranches(node))
    return;
  int64_t rank = tensorType(input).getRank();
  Value found = importer::nonzero(node.ir(), node.at, rank == 0 ? node.reshaped(input, {1}) : input);
  Value places = withSize(node, found, {0, rank == 0 ? 1 : rank}, 0);
  // A tensor without dimensions has no coordinates: the result has no rows, and a column if the number is not zero.
  Value result = rank == 0 ? node.filled({0, node.graph.shapeOf(node.at, places)[0]}, node.ops().getI64IntegerAttr(0))
                           : node.transposed(places, {1, 0});
  node.result(0, result, DataType::Int64);
}

void compress(NodeContext &node) {
  Value input = node.tensor(0), condition = node.tensor(1);
  if (node.isRefused() || !node.isOf(1, isBool, "bool") || !isOutsideOfBranches(node))
    return;
  Shape shape = node.graph.shapeOf(node.at, input), conditions = node.graph.shapeOf(node.at, condition);
  std::optional<int64_t> axis;
  if (node.hasAttribute("axis"))
    axis = node.axis(node.integer("axis", 0), shape.size());
  if (conditions.size() != 1)
    node.refuse("input 'condition' has " + llvm::Twine(conditions.size()) + " dimensions, must have 1");
  if (node.isRefused())
    return;
  const Size whole = axis ? shape[*axis] : node.product(shape);
  if (!requireAtMost(node, {conditions[0], "the number of elements of input 'condition'"},
                     {whole, axis ? "the size of the axis" : "the number of elements of input 'input'"}))
    return;
  Value result = importer::compress(node.ir(), node.at, input, condition, axis);
  node.result(withSize(node, result, axis ? shape : Shape{0}, axis.value_or(0)));
}

void unique(NodeContext &node) {
  Value input = node.tensor(0);
  DataType type = node.typeOf(0);
  if (node.isRefused() || !node.isOf(0, isCompared, "numbers of 16 bits or more, integers or bool") ||
      !isOutsideOfBranches(node))
    return;
  Shape shape = node.graph.shapeOf(node.at, input);
  std::optional<int64_t> axis;
  if (node.hasAttribute("axis"))
    axis = node.axis(node.integer("axis", 0), shape.size());
  bool isSorted = node.integer("sorted", 1) != 0;
  if (node.isRefused())
    return;
  const Size whole = axis ? shape[*axis] : node.product(shape);
  if (!whole.isDynamic() && whole.value == 0) {
    // Kernels have no loops without iterations.
    shape = axis ? shape : Shape{0};
    auto none = cast<TypedAttr>(node.ops().getZeroAttr(node.irType(type)));
    node.result(0, node.filled(shape, none), type);
    for (size_t output = 1; output < 4; ++output)
      node.result(output, node.filled({0}, node.ops().getI64IntegerAttr(0)), DataType::Int64);
    return;
  }
  // Integers without a sign are sorted as those with one.
  auto ordered = [&](Value tensor) { return isUnsigned(type) && !isBool(type) ? withOtherSign(node, tensor) : tensor; };
  importer::Unique found = importer::unique(node.ir(), node.at, ordered(input), axis, isSorted);
  Value values = withSize(node, found.values, axis ? shape : Shape{0}, axis.value_or(0));
  node.result(0, ordered(values), type);
  node.result(1, withSize(node, found.indices, {0}, 0), DataType::Int64);
  node.graph.setShape(found.inverse, {whole});
  node.result(2, found.inverse, DataType::Int64);
  node.result(3, withSize(node, found.counts, {0}, 0), DataType::Int64);
}

/// Returns an input of one element as a number without dimensions; `byDefault` if the node has none.
Value number(NodeContext &node, size_t input, llvm::StringRef name, DataType type, TypedAttr byDefault) {
  if (!node.has(input))
    return node.filled({}, byDefault);
  Value tensor = node.tensor(input);
  if (node.typeOf(input) != type || tensorType(tensor).getRank() > 1 ||
      (tensorType(tensor).getRank() == 1 && tensorType(tensor).getDimSize(0) != 1))
    node.refuse("input '" + name + "' is not one number of type " + nameOf(type));
  return node.isRefused() ? node.filled({}, byDefault) : node.reshaped(tensor, {});
}

void nonMaxSuppression(NodeContext &node) {
  Value boxes = node.tensor(0), scores = node.tensor(1);
  OpBuilder &ops = node.ops();
  if (node.isRefused() || !node.isOf(0, isSingle, "float") || !node.areOneType({0, 1}) || !isOutsideOfBranches(node))
    return;
  Shape ofBoxes = node.graph.shapeOf(node.at, boxes), ofScores = node.graph.shapeOf(node.at, scores);
  if (ofBoxes.size() != 3 || ofScores.size() != 3 || (!ofBoxes[2].isDynamic() && ofBoxes[2].value != 4))
    return node.refuse("inputs are not 'boxes' [batch, boxes, 4] and 'scores' [batch, classes, boxes]");
  if (ofBoxes[2].isDynamic())
    return node.refuse("dimension 2 of input 'boxes' depends on the call, must be 4");
  if (!requireEqual(node, dimensionOf("scores", 0, ofScores), dimensionOf("boxes", 0, ofBoxes)) ||
      !requireEqual(node, dimensionOf("scores", 2, ofScores), dimensionOf("boxes", 1, ofBoxes)))
    return;
  Value limit = number(node, 2, "max_output_boxes_per_class", DataType::Int64, ops.getI64IntegerAttr(0));
  Value overlap = number(node, 3, "iou_threshold", DataType::Float, ops.getF32FloatAttr(0));
  Value least;
  if (node.has(4))
    least = number(node, 4, "score_threshold", DataType::Float, ops.getF32FloatAttr(0));
  bool centered = node.integer("center_point_box", 0) != 0;
  if (node.isRefused())
    return;
  const Size count = node.product(ofScores);
  Value zero = node.filled({0, 3}, ops.getI64IntegerAttr(0));
  if (!node.has(2) || (!count.isDynamic() && count.value == 0))
    return node.result(0, zero, DataType::Int64);
  auto found =
      nn::NmsOp::create(ops, node.at, node.ir().tensorType({count, 3}, ops.getI64Type()),
                        RankedTensorType::get({}, ops.getI64Type()), boxes, scores, limit, overlap, least, centered);
  node.graph.setShape(found.getSelected(), {count, 3});
  Size there = importer::sizeOfCount(node.ir(), node.at, found.getCount());
  node.result(0, node.sliced(found.getSelected(), 0, 0, there), DataType::Int64);
}

} // namespace

llvm::ArrayRef<OpRow> selectionOps() {
  static const OpRow rows[] = {
      {"", "NonZero", 9, nonZero},
      {"", "Compress", 9, compress},
      {"", "Unique", 11, unique},
      {"", "NonMaxSuppression", 10, nonMaxSuppression},
  };
  return rows;
}

} // namespace intarsia::onnx
