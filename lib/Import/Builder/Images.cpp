//===- Images.cpp - Ops of images, channels last -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/ModuleBuilder.h"
#include "lib/Support/Status.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

using namespace mlir;

namespace intarsia::importer {

static int64_t rankOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getRank(); }

static Type elementTypeOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getElementType(); }

using Dimensions = llvm::SmallVector<unsigned, 4>;

static Dimensions allOf(const Shape &shape) { return llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size())); }

/// Rounds a value inside the body of an elementwise op, unless it has the type.
static Value rounded(OpBuilder &builder, Location at, Value value, Type type) {
  return value.getType() == type ? value : Value(arith::TruncFOp::create(builder, at, type, value));
}

//===-- Order of dimensions -----------------------------------------------------------------------------------===//

static Value moveDimension(ModuleBuilder &graph, Location at, Value images, int64_t from, int64_t to) {
  llvm::SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(images)));
  permutation.erase(permutation.begin() + from);
  permutation.insert(permutation.begin() + to, from);
  Shape shape;
  for (int64_t dimension : permutation)
    shape.push_back(graph.sizeOf(at, images, dimension));
  return graph.transpose(at, images, shape, permutation);
}

Value ModuleBuilder::channelsLast(Location at, Value images) {
  return moveDimension(*this, at, images, 1, rankOf(images) - 1);
}

Value ModuleBuilder::channelsFirst(Location at, Value images) {
  return moveDimension(*this, at, images, rankOf(images) - 1, 1);
}

Value ModuleBuilder::convWeight(Location at, Value weight, bool isTransposed) {
  if (isTransposed)
    weight = moveDimension(*this, at, weight, 0, 1);
  llvm::ArrayRef<int64_t> shape = cast<RankedTensorType>(weight.getType()).getShape();
  int64_t outputs = shape[0], columns = 1;
  for (int64_t size : shape.drop_front())
    columns *= size;
  // Channels and positions change places only if there are several of both.
  if (shape[1] != 1 && columns != shape[1])
    weight = moveDimension(*this, at, weight, 1, shape.size() - 1);
  return reshape(at, weight, {outputs, columns});
}

//===-- Windows -----------------------------------------------------------------------------------------------===//

/// Reports an image that is smaller than a window, and returns false.
static bool checkWindows(ModuleBuilder &graph, Location at, Value images, const Windows &windows) {
  llvm::ArrayRef<int64_t> shape = cast<RankedTensorType>(images.getType()).getShape();
  for (auto [dimension, window] : llvm::enumerate(windows.window)) {
    int64_t size = shape[dimension + 1], dilation = windows.dilations.empty() ? 1 : windows.dilations[dimension];
    int64_t low = windows.padsLow.empty() ? 0 : windows.padsLow[dimension];
    int64_t high = windows.padsHigh.empty() ? 0 : windows.padsHigh[dimension];
    int64_t extent = (window - 1) * dilation + 1;
    if (ShapedType::isDynamic(size) || size + low + high >= extent)
      continue;
    auto name = at->findInstanceOf<NameLoc>();
    graph.sink().report((name ? "'" + name.getName().getValue() + "': " : llvm::Twine()) + "an image of size " +
                        llvm::Twine(size) + " in spatial dimension " + llvm::Twine(dimension) + ", with pads of " +
                        llvm::Twine(low) + " and " + llvm::Twine(high) +
                        ", is smaller than a window, which reaches over " + llvm::Twine(extent) +
                        "; larger images are needed");
    return false;
  }
  return true;
}

/// Returns the entries of an attribute; null if they are what its absence means.
static DenseI64ArrayAttr entries(OpBuilder &builder, llvm::ArrayRef<int64_t> values, int64_t byDefault) {
  bool areDefault = llvm::all_of(values, [&](int64_t value) { return value == byDefault; });
  return areDefault ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(values);
}

Value ModuleBuilder::conv(Location at, Value images, Value weight, Value bias, const Windows &windows) {
  if (!windows.isTransposed && !checkWindows(*this, at, images, windows)) {
    Shape shape = shapeOf(at, images);
    shape.back() = sizeOf(at, weight, 0);
    return empty(at, shape, elementTypeOf(images));
  }
  return nn::ConvOp::create(builder, at, images, weight, bias, builder.getDenseI64ArrayAttr(windows.window),
                            entries(builder, windows.strides, 1), entries(builder, windows.dilations, 1),
                            entries(builder, windows.padsLow, 0), entries(builder, windows.padsHigh, 0),
                            builder.getI64IntegerAttr(windows.groups),
                            windows.isTransposed ? builder.getUnitAttr() : UnitAttr(),
                            /*output_pads=*/DenseI64ArrayAttr(), /*precision=*/TypeAttr());
}

