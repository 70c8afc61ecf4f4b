//===- Images.cpp - Ops of images, channels last -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/ModuleBuilder.h"
#include "lib/Support/Status.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
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
                            entries(builder, windows.outputPads, 0), /*precision=*/TypeAttr());
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

Value ModuleBuilder::resizeBilinear(Location at, Value images, const Size &height, const Size &width,
                                    bool alignsCorners) {
  auto type = cast<RankedTensorType>(images.getType());
  auto result =
      RankedTensorType::get({type.getDimSize(0), height.value, width.value, type.getDimSize(3)}, type.getElementType());
  // Sizes of a call are those of a tensor, whose elements are not read.
  Value like;
  if (height.isDynamic() || width.isDynamic()) {
    Type f32 = builder.getF32Type();
    Value zero = floatConstant(builder, at, f32, 0);
    like = linalg::FillOp::create(builder, at, zero, empty(at, {height, width}, f32)).getResult(0);
  }
  // Pixels lie at half steps, unless those in the corners stay where they are.
  auto ofPixels = [&](float step) {
    return alignsCorners ? DenseF32ArrayAttr() : builder.getDenseF32ArrayAttr({step, step});
  };
  return nn::ResizeOp::create(
      builder, at, result, images, like, nn::Interpolation::Linear, llvm::ArrayRef<int64_t>{1, 2},
      like ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr({height.value, width.value}),
      /*scales=*/DenseF32ArrayAttr(), ofPixels(0.5f), ofPixels(-0.5f), alignsCorners, nn::NearestRounding::Floor,
      /*coefficient=*/llvm::APFloat(-0.75f), /*exclude_outside=*/false, /*antialias=*/false, /*outside=*/FloatAttr());
}

//===-- Channels ----------------------------------------------------------------------------------------------===//

Value ModuleBuilder::batchNorm(Location at, Value images, const BatchNorm &norm, std::optional<unsigned> axis) {
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
  Dimensions all = allOf(shape), channel{axis.value_or(all.back())};
  auto normalised = [&](OpBuilder &inner, Location loc, ValueRange values) -> Value {
    Value scaled = arith::MulFOp::create(inner, loc, widened(inner, loc, values[0], sum), values[1]);
    return rounded(inner, loc, arith::AddFOp::create(inner, loc, scaled, values[2]), element);
  };
  return elementwise(at, element, shape, {{images, all}, {factor, channel}, {offset, channel}}, normalised);
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
