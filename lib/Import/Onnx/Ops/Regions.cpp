//===- Regions.cpp - Regions, blocks and grids of images ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/ReferenceBuilder.h"
#include "lib/Import/Builder/Selection.h"
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Counts.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace intarsia::onnx {
namespace {

using importer::SizeOp;
using reference::Integer;
using reference::MixedSizes;
using reference::ReferenceBuilder;
using reference::ScalarBuilder;

MixedSizes mixedSizes(NodeContext &node, const Shape &shape) {
  MixedSizes sizes;
  for (const Size &size : shape)
    sizes.push_back(node.ir().size(size));
  return sizes;
}

/// A RoiAlign with `sampling_ratio` 0: the number of points of a cell follows from the size of its region.
struct AdaptiveRoiAlign {
  NodeContext &node;
  Value images, boxes, numbers; ///< [batch, height, width, channels], [regions, 4] and [regions]
  int64_t cells[2];             ///< down and across
  float scale;
  bool halfPixel, largest;

  /// The most points of a cell in a direction. Regions with more points are larger than images are.
  static constexpr int64_t mostPoints = 4096;

  /// Where a region begins and how long it is, in elements of the image, by its corners; in f32, as ONNX Runtime
  /// rounds.
  std::pair<Value, Value> extent(ScalarBuilder &b, Value low, Value high) const {
    Value offset = b.f32(halfPixel ? 0.5f : 0), factor = b.f32(scale);
    Value begin = b.sub(b.mul(b.widen(low), factor), offset), end = b.sub(b.mul(b.widen(high), factor), offset);
    Value length = b.sub(end, begin);
    return {begin, halfPixel ? length : b.max(length, b.f32(1))};
  }
  /// The corners of a box (x1, y1, x2, y2) in a direction, as operands of loops of which the first one is the region.
  SmallVector<std::pair<Value, AffineMap>> corners(ReferenceBuilder &builder, unsigned loops,
                                                   unsigned direction) const {
    SmallVector<std::pair<Value, AffineMap>> operands;
    for (unsigned number : {1 - direction, 3 - direction})
      operands.push_back(
          {boxes, AffineMap::get(loops, 0, {builder.getAffineDimExpr(0), builder.getAffineConstantExpr(number)},
                                 builder.getContext())});
    return operands;
  }
  /// How many points a cell has in a direction: f32 [regions].
  Value points(ReferenceBuilder &builder, unsigned direction) const {
    return builder.parallel({builder.sizesOf(boxes)[0]}, builder.getF32Type(), corners(builder, 1, direction),
                            [&](ScalarBuilder &b, ValueRange v) -> Value {
                              Value length = extent(b, v[0], v[1]).second;
                              Value count = math::CeilOp::create(b, b.div(length, b.f32(float(cells[direction]))));
                              count = arith::MaxNumFOp::create(b, count, b.f32(0)); // NaN has none
                              return b.min(count, b.f32(float(mostPoints)));
                            });
  }
  /// The most points that a cell of any region has in a direction.
  Size most(ReferenceBuilder &builder, Value points) const {
    Value most = builder.fold(builder.filled({}, builder.getI64IntegerAttr(0)), 1, {{points, builder.identity(1)}},
                              [](ScalarBuilder &b, ValueRange v) -> Value {
                                Value count = arith::FPToSIOp::create(b, b.getI64Type(), v[0]);
                                return arith::MaxSIOp::create(b, count, v[1]);
                              });
    return importer::sizeOfCount(node.ir(), node.at, most);
  }
  /// The weighted element beside a point, or the one behind it, and where it is along a direction.
  struct Neighbour {
    Value weight;
    Integer place;
  };
  /// The two elements around a point of a cell in a direction of `size` elements.
  std::array<Neighbour, 2> around(ScalarBuilder &b, ValueRange corners, Value points, Integer cell, Integer point,
                                  unsigned direction, Value size, Value &isInside) const {
    auto [begin, length] = extent(b, corners[0], corners[1]);
    Value step = b.div(length, b.f32(float(cells[direction])));
    Value part = b.div(b.mul(b.add(b.toFloat(point), b.f32(0.5f)), step), b.max(points, b.f32(1)));
    Value place = b.add(b.add(begin, b.mul(b.toFloat(cell), step)), part);
    Value end = b.toFloat({b, size}), last = b.sub(end, b.f32(1));
    using P = arith::CmpFPredicate;
    Value isHere = arith::AndIOp::create(b, arith::CmpFOp::create(b, P::OGE, place, b.f32(-1)),
                                         arith::CmpFOp::create(b, P::OLE, place, end));
    isInside = isInside ? arith::AndIOp::create(b, isInside, isHere).getResult() : isHere;
    place = b.select(isHere, b.min(b.max(place, b.f32(0)), last), b.f32(0));
    Value whole = math::FloorOp::create(b, place), behind = b.sub(place, whole);
    Integer first = smaller(b.toIndex(arith::FPToSIOp::create(b, b.getI64Type(), whole)), Integer(b, size) - 1);
    return {Neighbour{b.sub(b.f32(1), behind), first}, Neighbour{behind, smaller(first + 1, Integer(b, size) - 1)}};
  }

  Value build() const;
};

Value AdaptiveRoiAlign::build() const {
  ReferenceBuilder builder(node.at, node.ops());
  MixedSizes ofImages = builder.sizesOf(images);
  MixedSizes sizes = {builder.sizesOf(boxes)[0], builder.getIndexAttr(cells[0]), builder.getIndexAttr(cells[1]),
                      ofImages[3]};
  Value down = points(builder, 0), across = points(builder, 1);
  Value bounds = builder.filled({node.ir().size(most(builder, down)), node.ir().size(most(builder, across))},
                                builder.getF32FloatAttr(0));
  Value height = getValueOrCreateConstantIndexOp(builder, node.at, ofImages[1]);
  Value width = getValueOrCreateConstantIndexOp(builder, node.at, ofImages[2]);
  // Loops are region, cell down and across, channel, then point of the cell down and across.
  SmallVector<std::pair<Value, AffineMap>> inputs = {{down, builder.map(6, {0})},
                                                     {across, builder.map(6, {0})},
                                                     {numbers, builder.map(6, {0})},
                                                     {bounds, builder.map(6, {4, 5})}};
  inputs.append(corners(builder, 6, 0));
  inputs.append(corners(builder, 6, 1));
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  Value sums = builder.reduceF32(sizes, 2, largest ? lowest : 0, inputs, [&](ScalarBuilder &b, ValueRange v) -> Value {
    Integer pointDown = b.indexOf(4), pointAcross = b.indexOf(5);
    Value isPoint =
        arith::AndIOp::create(b, arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, b.toFloat(pointDown), v[0]),
                              arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, b.toFloat(pointAcross), v[1]));
    Value isInside, sum;
    auto rows = around(b, v.slice(4, 2), v[0], b.indexOf(1), pointDown, 0, height, isInside);
    auto columns = around(b, v.slice(6, 2), v[1], b.indexOf(2), pointAcross, 1, width, isInside);
    for (const Neighbour &row : rows)
      for (const Neighbour &column : columns) {
        Value read =
            tensor::ExtractOp::create(b, images, ValueRange{b.toIndex(v[2]), row.place, column.place, b.indexOf(3)});
        Value product = b.mul(b.widen(read), b.mul(row.weight, column.weight));
        sum = !sum ? product : largest ? b.max(sum, product) : b.add(sum, product);
      }
    sum = b.select(isInside, sum, b.f32(0));
    return b.select(isPoint, largest ? b.max(v.back(), sum) : b.add(v.back(), sum), v.back());
  });
  Type element = tensorType(images).getElementType();
  return builder.parallel(sizes, element,
                          {{sums, builder.identity(4)}, {down, builder.map(4, {0})}, {across, builder.map(4, {0})}},
                          [&](ScalarBuilder &b, ValueRange v) -> Value {
                            Value count = b.mul(v[1], v[2]), isNone = b.isEqual(count, b.f32(0));
                            Value result = largest ? v[0] : b.div(v[0], b.max(count, b.f32(1)));
                            return b.narrow(b.select(isNone, b.f32(0), result), element);
                          });
}

