//===- Norms.cpp - Normalisations ---------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/Reduce.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Refuses vectors that do not have a number for each channel.
bool areOfChannels(NodeContext &node, llvm::ArrayRef<Value> vectors, const Size &channels) {
  if (!channels.isDynamic() && channels.value < 1)
    node.refuse("images have no channels");
  for (Value vector : vectors) {
    Shape own = node.graph.shapeOf(node.at, vector);
    bool mayBeEqual = own.size() == 1 && (own[0].isDynamic() || channels.isDynamic() || own[0].value == channels.value);
    if (!mayBeEqual)
      node.refuse("an input has no number for each channel");
  }
  return !node.isRefused();
}

/// Normalises each channel, dimension 1, by mean and variance of its elements, and moves those of the training data
/// towards them. `vectors` are the scale, the bias, the mean and the variance.
void trainedBatchNorm(NodeContext &node, Value images, llvm::ArrayRef<Value> vectors, double epsilon) {
  constexpr DataType single = DataType::Float;
  DataType type = node.typeOf(0);
  double momentum = node.number("momentum", 0.9f);
  if (node.isRefused())
    return;
  int64_t rank = tensorType(images).getRank();
  llvm::SmallVector<int64_t> axes{0};
  for (int64_t axis = 2; axis < rank; ++axis)
    axes.push_back(axis);
  Shape shape = node.graph.shapeOf(node.at, images), perChannel(rank - 1, 1);
  perChannel[0] = shape[1];
  auto spread = [&](Value vector) { return node.reshaped(vector, perChannel); };
  auto given = [&](size_t number) { return node.cast(vectors[number], node.typeOf(number + 1), single); };
  auto minus = [](Scalars &s, Value x, Value y) -> Value { return arith::SubFOp::create(s.builder, s.at, x, y); };
  auto times = [](Scalars &s, Value x, Value y) -> Value { return arith::MulFOp::create(s.builder, s.at, x, y); };
  Value wide = node.cast(images, type, single);
  Value mean = reduced(node, wide, single, Reduction::Mean, axes, false);
  Value centered = combine(node, {wide, spread(mean)}, single, minus);
  Value variance =
      reduced(node, combine(node, {centered, centered}, single, times), single, Reduction::Mean, axes, false);
  Value factor = combine(node, {given(0), variance}, single, [&](Scalars &s, Value scale, Value square) -> Value {
    Value sum = arith::AddFOp::create(s.builder, s.at, square, s.number(epsilon));
    Value deviation = math::SqrtOp::create(s.builder, s.at, sum);
    return arith::DivFOp::create(s.builder, s.at, scale, deviation);
  });
  Value result = combine(node, {centered, spread(factor), spread(given(1))}, single,
                         [&](Scalars &s, Value x, Value by, Value bias) -> Value {
                           return arith::AddFOp::create(s.builder, s.at, times(s, x, by), bias);
                         });
  node.result(0, node.cast(result, single, type), type);
  for (auto [number, current] : {std::pair(0, mean), std::pair(1, variance)}) {
    DataType own = node.typeOf(3 + number);
    Value moved = combine(node, {given(2 + number), current}, single, [&](Scalars &s, Value old, Value next) -> Value {
      Value kept = times(s, old, s.number(momentum));
      return arith::AddFOp::create(s.builder, s.at, kept, times(s, next, s.number(1 - momentum)));
    });
    node.result(1 + number, node.cast(moved, single, own), own);
    node.result(3 + number, node.cast(current, single, own), own); // before version 14
  }
}

