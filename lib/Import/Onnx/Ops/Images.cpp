//===- Images.cpp - Tensors at another size, and at other coordinates ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// How positions of the result lie in the input, along one axis of which sizes are numbers.
struct Coordinates {
  float scale, shift = 0, offset = 0;
};

/// https://onnx.ai/onnx/operators/onnx__Resize.html, coordinate_transformation_mode.
std::optional<Coordinates> coordinates(NodeContext &node, llvm::StringRef mode, int64_t size, int64_t result,
                                       double scale, double begin, double end) {
  auto step = float(1 / scale);
  if (mode == "asymmetric")
    return Coordinates{step};
  if (mode == "half_pixel")
    return Coordinates{step, 0.5f, -0.5f};
  if (mode == "pytorch_half_pixel")
    return result > 1 ? Coordinates{step, 0.5f, -0.5f} : Coordinates{step, 0, 0};
  if (mode == "half_pixel_symmetric") {
    double adjustment = result / (scale * size), center = size / 2.0;
    return Coordinates{step, 0.5f, float(center * (1 - adjustment) - 0.5)};
  }
  if (mode == "align_corners") // of the size before it is rounded down
    return Coordinates{result > 1 ? float((size - 1) / (scale * size - 1)) : 1.0f};
  if (mode == "tf_crop_and_resize") {
    if (result > 1)
      return Coordinates{float((end - begin) * (size - 1) / (result - 1)), 0, float(begin * (size - 1))};
    return Coordinates{1, 0, float(0.5 * (begin + end) * (size - 1))};
  }
  node.refuse("attribute 'coordinate_transformation_mode' is '" + mode + "'");
  return std::nullopt;
}

/// Moves coordinates so little that each position reads the element that ONNX says: a coordinate in the middle between
/// two elements, or on one, may be rounded to one beside it. What the op computes of a step, a shift and an offset is
/// compared at each position.
void settleNearest(Coordinates &line, nn::NearestRounding rounding, llvm::StringRef mode, double scale,
                   int64_t result) {
  constexpr int64_t mostPositions = 1 << 16;
  bool isHalf = mode == "half_pixel" || (mode == "pytorch_half_pixel" && result > 1);
  if ((!isHalf && mode != "asymmetric") || result > mostPositions)
    return;
  auto round = [&](auto x) {
    decltype(x) half = 0.5;
    return int64_t(rounding == nn::NearestRounding::Floor      ? std::floor(x)
                   : rounding == nn::NearestRounding::Ceil     ? std::ceil(x)
                   : rounding == nn::NearestRounding::HalfDown ? std::ceil(x - half)
                                                               : std::floor(x + half));
  };
  bool isDown = rounding == nn::NearestRounding::Ceil || rounding == nn::NearestRounding::HalfDown;
  float offset = line.offset;
  for (float distance : {0.0f, 0x1p-22f, 0x1p-20f, 0x1p-18f, 0x1p-16f, 0x1p-14f}) {
    line.offset = isDown ? offset - distance : offset + distance;
    bool areRight = true;
    for (int64_t position = 0; position < result && areRight; ++position) {
      double wanted = isHalf ? (double(position) + 0.5) / scale - 0.5 : double(position) / scale;
      auto x = float((double(position) + line.shift) * line.scale + line.offset);
      areRight = round(wanted) == round(x);
    }
    if (areRight)
      return;
  }
  line.offset = offset;
}

/// What a node says of the size of its result.
struct Resizing {
  llvm::SmallVector<int64_t> axes;
  std::vector<double> scales; ///< of each axis; empty if there are sizes
  std::optional<Shape> sizes; ///< of each axis, or none
  bool isStretched = false;   ///< sizes are those of the result, whatever scales follow from them
};