void roiAlign(NodeContext &node) {
  Value images = node.tensor(0), regions = node.tensor(1), numbers = node.tensor(2);
  DataType type = node.typeOf(0);
  if (node.isRefused() || !node.isOf(0, isComputedByNn, "floats of 16 bits or more") || !node.areOneType({0, 1}) ||
      !node.isOf(2, isIndex, "int64"))
    return;
  int64_t height = node.integer("output_height", 1), width = node.integer("output_width", 1),
          samples = node.integer("sampling_ratio", 0);
  llvm::StringRef mode = node.text("mode", "avg"), coordinates = "output_half_pixel";
  if (node.version >= 16)
    coordinates = node.text("coordinate_transformation_mode", "half_pixel");
  auto scale = float(node.number("spatial_scale", 1));
  Shape shape = node.graph.shapeOf(node.at, images), boxes = node.graph.shapeOf(node.at, regions);
  if ((mode != "avg" && mode != "max") || (coordinates != "half_pixel" && coordinates != "output_half_pixel"))
    node.refuse("attribute 'mode' is '" + mode + "' or 'coordinate_transformation_mode' is '" + coordinates + "'");
  if (height < 1 || width < 1 || samples < 0 || isLong(height) || isLong(width) || samples > 1024 ||
      !std::isfinite(scale))
    node.refuse("attributes 'output_height', 'output_width', 'sampling_ratio' or 'spatial_scale' are not possible");
  if (shape.size() != 4 || boxes.size() != 2 || boxes[1].isDynamic() || boxes[1].value != 4 || node.rankOf(2) != 1)
    node.refuse("inputs are not 'X' [batch, channels, height, width], 'rois' [regions, 4] and 'batch_indices' "
                "[regions]");
  if (node.isRefused() || (samples == 0 && !isOutsideOfBranches(node)))
    return;
  for (unsigned dimension : {0, 2, 3})
    if (!shape[dimension].isDynamic() && shape[dimension].value == 0)
      return node.refuse("images have no elements");
  Shape result{boxes[0], height, width, shape[1]};
  if (!node.isCounted(result))
    return;
  Value last = node.ir().channelsLast(node.at, images);
  bool halfPixel = coordinates == "half_pixel", largest = mode == "max";
  Value aligned;
  if (samples == 0)
    aligned = AdaptiveRoiAlign{node, last, regions, numbers, {height, width}, scale, halfPixel, largest}.build();
  else
    aligned = nn::RoiAlignOp::create(node.ops(), node.at, node.ir().tensorType(result, node.irType(type)), last,
                                     regions, numbers, llvm::ArrayRef<int64_t>{height, width}, samples,
                                     llvm::APFloat(scale), halfPixel, largest);
  node.graph.setShape(aligned, result);
  Value first = node.ir().channelsFirst(node.at, aligned);
  node.graph.setShape(first, {boxes[0], shape[1], height, width});
  node.result(first);
}

