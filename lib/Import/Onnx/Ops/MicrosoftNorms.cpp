//===- MicrosoftNorms.cpp - Normalisations of com.microsoft -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/ExactProducts.h"
#include "lib/Import/Onnx/Ops/MicrosoftActivations.h"
#include "lib/Import/Onnx/Ops/Reduce.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Refuses vectors that do not have a number for each feature of the rows, which are the last dimension.
bool areOfFeatures(NodeContext &node, Value rows, llvm::ArrayRef<Value> vectors) {
  Shape shape = node.graph.shapeOf(node.at, rows);
  if (shape.empty()) {
    node.refuse("the input has no dimensions");
    return false;
  }
  for (Value vector : vectors) {
    if (!vector)
      continue;
    Shape own = node.graph.shapeOf(node.at, vector);
    if (own.size() != 1 || !node.graph.areEqual(own[0], shape.back()))
      node.refuse("a scale or a bias does not have one number for each feature");
  }
  return !node.isRefused();
}

/// Returns rows that are normalised over their features; `beta` may be null. Without a mean they are divided by the
/// root of the mean of their squares.
Value normalised(NodeContext &node, Value rows, Value gamma, Value beta, double epsilon, bool hasMean) {
  Shape shape = node.graph.shapeOf(node.at, rows);
  Value result = hasMean ? node.ir().layerNorm(node.at, rows, gamma, beta, epsilon)
                         : node.ir().rmsNorm(node.at, rows, gamma, epsilon);
  node.graph.setShape(result, shape);
  return result;
}

/// Returns 1 / sqrt(mean of squares + epsilon) along axes, which stay as dimensions of one element, in f32.
Value inverseRoot(NodeContext &node, Value x, llvm::ArrayRef<int64_t> axes, double epsilon) {
  DataType wide = DataType::Float;
  Value square =
      unary(node, x, wide, [](Scalars &s, Value v) -> Value { return arith::MulFOp::create(s.builder, s.at, v, v); });
  Value mean = reduced(node, square, wide, Reduction::Mean, axes, /*keepsDimensions=*/true);
  return unary(node, mean, wide, [&](Scalars &s, Value v) -> Value {
    Value sum = arith::AddFOp::create(s.builder, s.at, v, s.number(epsilon));
    return arith::DivFOp::create(s.builder, s.at, s.number(1), math::SqrtOp::create(s.builder, s.at, sum));
  });
}

/// Sets the outputs `mean` and `inverse deviation`, f32 with one feature, if the node has them.
void statistics(NodeContext &node, Value rows, DataType type, double epsilon, bool hasMean) {
  if (!node.isWanted(1) && !node.isWanted(2))
    return;
  DataType wide = DataType::Float;
  int64_t last = tensorType(rows).getRank() - 1;
  Value x = node.cast(rows, type, wide);
  if (hasMean) {
    Value mean = reduced(node, x, wide, Reduction::Mean, {last}, /*keepsDimensions=*/true);
    node.result(1, mean, wide);
    x = combine(node, {x, mean}, wide,
                [](Scalars &s, Value a, Value b) -> Value { return arith::SubFOp::create(s.builder, s.at, a, b); });
  } else if (node.isWanted(1)) {
    return node.refuse("output 1 is not imported: there is no mean");
  }
  node.result(2, inverseRoot(node, x, {last}, epsilon), wide);
}

/// A norm of the sum of an input, what was skipped and a bias; the sum is an output too.
template <bool hasMean> void skipNorm(NodeContext &node) {
  double epsilon = node.number("epsilon", 1e-12f);
  size_t biasInput = hasMean ? 4 : 3;
  Value input = node.tensor(0), skip = node.tensor(1), gamma = node.tensor(2);
  Value beta = hasMean && node.has(3) ? node.tensor(3) : Value();
  Value bias = node.has(biasInput) ? node.tensor(biasInput) : Value();
  DataType type = node.typeOf(0);
  if (!node.isComputed(0) || !node.areOneType({0, 1, 2, 3, biasInput}) ||
      !areOfFeatures(node, input, {gamma, beta, bias}))
    return;
  if (!node.isBroadcastTo(skip, node.graph.shapeOf(node.at, input), "skip"))
    return;
  Value sum = sumOf(node, {input, skip, bias}, type);
  if (node.isRefused())
    return;
  node.result(0, normalised(node, sum, gamma, beta, epsilon, hasMean), type);
  statistics(node, sum, type, epsilon, hasMean);
  node.result(3, sum, type);
}