/// Reads the inputs X, scales; since version 11 X, roi, scales, sizes. Upsample had an attribute at first.
std::optional<Resizing> resizingOf(NodeContext &node, const Shape &shape) {
  auto rank = int64_t(shape.size());
  bool isUpsample = node.node.op == "Upsample", isOld = isUpsample || node.version < 11;
  size_t scalesAt = isOld ? 1 : 2;
  Resizing resizing;
  if (isUpsample && node.version < 9) {
    if (const Attribute *given = node.attribute("scales"))
      resizing.scales.assign(given->numbers.begin(), given->numbers.end());
  } else if (node.has(scalesAt)) {
    const Elements *given = node.elements(scalesAt, "scales");
    for (const Element &each : given ? llvm::ArrayRef(given->values) : llvm::ArrayRef<Element>())
      resizing.scales.push_back(each.isSize() ? 0 : each.number());
  }
  if (!isOld && node.has(3))
    resizing.sizes = sizesOf(node, 3, "sizes");
  resizing.axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (auto given = node.integers("axes")) {
    resizing.axes = node.axes(*given, rank);
  }
  // Files before version 13 have an empty tensor for what is left out.
  if (resizing.sizes && resizing.sizes->empty() && !resizing.scales.empty())
    resizing.sizes.reset();
  if (resizing.sizes && !resizing.scales.empty())
    node.refuse("has both 'scales' and 'sizes'");
  if (!node.isRefused() && (resizing.sizes ? resizing.sizes->size() : resizing.scales.size()) != resizing.axes.size())
    node.refuse("'scales' and 'sizes' have no entry for each axis");
  llvm::StringRef policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    node.refuse("attribute 'keep_aspect_ratio_policy' is '" + policy + "'");
  if (node.isRefused())
    return std::nullopt;
  resizing.isStretched = resizing.sizes && policy == "stretch";
  if (!resizing.sizes || resizing.isStretched)
    return resizing;
  std::optional<double> common;
  for (auto [axis, size] : llvm::zip_equal(resizing.axes, *resizing.sizes)) {
    if (shape[axis].isDynamic() || size.isDynamic()) {
      node.refuse("attribute 'keep_aspect_ratio_policy' needs to know the size of dimension " + llvm::Twine(axis));
      return std::nullopt;
    }
    double scale = double(size.value) / shape[axis].value;
    common = !common ? scale : policy == "not_larger" ? std::min(*common, scale) : std::max(*common, scale);
  }
  for (auto [axis, size] : llvm::zip_equal(resizing.axes, *resizing.sizes))
    size = integerOf(std::floor(*common * shape[axis].value + 0.5));
  resizing.scales.assign(resizing.axes.size(), common.value_or(1));
  return resizing;
}

/// Returns the size of a result of a size of the call, rounded down; nullopt if the scale is too small or too large.
std::optional<Size> scaled(NodeContext &node, const Size &size, double scale) {
  for (int64_t divisor = 1; divisor <= 64; ++divisor) {
    double factor = scale * divisor;
    if (factor < 1 || factor > 4096 || factor != std::floor(factor))
      continue;
    Size whole = node.compute(importer::SizeOp::Multiply, size, int64_t(factor));
    return divisor == 1 ? whole : node.compute(importer::SizeOp::Divide, whole, divisor);
  }
  // A float is a quotient by a power of two. Numbers of at most 32 bits, so that products have 64.
  for (int64_t divisor = 128; divisor <= int64_t(1) << 31; divisor *= 2) {
    double factor = scale * double(divisor);
    if (factor >= 1 && factor < 2147483648.0 && factor == std::floor(factor))
      return node.compute(importer::SizeOp::Divide, node.compute(importer::SizeOp::Multiply, size, int64_t(factor)),
                          divisor);
  }
  return std::nullopt;
}

/// Holds a call to a result of more than one position: where there is one, it is another one.
void holdToSeveral(NodeContext &node, int64_t axis, const Size &result) {
  OpBuilder &ops = node.ops();
  if (!result.isDynamic())
    return;
  Value one = arith::ConstantIndexOp::create(ops, node.at, 1), size = cast<Value>(node.ir().size(result));
  Value isMet = arith::CmpIOp::create(ops, node.at, arith::CmpIPredicate::sgt, size, one);
  cf::AssertOp::create(ops, node.at, isMet, ("dimension " + llvm::Twine(axis) + " is resized to more than 1").str());
}

/// Where the positions of an axis lie in the input: from `begin` to `end`, of which 1 is the last element.
struct Crop {
  int64_t axis, size, result;
  double begin, end;
};