Value ModuleBuilder::pool(Location at, Value images, nn::PoolKind kind, const Windows &windows) {
  if (!checkWindows(*this, at, images, windows))
    return images;
  return nn::PoolOp::create(builder, at, images, nn::PoolKindAttr::get(builder.getContext(), kind),
                            builder.getDenseI64ArrayAttr(windows.window), entries(builder, windows.strides, 1),
                            entries(builder, windows.dilations, 1), entries(builder, windows.padsLow, 0),
                            entries(builder, windows.padsHigh, 0),
                            /*beyond_high=*/DenseI64ArrayAttr(), /*count_include_pad=*/UnitAttr(),
                            builder.getI64IntegerAttr(2), /*with_indices=*/UnitAttr())
      .getResult();
}

//===-- Sizes -------------------------------------------------------------------------------------------------===//

namespace {
/// Two neighbouring positions of an image, and how much of the second one counts.
struct Between {
  Value first, second, share;
};

/// What a body needs to know of a dimension that is resized.
struct Resized {
  Value last;         ///< index of the last position before
  Value factor;       ///< f32, what a step behind is before
  bool alignsCorners; ///< true if the first position is the first, otherwise half a step counts
};
} // namespace

static Resized resized(ModuleBuilder &graph, Location at, const Size &before, const Size &after, bool alignsCorners) {
  OpBuilder &builder = graph.getBuilder();
  auto index = [&](const Size &size) { return getValueOrCreateConstantIndexOp(builder, at, graph.size(size)); };
  auto number = [&](Value value) -> Value {
    Value integer = arith::IndexCastOp::create(builder, at, builder.getI64Type(), value);
    return arith::SIToFPOp::create(builder, at, builder.getF32Type(), integer);
  };
  Value one = arith::ConstantIndexOp::create(builder, at, 1), size = index(before), result = index(after);
  Value last = arith::SubIOp::create(builder, at, size, one);
  if (alignsCorners) {
    size = last;
    result = arith::MaxSIOp::create(builder, at, arith::SubIOp::create(builder, at, result, one), one);
  }
  return {last, arith::DivFOp::create(builder, at, number(size), number(result)), alignsCorners};
}

/// Finds the two positions that a new one lies between: (position + 0.5) * factor - 0.5, not before the first, or
/// position * factor.
static Between between(OpBuilder &inner, Location loc, int64_t dimension, const Resized &size) {
  Type f32 = inner.getF32Type(), i64 = inner.getI64Type(), index = inner.getIndexType();
  Value position = arith::IndexCastOp::create(inner, loc, i64, linalg::IndexOp::create(inner, loc, dimension));
  Value at = arith::SIToFPOp::create(inner, loc, f32, position), half = floatConstant(inner, loc, f32, 0.5);
  if (!size.alignsCorners)
    at = arith::AddFOp::create(inner, loc, at, half);
  at = arith::MulFOp::create(inner, loc, at, size.factor);
  if (!size.alignsCorners)
    at = arith::SubFOp::create(inner, loc, at, half);
  at = arith::MaximumFOp::create(inner, loc, at, floatConstant(inner, loc, f32, 0));
  Value floor = arith::FPToSIOp::create(inner, loc, i64, at);
  Value share = arith::SubFOp::create(inner, loc, at, arith::SIToFPOp::create(inner, loc, f32, floor));
  Value zero = arith::ConstantIndexOp::create(inner, loc, 0), one = arith::ConstantIndexOp::create(inner, loc, 1);
  auto inside = [&](Value value) -> Value {
    return arith::MinSIOp::create(inner, loc, arith::MaxSIOp::create(inner, loc, value, zero), size.last);
  };
  Value first = arith::IndexCastOp::create(inner, loc, index, floor);
  return {inside(first), inside(arith::AddIOp::create(inner, loc, first, one)), share};
}

Value ModuleBuilder::resizeBilinear(Location at, Value images, const Size &height, const Size &width,
                                    bool alignsCorners) {
  Type element = elementTypeOf(images);
  Shape before = shapeOf(at, images), after{before[0], height, width, before[3]};
  Resized rows = resized(*this, at, before[1], height, alignsCorners);
  Resized columns = resized(*this, at, before[2], width, alignsCorners);
  auto body = [&](OpBuilder &inner, Location loc, ValueRange) -> Value {
    Value image = linalg::IndexOp::create(inner, loc, 0), channel = linalg::IndexOp::create(inner, loc, 3);
    Between row = between(inner, loc, 1, rows), column = between(inner, loc, 2, columns);
    auto mix = [&](Value first, Value second, Value share) -> Value {
      Value step = arith::MulFOp::create(inner, loc, arith::SubFOp::create(inner, loc, second, first), share);
      return arith::AddFOp::create(inner, loc, first, step);
    };
    auto pixel = [&](Value y, Value x) {
      Value value = tensor::ExtractOp::create(inner, loc, images, ValueRange{image, y, x, channel});
      return widened(inner, loc, value, inner.getF32Type());
    };
    auto inRow = [&](Value y) { return mix(pixel(y, column.first), pixel(y, column.second), column.share); };
    return rounded(inner, loc, mix(inRow(row.first), inRow(row.second), row.share), element);
  };
  return elementwise(at, element, after, {}, body);
}