/// AffineGrid: theta times the coordinates (x, y, 1) or (x, y, z, 1) of all places, which go from -1 to 1.
void affineGrid(NodeContext &node) {
  Value theta = node.tensor(0);
  DataType type = node.typeOf(0);
  auto sizes = sizesOf(node, 1, "size");
  if (!sizes || node.isRefused() || !node.isOf(0, isComputedByNn, "floats of 16 bits or more"))
    return;
  auto rank = int64_t(sizes->size()) - 2;
  Shape matrix = node.graph.shapeOf(node.at, theta);
  if ((rank != 2 && rank != 3) || matrix.size() != 3)
    return node.refuse("inputs are not 'theta' [batch, 2, 3] and 4 sizes, or [batch, 3, 4] and 5 sizes");
  const Size &batch = (*sizes)[0];
  if (!requireEqual(node, dimensionOf("theta", 0, matrix), {batch, "element 0 of input 'size'"}) ||
      !requireEqual(node, dimensionOf("theta", 1, matrix), {rank, "the number of spatial dimensions"}) ||
      !requireEqual(node, dimensionOf("theta", 2, matrix),
                    {rank + 1, "one more than the number of spatial dimensions"}))
    return;
  Shape shape{matrix[0].isDynamic() ? batch : matrix[0]};
  shape.append(sizes->begin() + 2, sizes->end());
  shape.push_back(rank);
  for (const Size &size : shape)
    if (!size.isDynamic() && size.value < 0)
      return node.refuse("input 'size' has " + llvm::Twine(size.value));
  if (!node.isCounted(shape))
    return;
  bool corners = node.integer("align_corners", 0) != 0;
  if (node.isRefused())
    return;
  ReferenceBuilder builder(node.at, node.ops());
  MixedSizes all = mixedSizes(node, shape);
  Value result = builder.parallel(all, node.irType(type), {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    auto factor = [&](int64_t column) -> Value {
      Value read =
          tensor::ExtractOp::create(b, theta, ValueRange{b.indexOf(0), b.indexOf(unsigned(rank) + 1), b.index(column)});
      return b.widen(read);
    };
    Value sum = factor(rank);
    for (int64_t column = 0; column < rank; ++column) {
      auto dimension = unsigned(rank - column); // x is the last one of the places
      Integer size(b, b.index(all[dimension])), place = b.indexOf(dimension);
      // -1 + 2 place / (size - 1), or -1 + (2 place + 1) / size
      Value ratio = corners ? b.div(b.toFloat(place * 2), b.toFloat(larger(size - 1, 1)))
                            : b.div(b.toFloat(place * 2 + 1), b.toFloat(size));
      sum = b.add(sum, b.mul(factor(column), b.sub(ratio, b.f32(1))));
    }
    return b.narrow(sum, node.irType(type));
  });
  node.graph.setShape(result, shape);
  node.result(result);
}