/// Returns a resized tensor with a number where a position of an axis is outside of the input. It is not found by the
/// step that the op multiplies, which is rounded, so that the last position may be one behind the last element.
Value withOutside(NodeContext &node, Value resized, DataType type, llvm::ArrayRef<Crop> crops, double number) {
  Shape shape = node.graph.shapeOf(node.at, resized);
  auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
  Value result = node.ir().elementwise(
      node.at, node.irType(type), shape, {{resized, all}}, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        auto constant = [&](Type type, double value) { return importer::floatConstant(b, at, type, value); };
        Type f64 = b.getF64Type(), f32 = b.getF32Type();
        Value isOutside = arith::ConstantOp::create(b, at, b.getBoolAttr(false));
        for (const Crop &crop : crops) {
          double last = double(crop.size - 1), first = crop.begin * last, reach = (crop.end - crop.begin) * last;
          Value x = constant(f64, first + reach / 2);
          if (crop.result > 1) {
            Value position =
                arith::IndexCastOp::create(b, at, b.getI64Type(), linalg::IndexOp::create(b, at, crop.axis));
            x = arith::MulFOp::create(b, at, arith::SIToFPOp::create(b, at, f64, position), constant(f64, reach));
            x = arith::DivFOp::create(b, at, x, constant(f64, double(crop.result - 1)));
            x = arith::AddFOp::create(b, at, x, constant(f64, first));
          }
          x = arith::TruncFOp::create(b, at, f32, x);
          for (auto [predicate, bound] :
               {std::pair(arith::CmpFPredicate::OLT, 0.0), {arith::CmpFPredicate::OGT, last}}) {
            Value isBeyond = arith::CmpFOp::create(b, at, predicate, x, constant(f32, bound));
            isOutside = arith::OrIOp::create(b, at, isOutside, isBeyond);
          }
        }
        return arith::SelectOp::create(b, at, isOutside,
                                       arith::ConstantOp::create(b, at, node.numberAttribute(type, number)), v[0]);
      });
  node.graph.setShape(result, shape);
  return result;
}

