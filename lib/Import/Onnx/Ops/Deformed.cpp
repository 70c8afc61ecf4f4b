//===- Deformed.cpp - Convolutions whose windows are deformed -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definition: https://onnx.ai/onnx/operators/onnx__DeformConv.html; arXiv 1703.06211 and 1811.11168.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Positions.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {
namespace {

/// Builds a matrix whose rows are the elements that each window reads, interpolated between those of the image, and
/// multiplies it by the weight.
class DeformConv {
public:
  DeformConv(NodeContext &node) : node(node), at(node.at) {}

  void build();

private:
  enum Input { Image, Weight, Offset, Bias, Mask };

  bool check();
  Value sample();
  Value interpolated(OpBuilder &b, Location loc, llvm::ArrayRef<Value> place, Value batch, Value channel);

  NodeContext &node;
  Location at;
  size_t rank = 0; ///< spatial dimensions
  int64_t groups = 1, offsetGroups = 1;
  Size channels = 1, outputs = 1, perGroup = 1,
       perOffsets = 1; ///< channels of a group, and of those that share offsets
  llvm::SmallVector<int64_t> window, strides, dilations, pads;
  Value image, offsets, mask; ///< [batch, channels, sizes…], [batch, groups, window…, rank, positions…]
  Shape ofImage, positions;
  llvm::SmallVector<OpFoldResult> sizes; ///< of the image's spatial dimensions
};

bool DeformConv::check() {
  image = node.tensor(Image);
  Value weight = node.tensor(Weight);
  offsets = node.tensor(Offset);
  mask = node.has(Mask) ? node.tensor(Mask) : Value();
  if (!node.isComputed(Image) || !node.areOneType({0, 1, 2, 3, 4}))
    return false;
  ofImage = node.graph.shapeOf(at, image);
  Shape ofWeight = node.graph.shapeOf(at, weight), ofOffset = node.graph.shapeOf(at, offsets);
  if (ofImage.size() < 3 || ofWeight.size() != ofImage.size() || ofOffset.size() != ofImage.size() ||
      (mask && tensorType(mask).getRank() != int64_t(ofImage.size())))
    return node.refuse("inputs have different numbers of dimensions, or fewer than 3"), false;
  rank = ofImage.size() - 2;
  if (rank > 3)
    return node.refuse("the image has " + llvm::Twine(rank) + " spatial dimensions, of at most 3"), false;
  auto given = node.integers("kernel_shape");
  for (auto [number, size] : llvm::enumerate(llvm::MutableArrayRef(ofWeight).drop_front(2))) {
    // Windows of another size than the node says end a call with an error.
    if (size.isDynamic() && given && given->size() == rank)
      size = (*given)[number];
    if (size.isDynamic())
      return node.refuse("the sizes of its windows depend on the call, and must be known to the compiler"), false;
    window.push_back(size.value);
  }
  if (given && *given != window)
    node.refuse("attribute 'kernel_shape' is not the shape of the weight");
  auto all = [&](llvm::StringRef name, size_t count, int64_t least) {
    return numbersOf(node, name, count, least, least).value_or(llvm::SmallVector<int64_t>(count, least));
  };
  strides = all("strides", rank, 1);
  dilations = all("dilations", rank, 1);
  pads = all("pads", 2 * rank, 0);
  groups = node.integer("group", 1);
  offsetGroups = node.integer("offset_group", 1);
  outputs = ofWeight[0];
  if (groups < 1 || offsetGroups < 1 || isLong(groups) || isLong(offsetGroups))
    node.refuse("'group' and 'offset_group' do not go with the image and the weight");
  if (node.isRefused())
    return false;
  int64_t number = 1;
  bool isKnown = !ofWeight[1].isDynamic();
  channels = isKnown && !llvm::MulOverflow(ofWeight[1].value, groups, number) ? Size(number) : ofImage[1];
  auto isDivided = [](const Size &size, int64_t by) {
    return size.isDynamic() || (size.value > 0 && size.value % by == 0);
  };
  if (!isDivided(outputs, groups) || !isDivided(channels, groups) || !isDivided(channels, offsetGroups) ||
      (isKnown && ofWeight[1].value < 1))
    return node.refuse("'group' and 'offset_group' do not go with the image and the weight"), false;
  if (!requireEqual(node, dimensionOf("X", 1, ofImage), {channels, "'group' times dimension 1 of input 'W'"}))
    return false;
  perGroup = node.compute(SizeOp::Divide, channels, groups);
  perOffsets = node.compute(SizeOp::Divide, channels, offsetGroups);
  int64_t taps = 1;
  for (int64_t size : window)
    if (size < 1 || llvm::MulOverflow(taps, size, taps) || isLong(taps))
      return node.refuse("the weight has a window of " + llvm::Twine(size)), false;
  Shape ofMask = mask ? node.graph.shapeOf(at, mask) : Shape();
  auto haveSizes = [&](llvm::StringRef name, const Shape &given, int64_t each) {
    return requireEqual(node, dimensionOf(name, 0, given), dimensionOf("X", 0, ofImage)) &&
           requireEqual(node, dimensionOf(name, 1, given),
                        {offsetGroups * taps * each, each == 1 ? "one for each element of the windows"
                                                               : "one for each coordinate of their elements"});
  };
  if (!haveSizes("offset", ofOffset, rank) || (mask && !haveSizes("mask", ofMask, 1)))
    return false;
  // Windows that lie in the padded image.
  for (size_t dimension = 0; dimension < rank; ++dimension) {
    Size padded = node.compute(SizeOp::Add, ofImage[2 + dimension], pads[dimension] + pads[rank + dimension]);
    Size rest = node.compute(SizeOp::Subtract, padded, dilations[dimension] * (window[dimension] - 1) + 1);
    if (!rest.isDynamic() && rest.value < 0)
      return node.refuse("the image is smaller than a window"), false;
    Size count = node.compute(SizeOp::Add, node.compute(SizeOp::Divide, rest, strides[dimension]), 1);
    const Size &given = ofOffset[2 + dimension];
    NamedSize there{count, "the number of windows"};
    if (!requireEqual(node, dimensionOf("offset", 2 + dimension, ofOffset), there) ||
        (mask && !requireEqual(node, dimensionOf("mask", 2 + dimension, ofMask), there)))
      return false;
    positions.push_back(given.isDynamic() ? count : given);
    sizes.push_back(node.ir().size(ofImage[2 + dimension]));
  }
  Shape split{ofImage[0], offsetGroups}, splitMask;
  split.append(window.begin(), window.end());
  splitMask = split;
  split.push_back(int64_t(rank));
  split.append(positions);
  splitMask.append(positions);
  if (!node.isCounted(split))
    return false;
  auto asGiven = [&](Value tensor, int64_t count) {
    Shape shape{ofImage[0], count};
    shape.append(positions);
    return node.reshaped(tensor, shape);
  };
  offsets = node.reshaped(asGiven(offsets, offsetGroups * taps * int64_t(rank)), split);
  if (mask)
    mask = node.reshaped(asGiven(mask, offsetGroups * taps), splitMask);
  return true;
}

/// Returns the image at a place between elements, which is 0 outside.
Value DeformConv::interpolated(OpBuilder &b, Location loc, llvm::ArrayRef<Value> place, Value batch, Value channel) {
  Type single = b.getF32Type();
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  llvm::SmallVector<Value> floors, rests;
  for (auto [where, size] : llvm::zip_equal(place, sizes)) {
    // All places that are far outside read 0, so that they may be moved closer.
    Value wide = getValueOrCreateConstantIndexOp(b, loc, size);
    Value most = arith::SIToFPOp::create(b, loc, single, arith::IndexCastOp::create(b, loc, b.getI64Type(), wide));
    Value low = importer::floatConstant(b, loc, single, -2);
    Value high = arith::AddFOp::create(b, loc, most, importer::floatConstant(b, loc, single, 2));
    Value clamped = arith::MaxNumFOp::create(b, loc, arith::MinNumFOp::create(b, loc, where, high), low);
    Value floor = math::FloorOp::create(b, loc, clamped);
    rests.push_back(arith::SubFOp::create(b, loc, clamped, floor));
    Value whole = arith::FPToSIOp::create(b, loc, b.getI64Type(), floor);
    floors.push_back(arith::IndexCastOp::create(b, loc, b.getIndexType(), whole));
  }
  Value sum;
  for (unsigned corner = 0; corner < 1u << rank; ++corner) {
    llvm::SmallVector<Value> index{batch, channel};
    Value weight, isRead;
    for (size_t dimension = 0; dimension < rank; ++dimension) {
      bool isHigh = corner >> dimension & 1;
      Value own = isHigh ? Value(arith::AddIOp::create(b, loc, floors[dimension], one)) : floors[dimension];
      Value part = rests[dimension];
      if (!isHigh)
        part = arith::SubFOp::create(b, loc, importer::floatConstant(b, loc, single, 1), part);
      weight = weight ? Value(arith::MulFOp::create(b, loc, weight, part)) : part;
      Value isInside = isIn(b, loc, own, sizes[dimension]);
      isRead = isRead ? Value(arith::AndIOp::create(b, loc, isRead, isInside)) : isInside;
      index.push_back(clampedTo(b, loc, own, sizes[dimension]));
    }
    Value element = importer::widened(b, loc, tensor::ExtractOp::create(b, loc, image, index), single);
    Value product = arith::MulFOp::create(b, loc, element, weight);
    product = arith::SelectOp::create(b, loc, isRead, product, importer::floatConstant(b, loc, single, 0));
    sum = sum ? Value(arith::AddFOp::create(b, loc, sum, product)) : product;
  }
  return sum;
}

/// Returns [batch, groups, positions…, channels / groups, window…].
Value DeformConv::sample() {
  Shape shape{ofImage[0], groups};
  shape.append(positions);
  shape.push_back(perGroup);
  shape.append(window.begin(), window.end());
  Type stored = tensorType(image).getElementType();
  OpFoldResult ofGroup = node.ir().size(perGroup), ofOffsets = node.ir().size(perOffsets);
  Value rows = node.ir().elementwise(at, stored, shape, {}, [&](OpBuilder &b, Location loc, ValueRange) -> Value {
    Type single = b.getF32Type();
    auto dim = [&](unsigned dimension) -> Value { return linalg::IndexOp::create(b, loc, dimension); };
    auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, loc, value); };
    auto count = [&](OpFoldResult size) { return getValueOrCreateConstantIndexOp(b, loc, size); };
    Value channel = arith::MulIOp::create(b, loc, dim(1), count(ofGroup));
    channel = arith::AddIOp::create(b, loc, channel, dim(2 + rank));
    Value offsetGroup = arith::DivUIOp::create(b, loc, channel, count(ofOffsets));
    // The clamp changes no index; it lets the analysis prove that the reads are in bounds.
    offsetGroup = arith::MinSIOp::create(b, loc, offsetGroup, constant(offsetGroups - 1));
    llvm::SmallVector<Value> ofMask{dim(0), offsetGroup}, place;
    for (size_t dimension = 0; dimension < rank; ++dimension)
      ofMask.push_back(dim(3 + rank + dimension));
    for (size_t dimension = 0; dimension < rank; ++dimension)
      ofMask.push_back(dim(2 + dimension));
    for (size_t dimension = 0; dimension < rank; ++dimension) {
      Value first = arith::MulIOp::create(b, loc, dim(2 + dimension), constant(strides[dimension]));
      Value tap = arith::MulIOp::create(b, loc, dim(3 + rank + dimension), constant(dilations[dimension]));
      Value whole = arith::AddIOp::create(b, loc, first, tap);
      whole = arith::SubIOp::create(b, loc, whole, constant(pads[dimension]));
      Value number = arith::SIToFPOp::create(b, loc, single, arith::IndexCastOp::create(b, loc, b.getI64Type(), whole));
      llvm::SmallVector<Value> ofOffset(ofMask);
      ofOffset.insert(ofOffset.begin() + 2 + rank, constant(dimension));
      Value moved = importer::widened(b, loc, tensor::ExtractOp::create(b, loc, offsets, ofOffset), single);
      place.push_back(arith::AddFOp::create(b, loc, number, moved));
    }
    Value result = interpolated(b, loc, place, dim(0), channel);
    if (mask)
      result = arith::MulFOp::create(
          b, loc, result, importer::widened(b, loc, tensor::ExtractOp::create(b, loc, mask, ofMask), single));
    return stored == single ? result : Value(arith::TruncFOp::create(b, loc, stored, result));
  });
  node.graph.setShape(rows, shape);
  return rows;
}