/// Normalises each channel, dimension 1, by numbers of the training data.
void batchNorm(NodeContext &node) {
  Value images = node.tensor(0);
  llvm::SmallVector<Value> vectors;
  for (size_t number = 1; number < 5; ++number)
    vectors.push_back(node.tensor(number));
  double epsilon = node.number("epsilon", 1e-5f);
  // Before version 14 training is what has more results.
  bool isTraining = node.version >= 14 ? node.integer("training_mode", 0) != 0 : node.isWanted(1) || node.isWanted(2);
  if (node.version < 9 && node.integer("spatial", 1) == 0)
    return node.refuse("attribute 'spatial' must be 1");
  int64_t rank = tensorType(images).getRank();
  if (rank < 2)
    node.refuse("images have " + llvm::Twine(rank) + " dimensions");
  if (!node.isComputed(0))
    return;
  Shape shape = node.graph.shapeOf(node.at, images);
  if (!areOfChannels(node, vectors, shape[1]))
    return;
  if (isTraining) {
    for (size_t number : {1, 2, 3, 4})
      node.isComputed(number);
    for (Value vector : vectors)
      if (!node.graph.areEqual(node.graph.shapeOf(node.at, vector)[0], shape[1]))
        node.refuse("an input has no number for each channel");
    if (!node.isRefused())
      trainedBatchNorm(node, images, vectors, epsilon);
    return;
  }
  importer::BatchNorm norm{vectors[0], vectors[1], vectors[2], vectors[3], epsilon};
  Value last = rank == 2 ? images : node.ir().channelsLast(node.at, images);
  Value result = node.ir().batchNorm(node.at, last, norm);
  if (rank > 2)
    result = node.ir().channelsFirst(node.at, result);
  node.graph.setShape(result, shape);
  node.result(result);
}

/// Numbers along axes, which stay as dimensions of one element.
struct Statistics {
  Value mean, moved, variance; ///< moved: the numbers minus their mean
};

Statistics statisticsOf(NodeContext &node, Value x, DataType type, llvm::ArrayRef<int64_t> axes) {
  Value mean = reduced(node, x, type, Reduction::Mean, axes, true);
  Value moved = combine(node, {x, mean}, type, [](Scalars &s, Value a, Value b) -> Value {
    return arith::SubFOp::create(s.builder, s.at, a, b);
  });
  Value square = unary(node, moved, type,
                       [](Scalars &s, Value v) -> Value { return arith::MulFOp::create(s.builder, s.at, v, v); });
  return {mean, moved, reduced(node, square, type, Reduction::Mean, axes, true)};
}

/// Normalises groups of channels, of which the call decides the number.
Value imageNormOfCall(NodeContext &node, Value images, const Size &groups, Value scale, Value bias, double epsilon) {
  DataType type = node.typeOf(0);
  Shape shape = node.graph.shapeOf(node.at, images), spread(shape.size() - 1, 1);
  Size each = node.compute(importer::SizeOp::Divide, shape[1], groups);
  for (const Size &size : llvm::ArrayRef(shape).drop_front(2))
    each = node.product({each, size});
  Value rows = node.reshaped(node.cast(images, type, DataType::Float), {shape[0], groups, each});
  Statistics statistics = statisticsOf(node, rows, DataType::Float, {2});
  Value normed = combine(
      node, {statistics.moved, statistics.variance}, DataType::Float, [&](Scalars &s, Value a, Value b) -> Value {
        Value sum = arith::AddFOp::create(s.builder, s.at, b, s.number(epsilon));
        return arith::MulFOp::create(s.builder, s.at, a, math::RsqrtOp::create(s.builder, s.at, sum));
      });
  spread[0] = shape[1];
  auto vector = [&](size_t input, Value of) {
    return node.reshaped(node.cast(of, node.typeOf(input), DataType::Float), spread);
  };
  Value result =
      combine(node, {node.reshaped(normed, shape), vector(1, scale), vector(2, bias)}, DataType::Float,
              [](Scalars &s, Value x, Value y, Value z) -> Value {
                return arith::AddFOp::create(s.builder, s.at, arith::MulFOp::create(s.builder, s.at, x, y), z);
              });
  return node.cast(result, DataType::Float, type);
}