/// The norm without a mean over the dimensions from an axis on, of older files.
void simplifiedNorm(NodeContext &node) {
  if (node.isWanted(1)) {
    Value x = node.tensor(0);
    int64_t rank = tensorType(x).getRank(), axis = node.axis(node.integer("axis", -1), rank);
    if (!node.isComputed(0))
      return;
    llvm::SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(axis, rank));
    Value wide = node.cast(x, node.typeOf(0), DataType::Float);
    node.result(1, inverseRoot(node, wide, axes, node.number("epsilon", 1e-5f)), DataType::Float);
  }
  // The scale and the result may have another type than the input.
  DataType type = node.typeOf(1), computed = node.typeOf(0) == type ? type : DataType::Float;
  Value x = node.tensor(0), scale = node.tensor(1);
  if (!node.isComputed(0) || !node.isComputed(1) || node.isRefused())
    return;
  Value result = Part(node, "RMSNormalization")
                     .with(node.cast(x, node.typeOf(0), computed), computed)
                     .with(node.cast(scale, type, computed), computed)
                     .keep({"axis", "epsilon"})
                     .build();
  if (result)
    node.result(0, node.cast(result, computed, type), type);
}

/// A norm over groups of features, of which `scale` has the number, times an activation of a gate.
void gatedRmsNorm(NodeContext &node) {
  Value x = node.tensor(0), scale = node.tensor(1), gate = node.tensor(2);
  double epsilon = node.number("epsilon", 1e-5f);
  llvm::StringRef activation = node.text("activation", "silu");
  DataType type = node.typeOf(0), wide = DataType::Float;
  if (activation != "silu" && activation != "swish" && activation != "sigmoid")
    node.refuse("attribute 'activation' is '" + activation + "', must be silu, swish or sigmoid");
  if (!node.isComputed(0) || !node.areOneType({0, 1, 2}))
    return;
  Shape shape = node.graph.shapeOf(node.at, x), own = node.graph.shapeOf(node.at, scale);
  if (shape.empty() || shape.back().isDynamic() || own.size() != 1 || own[0].isDynamic() || own[0].value < 1 ||
      shape.back().value % own[0].value != 0)
    return node.refuse("the scale does not divide the features of the input");
  Shape split(shape);
  split.back() = shape.back().value / own[0].value;
  split.push_back(own[0]);
  Value rows = node.reshaped(node.cast(x, type, wide), split);
  Value normal = node.reshaped(normalised(node, rows, scale, {}, epsilon, /*hasMean=*/false), shape);
  bool isSilu = activation != "sigmoid";
  Value opened = unary(node, node.cast(gate, type, wide), wide, [&](Scalars &s, Value v) -> Value {
    Value power = s.inSingle<math::ExpOp>(arith::NegFOp::create(s.builder, s.at, v).getResult());
    Value sum = arith::AddFOp::create(s.builder, s.at, s.number(1), power);
    return arith::DivFOp::create(s.builder, s.at, isSilu ? v : s.number(1), sum);
  });
  Value result = productOf(node, normal, opened, wide);
  if (!node.isRefused())
    node.result(node.cast(result, wide, type));
}