//===-- Channels ----------------------------------------------------------------------------------------------===//

Value ModuleBuilder::batchNorm(Location at, Value images, const BatchNorm &norm) {
  Type sum = builder.getF32Type(), element = elementTypeOf(images);
  Shape channels{sizeOf(at, norm.scale, 0)};
  auto factorOf = [&](OpBuilder &inner, Location loc, ValueRange values) -> Value {
    Value scale = widened(inner, loc, values[0], sum), variance = widened(inner, loc, values[1], sum);
    Value shifted = arith::AddFOp::create(inner, loc, variance, floatConstant(inner, loc, sum, norm.epsilon));
    return arith::DivFOp::create(inner, loc, scale, math::SqrtOp::create(inner, loc, shifted));
  };
  Value factor = elementwise(at, sum, channels, {{norm.scale, {0}}, {norm.variance, {0}}}, factorOf);
  auto offsetOf = [&](OpBuilder &inner, Location loc, ValueRange values) -> Value {
    Value moved = arith::MulFOp::create(inner, loc, widened(inner, loc, values[1], sum), values[2]);
    return arith::SubFOp::create(inner, loc, widened(inner, loc, values[0], sum), moved);
  };
  Value offset = elementwise(at, sum, channels, {{norm.bias, {0}}, {norm.mean, {0}}, {factor, {0}}}, offsetOf);
  Shape shape = shapeOf(at, images);
  Dimensions all = allOf(shape), last{all.back()};
  auto normalised = [&](OpBuilder &inner, Location loc, ValueRange values) -> Value {
    Value scaled = arith::MulFOp::create(inner, loc, widened(inner, loc, values[0], sum), values[1]);
    return rounded(inner, loc, arith::AddFOp::create(inner, loc, scaled, values[2]), element);
  };
  return elementwise(at, element, shape, {{images, all}, {factor, last}, {offset, last}}, normalised);
}

Value ModuleBuilder::spatialMean(Location at, Value images) {
  Type sum = builder.getF32Type(), element = elementTypeOf(images);
  Shape shape = shapeOf(at, images);
  Dimensions all = allOf(shape), kept{0, all.back()};
  auto add = [&](OpBuilder &inner, Location loc, ValueRange values) -> Value {
    return arith::AddFOp::create(inner, loc, widened(inner, loc, values[0], sum), values[1]);
  };
  Value total = reduce(at, builder.getF32FloatAttr(0), shape, kept, {{images, all}}, add);
  Size positions = 1;
  for (const Size &size : llvm::ArrayRef(shape).drop_front().drop_back())
    positions = compute(at, SizeOp::Multiply, positions, size);
  Value count;
  if (positions.isDynamic()) {
    Value index = arith::IndexCastOp::create(builder, at, builder.getI64Type(), positions.index);
    count = arith::SIToFPOp::create(builder, at, sum, index);
  } else {
    count = floatConstant(builder, at, sum, positions.value);
  }
  auto divide = [&](OpBuilder &inner, Location loc, ValueRange values) -> Value {
    return rounded(inner, loc, arith::DivFOp::create(inner, loc, values[0], count), element);
  };
  return elementwise(at, element, {shape.front(), shape.back()}, {{total, {0, 1}}}, divide);
}

Value ModuleBuilder::spatialMaximum(Location at, Value images) {
  Shape shape = shapeOf(at, images);
  Dimensions all = allOf(shape), kept{0, all.back()};
  auto larger = [&](OpBuilder &inner, Location loc, ValueRange values) -> Value {
    return arith::MaximumFOp::create(inner, loc, values[0], values[1]);
  };
  auto least = builder.getFloatAttr(elementTypeOf(images), -std::numeric_limits<double>::infinity());
  return reduce(at, least, shape, kept, {{images, all}}, larger);
}

Value ModuleBuilder::scaleChannels(Location at, Value images, Value factors) {
  Type element = elementTypeOf(images);
  Shape shape = shapeOf(at, images);
  Dimensions all = allOf(shape), channels{all.back()};
  if (rankOf(factors) == 2)
    channels.insert(channels.begin(), 0);
  auto scaled = [&](OpBuilder &inner, Location loc, ValueRange values) -> Value {
    return arith::MulFOp::create(inner, loc, values[0], widened(inner, loc, values[1], element));
  };
  return elementwise(at, element, shape, {{images, all}, {factors, channels}}, scaled);
}

} // namespace intarsia::importer