/// Col2Im: adds the elements of blocks up where these lie in the image.
void col2Im(NodeContext &node) {
  Value blocks = node.tensor(0);
  DataType type = node.typeOf(0);
  auto image = node.integers(1, "image_shape"), block = node.integers(2, "block_shape");
  if (node.isRefused() || !node.isOf(0, isNumber, "numbers"))
    return;
  size_t rank = image->size();
  auto strides = numbersOf(node, "strides", rank, 1, 1), dilations = numbersOf(node, "dilations", rank, 1, 1),
       pads = numbersOf(node, "pads", 2 * rank, 0, 0);
  if (node.isRefused())
    return;
  auto isSize = [](int64_t size) { return size >= 1 && !isLong(size); };
  if (rank == 0 || rank > 8 || block->size() != rank || !llvm::all_of(*image, isSize) || !llvm::all_of(*block, isSize))
    return node.refuse("inputs 'image_shape' and 'block_shape' are not sizes of as many dimensions");
  Shape shape = node.graph.shapeOf(node.at, blocks);
  int64_t inBlock = 1, count = 1;
  llvm::SmallVector<int64_t> counts;
  for (size_t d = 0; d < rank; ++d) {
    int64_t reach = (*dilations)[d] * ((*block)[d] - 1) + 1, room = (*image)[d] + (*pads)[d] + (*pads)[rank + d];
    counts.push_back(room < reach ? 0 : (room - reach) / (*strides)[d] + 1);
    if (llvm::MulOverflow(inBlock, (*block)[d], inBlock) || llvm::MulOverflow(count, counts.back(), count))
      return node.refuse("a tensor has more elements than memory can hold");
  }
  if (shape.size() != 3 || shape[1].isDynamic() || shape[1].value % inBlock != 0 || (shape[2].value != count))
    return node.refuse("input is not [batch, channels * " + llvm::Twine(inBlock) + ", " + llvm::Twine(count) +
                       "], as there are blocks");
  Shape result{shape[0], shape[1].value / inBlock};
  result.append(image->begin(), image->end());
  if (!node.isCounted(result))
    return;
  if (count == 0 || shape[1].value == 0)
    return node.result(node.filled(result, cast<TypedAttr>(node.ops().getZeroAttr(node.irType(type)))));
  // Sums of floats of 16 bits are rounded once.
  bool isNarrow = isFloat(type) && bitsOf(type) < 32;
  Value input = isNarrow ? node.cast(blocks, type, DataType::Float) : blocks;
  DataType computed = isNarrow ? DataType::Float : type;
  ReferenceBuilder builder(node.at, node.ops());
  MixedSizes window;
  llvm::SmallVector<unsigned> windowLoops;
  for (size_t d = 0; d < rank; ++d) {
    window.push_back(builder.getIndexAttr((*block)[d]));
    windowLoops.push_back(2 + rank + d);
  }
  Value bounds = builder.filled(window, builder.getF32FloatAttr(0));
  auto zero = cast<TypedAttr>(builder.getZeroAttr(node.irType(computed)));
  Value sums =
      builder.fold(builder.filled(mixedSizes(node, result), zero), rank,
                   {{bounds, builder.map(2 + 2 * rank, windowLoops)}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
                     Integer element(b, b.index(int64_t(0))),
                         number = element, isThere(b, arith::ConstantOp::create(b, b.getBoolAttr(true)));
                     for (size_t d = 0; d < rank; ++d) {
                       Integer inside = b.indexOf(windowLoops[d]);
                       element = element * (*block)[d] + inside;
                       // Where the block begins: before 0 it is a large number without a sign, and not there.
                       Integer begin = b.indexOf(2 + d) + (*pads)[d] - inside * (*dilations)[d],
                               which = begin / (*strides)[d];
                       isThere = isThere & (begin % (*strides)[d] == Integer(0)) & (which < Integer(counts[d]));
                       number = number * counts[d] + smaller(which, counts[d] - 1);
                     }
                     Value row = b.indexOf(1) * inBlock + element;
                     Value read = tensor::ExtractOp::create(b, input, ValueRange{b.indexOf(0), row, number});
                     read = b.select(isThere, read, arith::ConstantOp::create(b, zero));
                     if (isFloat(computed))
                       return b.add(v.back(), read);
                     return arith::AddIOp::create(b, v.back(), read);
                   });
  node.graph.setShape(sums, result);
  node.result(isNarrow ? node.cast(sums, DataType::Float, type) : sums);
}