/// Normalises groups of channels over their positions.
void imageNorm(NodeContext &node, int64_t groups, Value scale, Value bias) {
  Value images = node.tensor(0);
  double epsilon = node.number("epsilon", 1e-5f);
  if (!node.isComputed(0))
    return;
  Shape shape = node.graph.shapeOf(node.at, images);
  bool isOfCall = shape.size() > 1 && shape[1].isDynamic();
  if (shape.size() < 3 || groups < 0 || (groups && !isOfCall && shape[1].value % groups != 0))
    return node.refuse("groups do not divide the channels, or images have no positions");
  if (!areOfChannels(node, {scale, bias}, shape[1]))
    return;
  if (isOfCall)
    return node.result(imageNormOfCall(node, images, groups ? Size(groups) : shape[1], scale, bias, epsilon));
  Shape last(shape);
  last.erase(last.begin() + 1);
  last.push_back(shape[1]);
  Value turned = node.ir().channelsLast(node.at, images);
  Value result = node.ir().imageNorm(node.at, turned, last, scale, bias, groups ? groups : shape[1].value, epsilon);
  result = node.ir().channelsFirst(node.at, result);
  node.graph.setShape(result, shape);
  node.result(result);
}

void instanceNorm(NodeContext &node) { imageNorm(node, 0, node.tensor(1), node.tensor(2)); }

/// Before version 21 a scale and a bias are those of a group, and channels of a group share them.
Value ofChannels(NodeContext &node, size_t input, const Size &channels, int64_t groups) {
  Value vector = node.tensor(input);
  Shape shape = node.graph.shapeOf(node.at, vector);
  if (shape.size() != 1 || shape[0].isDynamic() || shape[0].value != groups) {
    node.refuse("input '" + llvm::Twine(input == 1 ? "scale" : "bias") + "' does not have a number for each of " +
                llvm::Twine(groups) + " groups");
    return vector;
  }
  Size each = node.compute(importer::SizeOp::Divide, channels, groups);
  return node.reshaped(node.broadcastTo(node.reshaped(vector, {groups, 1}), {groups, each}), {channels});
}

void groupNorm(NodeContext &node) {
  int64_t groups = node.integer("num_groups", 0);
  Shape shape = node.shapeOf(0);
  if (groups < 1 || shape.size() < 2)
    return node.refuse("attribute 'num_groups' is " + llvm::Twine(groups) + ", of images of " +
                       llvm::Twine(shape.size()) + " dimensions");
  if (node.version >= 21)
    return imageNorm(node, groups, node.tensor(1), node.tensor(2));
  if (!shape[1].isDynamic() && shape[1].value % groups != 0)
    return node.refuse("attribute 'num_groups' is " + llvm::Twine(groups) + ", of " + llvm::Twine(shape[1].value) +
                       " channels");
  Value scale = ofChannels(node, 1, shape[1], groups), bias = ofChannels(node, 2, shape[1], groups);
  if (!node.isRefused())
    imageNorm(node, groups, scale, bias);
}