/// Normalises groups of channels over their positions, after what was skipped and a bias are added.
template <bool hasSkip> void groupNorm(NodeContext &node) {
  Value images = node.tensor(0), gamma = node.tensor(1), beta = node.tensor(2);
  int64_t groups = node.integer("groups", 0), activation = node.integer("activation", 0);
  bool isChannelsLast = node.integer("channels_last", 1) != 0;
  double epsilon = node.number("epsilon", 1e-5f);
  DataType type = node.typeOf(0);
  if (activation != 0 && activation != 1)
    node.refuse("attribute 'activation' is " + llvm::Twine(activation) + ", must be 0 or 1");
  if (!node.isComputed(0) || !node.areOneType({1, 2}))
    return;
  Shape shape = node.graph.shapeOf(node.at, images);
  size_t channels = isChannelsLast ? shape.size() - 1 : 1;
  if (shape.size() < 3 || shape[channels].isDynamic() || groups < 1 || shape[channels].value % groups != 0)
    return node.refuse("attribute 'groups' is " + llvm::Twine(groups) +
                       ", which does not divide the channels, or images have no positions");
  for (Value vector : {gamma, beta})
    if (tensorType(vector).getRank() != 1 || tensorType(vector).getDimSize(0) != shape[channels].value)
      return node.refuse("a scale or a bias does not have one number for each channel");
  if (hasSkip) {
    Value skip = node.tensor(3), bias = node.has(4) ? node.tensor(4) : Value();
    if (!node.areOneType({0, 3, 4}))
      return;
    // Those of images as a whole, or of channels, stand at their dimensions.
    auto ofChannels = [&](Value tensor) {
      Shape own = node.graph.shapeOf(node.at, tensor), wide(shape.size(), 1);
      if (own.size() > 2)
        return tensor;
      wide[channels] = own.empty() ? Size(1) : own.back();
      if (own.size() == 2)
        wide[0] = own[0];
      return node.reshaped(tensor, wide);
    };
    skip = ofChannels(skip);
    bias = bias ? ofChannels(bias) : bias;
    if (!node.isBroadcastTo(skip, shape, "skip") || (bias && !node.isBroadcastTo(bias, shape, "bias")))
      return;
    images = sumOf(node, {images, skip, bias}, type);
    node.result(1, images, type);
  }
  Value result = node.ir().imageNorm(node.at, images, shape, node.cast(gamma, node.typeOf(1), type),
                                     node.cast(beta, node.typeOf(2), type), groups, epsilon, channels);
  node.graph.setShape(result, shape);
  if (activation == 1) {
    result = node.ir().activation(node.at, result, importer::Activation::Silu);
    node.graph.setShape(result, shape);
  }
  node.result(0, result, type);
}

/// What an embedding is made of, and the inputs that say which rows it has.
struct Embedding {
  Value words, positions, segments, gamma, beta; ///< segments: null if there are none
  DataType type;
  size_t mask, positionIds;
};

/// Rows of tables of words, positions and segments, added up and normalised.
void embed(NodeContext &node, const Embedding &tables) {
  double epsilon = node.number("epsilon", 1e-12f);
  Value words = node.tensor(0);
  if (!node.isOf(0, isIndex, "int32 or int64") || node.isRefused())
    return;
  Shape shape = node.graph.shapeOf(node.at, words);
  if (shape.size() != 2)
    return node.refuse("input 'input_ids' has " + llvm::Twine(shape.size()) + " dimensions, must have 2");
  for (Value table : {tables.words, tables.positions, tables.segments})
    if (table && tensorType(table).getRank() != 2)
      return node.refuse("a table is no matrix");
  auto rowsOf = [&](Value table, Value indices) {
    Value rows = node.ir().embedding(node.at, table, indices, node.irType(tables.type));
    Shape sizes = node.graph.shapeOf(node.at, indices);
    sizes.push_back(node.graph.shapeOf(node.at, table)[1]);
    node.graph.setShape(rows, sizes);
    return rows;
  };
  Value positions;
  if (node.has(tables.positionIds)) {
    Value indices = node.tensor(tables.positionIds);
    if (!node.isOf(tables.positionIds, isIndex, "int32 or int64") || tensorType(indices).getRank() != 2)
      return node.refuse("input 'position_ids' is no matrix of integers");
    positions = rowsOf(tables.positions, indices);
  } else {
    Shape table = node.graph.shapeOf(node.at, tables.positions);
    if (!table[0].isDynamic() && !shape[1].isDynamic() && shape[1].value > table[0].value)
      return node.refuse("there are " + llvm::Twine(shape[1].value) + " positions, and " + llvm::Twine(table[0].value) +
                         " rows of their table");
    // The rows of the first positions.
    Value indices = node.ir().elementwise(node.at, node.ops().getI64Type(), {shape[1]}, {},
                                          [](OpBuilder &b, Location at, ValueRange) -> Value {
                                            Value index = linalg::IndexOp::create(b, at, 0);
                                            return arith::IndexCastOp::create(b, at, b.getI64Type(), index);
                                          });
    node.graph.setShape(indices, {shape[1]});
    positions = rowsOf(tables.positions, indices);
  }
  Value sum = rowsOf(tables.words, words);
  Shape rows = node.graph.shapeOf(node.at, sum);
  if (!node.isBroadcastTo(positions, rows, "position_ids"))
    return;
  sum = sumOf(node, {sum, positions}, tables.type);
  if (tables.segments && node.has(1)) {
    Value segments = node.tensor(1);
    if (!node.isOf(1, isIndex, "int32 or int64"))
      return;
    segments = rowsOf(tables.segments, segments);
    if (!node.isBroadcastTo(segments, rows, "segment_ids"))
      return;
    sum = sumOf(node, {sum, segments}, tables.type);
  }
  if (node.isRefused() || !areOfFeatures(node, sum, {tables.gamma, tables.beta}))
    return;
  node.result(0, normalised(node, sum, tables.gamma, tables.beta, epsilon, /*hasMean=*/true), tables.type);
  node.result(2, sum, tables.type);
  if (!node.isWanted(1))
    return;
  // The number of words of each sequence, which a mask has ones for.
  if (!node.has(tables.mask))
    return node.result(1, node.filled({shape[0]}, node.ops().getI32IntegerAttr(0)), DataType::Int32);
  Value mask = node.tensor(tables.mask);
  if (!node.isOf(tables.mask, isInt32, "int32") || tensorType(mask).getRank() != 2)
    return node.refuse("input 'mask' is no matrix of integers");
  node.result(1, reduced(node, mask, DataType::Int32, Reduction::Sum, {1}, /*keepsDimensions=*/false), DataType::Int32);
}