/// Returns a tensor with other sizes: its elements from `offsets` on, which may be negative, and 0 where it has none.
Value windowOf(NodeContext &node, Value tensor, const Shape &sizes, llvm::ArrayRef<Size> offsets) {
  Shape shape = node.graph.shapeOf(node.at, tensor);
  Type element = tensorType(tensor).getElementType();
  auto zero = cast<TypedAttr>(node.ops().getZeroAttr(element));
  if (llvm::any_of(shape, [](const Size &size) { return !size.isDynamic() && size.value == 0; }))
    return node.filled(sizes, zero);
  MixedSizes given = mixedSizes(node, shape);
  ReferenceBuilder builder(node.at, node.ops());
  Value result = builder.parallel(mixedSizes(node, sizes), element, {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    llvm::SmallVector<Value> position;
    Value isThere;
    for (unsigned d = 0; d < shape.size(); ++d) {
      if (node.graph.areEqual(shape[d], sizes[d])) {
        position.push_back(b.indexOf(d));
        continue;
      }
      // An index below 0 is a large number without a sign.
      Integer size(b, b.index(given[d])), place = b.indexOf(d) + Integer(b, b.index(node.ir().size(offsets[d])));
      Value isInside = place < size;
      isThere = isThere ? arith::AndIOp::create(b, isThere, isInside).getResult() : isInside;
      position.push_back(smaller(place, size - 1));
    }
    Value read = tensor::ExtractOp::create(b, tensor, position);
    return isThere ? b.select(isThere, read, arith::ConstantOp::create(b, zero)) : read;
  });
  node.graph.setShape(result, sizes);
  return result;
}