/// Normalises over all dimensions from an axis on, with scales of their shape.
void layerNorm(NodeContext &node) {
  Value x = node.tensor(0), scale = node.tensor(1), bias = node.has(2) ? node.tensor(2) : Value();
  double epsilon = node.number("epsilon", 1e-5f);
  DataType type = node.typeOf(0);
  Shape shape = node.graph.shapeOf(node.at, x);
  int64_t axis = node.axis(node.integer("axis", -1), shape.size());
  if (!node.isComputed(0))
    return;
  if (!node.isBroadcastTo(scale, shape, "Scale") || (bias && !node.isBroadcastTo(bias, shape, "B")))
    return;
  auto rank = int64_t(shape.size());
  llvm::ArrayRef<Size> sizes = shape;
  bool isPlain = !node.isWanted(1) && !node.isWanted(2);
  bool isVector = !bias || bias.getType() == scale.getType();
  for (auto [one, other] : llvm::zip(llvm::reverse(node.graph.shapeOf(node.at, scale)), llvm::reverse(shape)))
    isVector &= node.graph.areEqual(one, other);
  isVector &= tensorType(scale).getRank() == rank - axis;
  if (isPlain && isVector) {
    Shape rows(shape.begin(), shape.begin() + axis);
    Size features = node.product(sizes.drop_front(axis));
    rows.push_back(features);
    auto flat = [&](Value vector) { return vector ? node.reshaped(vector, {features}) : vector; };
    Value result = node.ir().layerNorm(node.at, node.reshaped(x, rows), flat(scale), flat(bias), epsilon);
    node.graph.setShape(result, rows);
    return node.result(node.reshaped(result, shape));
  }
  DataType wide = DataType::Float;
  llvm::SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(axis, rank));
  auto [mean, moved, variance] = statisticsOf(node, node.cast(x, type, wide), wide, axes);
  Value inverse = unary(node, variance, wide, [&](Scalars &s, Value v) -> Value {
    Value sum = arith::AddFOp::create(s.builder, s.at, v, s.number(epsilon));
    return arith::DivFOp::create(s.builder, s.at, s.number(1), math::SqrtOp::create(s.builder, s.at, sum));
  });
  Value normal = combine(node, {moved, inverse}, wide, [](Scalars &s, Value a, Value b) -> Value {
    return arith::MulFOp::create(s.builder, s.at, a, b);
  });
  Value result = combine(node, {node.cast(normal, wide, type), scale}, type, [](Scalars &s, Value a, Value b) -> Value {
    return arith::MulFOp::create(s.builder, s.at, a, b);
  });
  if (bias)
    result = combine(node, {result, bias}, type, [](Scalars &s, Value a, Value b) -> Value {
      return arith::AddFOp::create(s.builder, s.at, a, b);
    });
  node.result(result);
  node.result(1, mean, wide);
  node.result(2, inverse, wide);
}

void rmsNorm(NodeContext &node) {
  Value x = node.tensor(0), scale = node.tensor(1);
  double epsilon = node.number("epsilon", 1e-5f);
  DataType type = node.typeOf(0);
  Shape shape = node.graph.shapeOf(node.at, x);
  auto rank = int64_t(shape.size());
  int64_t axis = node.axis(node.integer("axis", -1), rank);
  if (!node.isComputed(0))
    return;
  if (!node.isBroadcastTo(scale, shape, "scale"))
    return;
  Shape own = node.graph.shapeOf(node.at, scale);
  bool isVector = int64_t(own.size()) == rank - axis;
  for (auto [one, other] : llvm::zip(llvm::reverse(own), llvm::reverse(shape)))
    isVector &= node.graph.areEqual(one, other);
  if (isVector) {
    Shape rows(shape.begin(), shape.begin() + axis);
    Size features = node.product(llvm::ArrayRef(shape).drop_front(axis));
    rows.push_back(features);
    Value result = node.ir().rmsNorm(node.at, node.reshaped(x, rows), node.reshaped(scale, {features}), epsilon);
    node.graph.setShape(result, rows);
    return node.result(node.reshaped(result, shape));
  }
  DataType wide = DataType::Float;
  Value input = node.cast(x, type, wide);
  Value square = unary(node, input, wide,
                       [](Scalars &s, Value v) -> Value { return arith::MulFOp::create(s.builder, s.at, v, v); });
  Value mean = reduced(node, square, wide, Reduction::Mean, llvm::to_vector(llvm::seq<int64_t>(axis, rank)), true);
  Value normal = combine(node, {input, mean}, wide, [&](Scalars &s, Value a, Value b) -> Value {
    Value sum = arith::AddFOp::create(s.builder, s.at, b, s.number(epsilon));
    return arith::DivFOp::create(s.builder, s.at, a, math::SqrtOp::create(s.builder, s.at, sum));
  });
  node.result(combine(node, {node.cast(normal, wide, type), scale}, type, [](Scalars &s, Value a, Value b) -> Value {
    return arith::MulFOp::create(s.builder, s.at, a, b);
  }));
}