void resize(NodeContext &node) {
  Value data = node.tensor(0);
  DataType type = node.typeOf(0);
  Shape shape = node.graph.shapeOf(node.at, data);
  std::optional<Resizing> resizing = resizingOf(node, shape);
  if (!resizing)
    return;
  const llvm::SmallVector<int64_t> &axes = resizing->axes;
  bool isOld = node.node.op == "Upsample" || node.version < 11;
  llvm::StringRef kind = node.text("mode", "nearest");
  llvm::StringRef mode = isOld ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel");
  llvm::StringRef rounding = isOld ? "floor" : node.text("nearest_mode", "round_prefer_floor");
  auto interpolation = llvm::StringSwitch<std::optional<nn::Interpolation>>(kind)
                           .Case("nearest", nn::Interpolation::Nearest)
                           .Cases({"linear", "bilinear"}, nn::Interpolation::Linear)
                           .Case("cubic", nn::Interpolation::Cubic)
                           .Default(std::nullopt);
  auto nearest = llvm::StringSwitch<std::optional<nn::NearestRounding>>(rounding)
                     .Case("floor", nn::NearestRounding::Floor)
                     .Case("ceil", nn::NearestRounding::Ceil)
                     .Case("round_prefer_floor", nn::NearestRounding::HalfDown)
                     .Case("round_prefer_ceil", nn::NearestRounding::HalfUp)
                     .Default(std::nullopt);
  if (!interpolation || !nearest)
    return node.refuse("attributes 'mode' or 'nearest_mode' are unknown");
  std::vector<double> region;
  if (mode == "tf_crop_and_resize") {
    const Elements *given = node.has(1) ? node.elements(1, "roi") : nullptr;
    for (const Element &each : given ? llvm::ArrayRef(given->values) : llvm::ArrayRef<Element>())
      region.push_back(each.number());
    if (region.size() != 2 * axes.size())
      return node.refuse("'roi' has no begin and end for each axis");
  }
  // Where a scale is the quotient of both sizes, the op divides them, which rounds less.
  bool areRatios = mode != "tf_crop_and_resize" && mode != "half_pixel_symmetric", isStepKnown = true;
  llvm::SmallVector<int64_t> changed;
  llvm::SmallVector<Crop> crops;
  llvm::SmallVector<float> steps, shifts, offsets;
  Shape results;
  for (auto [number, axis] : llvm::enumerate(axes)) {
    const Size &size = shape[axis];
    double scale = resizing->scales.empty() ? 0 : resizing->scales[number];
    bool isSame = resizing->isStretched ? node.graph.areEqual((*resizing->sizes)[number], size) : scale == 1;
    if (isSame && region.empty())
      continue;
    bool isDynamic = size.isDynamic() || (resizing->sizes && (*resizing->sizes)[number].isDynamic());
    if (!isDynamic && resizing->isStretched)
      scale = double((*resizing->sizes)[number].value) / size.value;
    if (!(isDynamic && resizing->isStretched) && (!(scale > 0) || !std::isfinite(scale)))
      return node.refuse("a scale is " + llvm::Twine(std::to_string(scale)));
    std::optional<Size> result = resizing->sizes ? (*resizing->sizes)[number]
                                 : isDynamic     ? scaled(node, size, scale)
                                                 : Size(integerOf(std::floor(size.value * scale)));
    if (!result || (isDynamic && mode == "tf_crop_and_resize"))
      return node.refuse("resizes dimension " + llvm::Twine(axis) + ", whose size depends on the call, by a scale of " +
                         llvm::Twine(std::to_string(scale)) + " and coordinate_transformation_mode '" + mode + "'");
    if (!result->isDynamic() && result->value < 0)
      return node.refuse("a scale is " + llvm::Twine(std::to_string(scale)));
    // A scale that is a whole number is the quotient of any sizes.
    bool isWhole = scale > 0 && scale == std::floor(scale);
    bool isRatio = resizing->isStretched || (isDynamic ? isWhole : size.value * scale == double(result->value)) ||
                   (mode == "align_corners" && !isDynamic && result->value == 1);
    areRatios &= isRatio;
    isStepKnown &= !isDynamic || (scale > 0 && (mode != "align_corners" && mode != "tf_crop_and_resize" &&
                                                (mode != "half_pixel_symmetric" || isWhole)));
    auto line =
        coordinates(node, mode, isDynamic ? 1 : size.value,
                    result->isDynamic() ? std::max<int64_t>(2, integerOf(scale)) : result->value, scale > 0 ? scale : 1,
                    region.empty() ? 0 : region[number], region.empty() ? 1 : region[axes.size() + number]);
    if (!line)
      return;
    if (!region.empty())
      crops.push_back({axis, size.value, result->value, region[number], region[axes.size() + number]});
    if (!isDynamic && *interpolation == nn::Interpolation::Nearest)
      settleNearest(*line, *nearest, mode, scale, result->value);
    if (result->isDynamic() && mode == "pytorch_half_pixel" && !(scale >= 2))
      holdToSeveral(node, axis, *result);
    changed.push_back(axis);
    results.push_back(*result);
    steps.push_back(line->scale);
    shifts.push_back(line->shift);
    offsets.push_back(line->offset);
    shape[axis] = *result;
  }
  if (changed.empty())
    return node.result(data);
  if (!node.isCounted(shape))
    return;
  bool isNearest = *interpolation == nn::Interpolation::Nearest;
  bool isComputed = isComputedByNn(type) || (isNearest && type != DataType::Double);
  DataType computed = isComputed ? type : DataType::Float;
  if (!isNearest && !isFloat(type) && bitsOf(type) > 16)
    return node.refuse("elements are of type " + nameOf(type));
  if (!areRatios && !isStepKnown)
    return node.refuse("resizes dimensions whose sizes depend on the call, by scales that are no whole numbers, with "
                       "coordinate_transformation_mode '" +
                       mode + "'");
  if (!areRatios && llvm::any_of(steps, [](float step) { return !(step > 0); }))
    return node.refuse("all positions of an axis read one element");
  OpBuilder &ops = node.ops();
  bool antialias = node.integer("antialias", 0) != 0 && !isNearest;
  // Weights of an antialiased axis are counted when it is compiled.
  if (antialias && areRatios && !(isStatic(results) && isStatic(node.graph.shapeOf(node.at, data)))) {
    if (!isStepKnown || llvm::is_contained(steps, 0))
      return node.refuse("attribute 'antialias' needs to know the sizes of the dimensions");
    areRatios = false;
  }
  // Elements of f64 that are moved only are integers of as many bits, which the op does not round.
  bool isMoved = isNearest && type == DataType::Double;
  auto asBits = [&](Value tensor, DataType to) {
    return node.broadcast({tensor}, node.irType(to), [&](OpBuilder &b, Location at, ValueRange v) -> Value {
      return arith::BitcastOp::create(b, at, node.irType(to), v[0]);
    });
  };
  computed = isMoved ? DataType::Int64 : computed;
  Value input = isMoved ? asBits(data, computed) : node.cast(data, type, computed), like;
  DenseI64ArrayAttr sizes;
  if (isStatic(results)) {
    llvm::SmallVector<int64_t> numbers;
    for (const Size &size : results)
      numbers.push_back(size.value);
    sizes = ops.getDenseI64ArrayAttr(numbers);
  } else {
    // Sizes of a call are those of a tensor, whose elements are not read.
    like = node.filled(results, ops.getF32FloatAttr(0));
  }
  Value result = nn::ResizeOp::create(
      ops, node.at, node.ir().tensorType(shape, node.irType(computed)), input, like, *interpolation, changed, sizes,
      areRatios ? DenseF32ArrayAttr() : ops.getDenseF32ArrayAttr(steps), ops.getDenseF32ArrayAttr(shifts),
      ops.getDenseF32ArrayAttr(offsets),
      /*corners=*/areRatios && mode == "align_corners", *nearest,
      llvm::APFloat(float(node.number("cubic_coeff_a", -0.75))),
      node.integer("exclude_outside", 0) != 0 && *interpolation == nn::Interpolation::Cubic, antialias,
      /*outside=*/FloatAttr());
  node.graph.setShape(result, shape);
  result = isMoved ? asBits(result, type) : node.cast(result, computed, type);
  if (!crops.empty())
    result = withOutside(node, result, type, crops, node.number("extrapolation_value", 0));
  if (!node.isRefused())
    node.result(result);
}