void maxUnpool(NodeContext &node) {
  Value data = node.tensor(0), indices = node.tensor(1);
  Shape shape = node.graph.shapeOf(node.at, data), which = node.graph.shapeOf(node.at, indices);
  auto kernel = node.integers("kernel_shape");
  auto isMoved = [](DataType type) { return isComputedByNn(type) || type == DataType::Double; };
  if (node.isRefused() || !node.isOf(0, isMoved, "floats of 16 bits or more") ||
      !node.isOf(1, [](DataType type) { return type == DataType::Int64; }, "int64"))
    return;
  if (!kernel || kernel->empty() || shape.size() != kernel->size() + 2 || which.size() != shape.size())
    return node.refuse("'X', 'I' and attribute 'kernel_shape' do not go together");
  for (unsigned dimension = 0; dimension < shape.size(); ++dimension)
    if (!requireEqual(node, dimensionOf("I", dimension, which), dimensionOf("X", dimension, shape)))
      return;
  size_t rank = kernel->size();
  auto strides = numbersOf(node, "strides", rank, 1, 1), pads = numbersOf(node, "pads", 2 * rank, 0, 0);
  if (!numbersOf(node, "kernel_shape", rank, 1, 1) || node.isRefused())
    return;
  Shape pooled{shape[0], shape[1]};
  for (size_t d = 0; d < rank; ++d) {
    Size begin = node.compute(SizeOp::Multiply, node.compute(SizeOp::Subtract, shape[2 + d], 1), (*strides)[d]);
    pooled.push_back(node.compute(SizeOp::Add, begin, (*kernel)[d] - (*pads)[d] - (*pads)[rank + d]));
    if (!pooled.back().isDynamic() && pooled.back().value < 0)
      return node.refuse("attribute 'pads' leaves nothing of dimension " + llvm::Twine(2 + d));
  }
  std::optional<Shape> wanted;
  if (node.has(2)) {
    wanted = sizesOf(node, 2, "output_shape");
    if (!wanted)
      return;
    if (wanted->size() != shape.size() ||
        llvm::any_of(*wanted, [](const Size &size) { return !size.isDynamic() && size.value < 0; }))
      return node.refuse("input 'output_shape' has not a size for each dimension");
  }
  if (!node.isCounted(pooled) || (wanted && !node.isCounted(*wanted)))
    return;
  const Size count = node.product(shape), total = node.product(pooled);
  Type element = tensorType(data).getElementType();
  if (!total.isDynamic() && total.value == 0)
    return node.result(node.filled(wanted.value_or(pooled), cast<TypedAttr>(node.ops().getZeroAttr(element))));
  Value zeros = node.filled({total}, cast<TypedAttr>(node.ops().getZeroAttr(element)));
  Value flat = nn::ScatterOp::create(node.ops(), node.at, zeros.getType(), zeros, node.reshaped(indices, {count}),
                                     node.reshaped(data, {count}), nn::ScatterKind::Set, 0);
  node.graph.setShape(flat, {total});
  Value result = node.reshaped(flat, pooled);
  if (wanted)
    result = windowOf(node, result, *wanted, Shape(wanted->size(), 0));
  node.result(result);
}

/// CenterCropPad: the middle of a tensor, or zeros around it, for each axis.
void centerCropPad(NodeContext &node) {
  Value data = node.tensor(0);
  auto sizes = sizesOf(node, 1, "shape");
  if (!sizes || node.isRefused())
    return;
  Shape shape = node.graph.shapeOf(node.at, data), result = shape;
  llvm::SmallVector<int64_t> axes =
      node.axes(node.integers("axes").value_or(llvm::to_vector(llvm::seq<int64_t>(0, shape.size()))), shape.size());
  if (node.isRefused())
    return;
  if (axes.size() != sizes->size())
    return node.refuse("input 'shape' has " + llvm::Twine(sizes->size()) + " sizes, there are " +
                       llvm::Twine(axes.size()) + " axes");
  Shape offsets(shape.size(), 0);
  bool isCut = true;
  for (auto [axis, size] : llvm::zip_equal(axes, *sizes)) {
    if (!size.isDynamic() && size.value < 0)
      return node.refuse("input 'shape' has " + llvm::Twine(size.value));
    if (!node.graph.areEqual(size, shape[axis]) && (size.isDynamic() || shape[axis].isDynamic()))
      return node.refuse("whether dimension " + llvm::Twine(axis) + " is cut or padded is known to the call only");
    result[axis] = size;
    // Half of the difference, rounded towards 0, is cut off or padded at the front.
    if (!node.graph.areEqual(size, shape[axis]))
      offsets[axis] = node.compute(SizeOp::Divide, node.compute(SizeOp::Subtract, shape[axis], size), 2);
    isCut &= node.graph.areEqual(size, shape[axis]) ||
             (!size.isDynamic() && !shape[axis].isDynamic() && size.value <= shape[axis].value);
  }
  if (!node.isCounted(result))
    return;
  if (!isCut)
    return node.result(windowOf(node, data, result, offsets));
  for (unsigned axis = 0; axis < shape.size(); ++axis)
    if (!node.graph.areEqual(result[axis], shape[axis]))
      data = node.sliced(data, axis, offsets[axis], result[axis]);
  node.result(data);
}

} // namespace

llvm::ArrayRef<OpRow> regionOps() {
  static const OpRow rows[] = {
      {"", "RoiAlign", 10, roiAlign, Takes::Numbers, /*inSingle=*/true},
      {"", "AffineGrid", 20, affineGrid, Takes::Numbers, /*inSingle=*/true},
      {"", "Col2Im", 18, col2Im},
      {"", "MaxUnpool", 9, maxUnpool},
      {"", "CenterCropPad", 18, centerCropPad},
  };
  return rows;
}

} // namespace intarsia::onnx