/// x / (bias + alpha / size * (sum of squares of neighbouring channels)) ^ beta
void localResponseNorm(NodeContext &node) {
  Value images = node.tensor(0);
  double alpha = node.number("alpha", 0.0001f), beta = node.number("beta", 0.75), bias = node.number("bias", 1);
  int64_t size = node.integer("size", 0);
  Shape shape = node.graph.shapeOf(node.at, images);
  // If the compiler knows the number of channels, a window ends at the last one. Otherwise loops visit the whole
  // window.
  bool isOfCall = shape.size() > 1 && shape[1].isDynamic();
  int64_t most = isOfCall ? 1 << 12 : std::numeric_limits<int32_t>::max();
  if (size < 1 || size > most)
    node.refuse("attribute 'size' is " + llvm::Twine(size) + ", must be 1 to " + llvm::Twine(most) +
                (isOfCall ? " for channels of which the call decides the number" : ""));
  if (shape.size() < 3)
    node.refuse("images have " + llvm::Twine(shape.size()) + " dimensions, must have at least 3");
  if (!node.isComputed(0))
    return;
  Value result = node.ir().responseNorm(node.at, images, /*axis=*/1, size, alpha, beta, bias);
  node.graph.setShape(result, shape);
  node.result(result);
}

/// x / norm along an axis; of a norm of 0, 0.
void lpNorm(NodeContext &node) {
  Value x = node.tensor(0);
  DataType type = node.typeOf(0);
  int64_t axis = node.axis(node.integer("axis", -1), tensorType(x).getRank()), p = node.integer("p", 2);
  if (p != 1 && p != 2)
    node.refuse("attribute 'p' is " + llvm::Twine(p) + ", must be 1 or 2");
  if (!node.isOf(0, isFloat, "floats"))
    return;
  Value norm = reduced(node, x, type, p == 1 ? Reduction::L1 : Reduction::L2, {axis}, true);
  node.result(combine(node, {x, norm}, type, [](Scalars &s, Value v, Value n) -> Value {
    Value zero = s.number(0);
    Value isZero = arith::CmpFOp::create(s.builder, s.at, arith::CmpFPredicate::OEQ, n, zero);
    return arith::SelectOp::create(s.builder, s.at, isZero, zero, arith::DivFOp::create(s.builder, s.at, v, n));
  }));
}

/// (x - mean) / (deviation + 1e-9)
void meanVarianceNorm(NodeContext &node) {
  Value x = node.tensor(0);
  DataType type = node.typeOf(0);
  int64_t rank = tensorType(x).getRank();
  llvm::SmallVector<int64_t> axes = node.integers("axes").value_or(llvm::SmallVector<int64_t>{0, 2, 3});
  axes = node.axes(axes, rank);
  if (!node.isOf(0, isFloat, "floats"))
    return;
  Statistics statistics = statisticsOf(node, x, type, axes);
  node.result(combine(node, {statistics.moved, statistics.variance}, type, [](Scalars &s, Value a, Value b) -> Value {
    Value deviation = math::SqrtOp::create(s.builder, s.at, b);
    Value divisor = arith::AddFOp::create(s.builder, s.at, deviation, s.number(1e-9));
    return arith::DivFOp::create(s.builder, s.at, a, divisor);
  }));
}

} // namespace

llvm::ArrayRef<OpRow> normOps() {
  static const OpRow rows[] = {
      {"", "BatchNormalization", 1, batchNorm, Takes::Numbers, /*inSingle=*/true},
      {"", "InstanceNormalization", 6, instanceNorm, Takes::Numbers, /*inSingle=*/true},
      {"", "GroupNormalization", 18, groupNorm, Takes::Numbers, /*inSingle=*/true},
      {"", "LayerNormalization", 17, layerNorm, Takes::Numbers, /*inSingle=*/true},
      {"", "RMSNormalization", 23, rmsNorm, Takes::Numbers, /*inSingle=*/true},
      {"", "LRN", 1, localResponseNorm, Takes::Numbers, /*inSingle=*/true},
      {"", "LpNormalization", 1, lpNorm},
      {"", "MeanVarianceNormalization", 9, meanVarianceNorm},
  };
  return rows;
}

} // namespace intarsia::onnx