void gridSample(NodeContext &node) {
  Value images = node.tensor(0), grid = node.tensor(1);
  llvm::StringRef mode = node.text("mode", node.version >= 20 ? "linear" : "bilinear");
  llvm::StringRef padding = node.text("padding_mode", "zeros");
  auto interpolation = llvm::StringSwitch<std::optional<nn::Interpolation>>(mode)
                           .Case("nearest", nn::Interpolation::Nearest)
                           .Cases({"linear", "bilinear"}, nn::Interpolation::Linear)
                           .Cases({"cubic", "bicubic"}, nn::Interpolation::Cubic)
                           .Default(std::nullopt);
  auto outside = nn::symbolizeOutsideKind(padding);
  bool corners = node.integer("align_corners", 0) != 0;
  if (!interpolation || !outside || !isComputedByNn(node.typeOf(0)))
    node.refuse("attributes 'mode' or 'padding_mode' are unknown, or elements are of type " + nameOf(node.typeOf(0)));
  if (node.isRefused())
    return;
  auto type = tensorType(images), coordinates = tensorType(grid);
  if (type.getRank() < 3 || type.getRank() > 5 || coordinates.getRank() != type.getRank() ||
      (!coordinates.isDynamicDim(coordinates.getRank() - 1) && coordinates.getShape().back() != type.getRank() - 2))
    return node.refuse("the grid does not go with images of " + llvm::Twine(type.getRank()) + " dimensions");
  Value last = node.ir().channelsLast(node.at, images);
  Shape shape = node.graph.shapeOf(node.at, grid);
  if (!requireEqual(node, dimensionOf("grid", 0, shape), dimensionOf("X", 0, node.shapeOf(0))))
    return;
  // The reshape ends a call whose grid has another number of coordinates than there are dimensions.
  shape.back() = int64_t(type.getRank() - 2);
  grid = node.reshaped(grid, shape);
  shape.back() = node.shapeOf(0)[1];
  Value sampled = nn::GridSampleOp::create(node.ops(), node.at, node.ir().tensorType(shape, type.getElementType()),
                                           last, grid, *interpolation, *outside, corners);
  node.graph.setShape(sampled, shape);
  node.result(node.ir().channelsFirst(node.at, sampled));
}

} // namespace

llvm::ArrayRef<OpRow> imageOps() {
  static const OpRow rows[] = {
      {"", "Resize", 10, resize},
      {"", "Upsample", 7, resize},
      {"", "GridSample", 16, gridSample, Takes::Numbers, /*inSingle=*/true},
  };
  return rows;
}

} // namespace intarsia::onnx