void DeformConv::build() {
  if (!check())
    return;
  DataType type = node.typeOf(Image);
  Value rows = sample();
  int64_t taps = 1;
  for (int64_t size : window)
    taps *= size;
  Size depth = node.product({perGroup, Size(taps)}), each = node.compute(SizeOp::Divide, outputs, groups);
  Size count = node.product(positions);
  rows = node.reshaped(rows, {ofImage[0], groups, count, depth});
  Value matrix = node.transposed(node.reshaped(node.tensor(Weight), {groups, each, depth}), {0, 2, 1});
  std::optional<Value> product = matrixProduct(node, rows, matrix, type);
  if (!product)
    return;
  Shape result{ofImage[0], outputs};
  result.append(positions);
  Value whole = node.reshaped(node.transposed(*product, {0, 1, 3, 2}), result);
  if (node.has(Bias)) {
    Value bias = node.tensor(Bias);
    Shape shape = node.graph.shapeOf(at, bias), spread(result.size(), 1);
    if (shape.size() != 1 || (!shape[0].isDynamic() && !outputs.isDynamic() && shape[0].value != outputs.value))
      return node.refuse("the bias does not have one element for each channel of the result");
    spread[1] = outputs;
    whole = combine(node, {whole, node.reshaped(bias, spread)}, type,
                    [](Scalars &s, Value x, Value y) -> Value { return arith::AddFOp::create(s.builder, s.at, x, y); });
  }
  node.result(0, whole, type);
}

void deformConv(NodeContext &node) { DeformConv(node).build(); }

} // namespace

llvm::ArrayRef<OpRow> deformedOps() {
  static const OpRow rows[] = {
      {"", "DeformConv", 19, deformConv, Takes::Numbers, /*inSingle=*/true},
  };
  return rows;
}

} // namespace intarsia::onnx