void embedLayerNorm(NodeContext &node) {
  Embedding tables{node.tensor(2), node.tensor(3),   node.has(4) ? node.tensor(4) : Value(),
                   node.tensor(5), node.tensor(6),   node.typeOf(2),
                   /*mask=*/7,     /*positionIds=*/8};
  if (node.isComputed(2) && node.areOneType({2, 3, 4, 5, 6}) && !node.isRefused())
    embed(node, tables);
}

/// The same of tables and vectors of bytes: inputs 2 to 6, their scales 8 to 12, and their zero points 13 to 17.
void quantizedEmbedLayerNorm(NodeContext &node) {
  llvm::SmallVector<Value, 5> real;
  for (size_t number = 0; number < 5; ++number) {
    size_t input = 2 + number, scale = 8 + number, zero = 13 + number;
    if (number == 2 && !node.has(input)) {
      real.emplace_back();
      continue;
    }
    Value tensor = node.tensor(input);
    node.isOf(input, isByte, "int8 or uint8");
    node.isOf(scale, isSingle, "float");
    Value by = oneNumber(node, scale, "scale");
    Value offset = node.has(zero) && node.areOneType({input, zero}) ? oneNumber(node, zero, "zero_point") : Value();
    if (node.isRefused())
      return;
    real.push_back(dequantized(node, tensor, node.typeOf(input), by, offset, DataType::Float));
  }
  embed(node, {real[0], real[1], real[2], real[3], real[4], DataType::Float, /*mask=*/7,
               /*positionIds=*/std::numeric_limits<size_t>::max()});
}

} // namespace

llvm::ArrayRef<OpRow> microsoftNormOps() {
  static const OpRow rows[] = {
      {"com.microsoft", "SkipLayerNormalization", 1, skipNorm<true>},
      {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, skipNorm<false>},
      {"", "SimplifiedLayerNormalization", 1, simplifiedNorm},
      {"com.microsoft", "SimplifiedLayerNormalization", 1, simplifiedNorm},
      {"com.microsoft", "GatedRMSNorm", 1, gatedRmsNorm},
      {"com.microsoft", "GroupNorm", 1, groupNorm<false>},
      {"com.microsoft", "SkipGroupNorm", 1, groupNorm<true>},
      {"com.microsoft", "EmbedLayerNormalization", 1, embedLayerNorm},
      {"com.microsoft", "QEmbedLayerNormalization", 1, quantizedEmbedLayerNorm},
  };
  return rows;
}

} // namespace intarsia::onnx
