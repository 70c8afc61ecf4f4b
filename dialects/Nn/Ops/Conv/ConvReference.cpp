//===- ConvReference.cpp - Reference of convolutions ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

namespace {
/// The loops of a convolution: [batch, spatial…, group, channel of the group], then those that it sums over, [window…,
/// input channel of the group].
class ConvLoops {
public:
  ConvLoops(ReferenceBuilder &builder, ConvOp op)
      : builder(builder), op(op), spatial(op.getSpatialRank()), groups(op.getGroups()),
        loops(spatial + 3 + spatial + 1) {}

  Value build();

private:
  AffineExpr loop(unsigned index) { return builder.getAffineDimExpr(index); }
  unsigned window(unsigned dimension) const { return spatial + 3 + dimension; }
  AffineMap mapOf(ArrayRef<AffineExpr> results) { return AffineMap::get(loops, 0, results, builder.getContext()); }
  /// Splits the last dimension in groups.
  Value inGroups(Value tensor, ArrayRef<int64_t> last);
  MixedSizes resultSizes();
  Value gather(ArrayRef<OpFoldResult> sizes, Value input, Value weight);
  Value spread(ArrayRef<OpFoldResult> sizes, Value input, Value weight);

  ReferenceBuilder &builder;
  ConvOp op;
  unsigned spatial;
  int64_t groups;
  unsigned loops;
};
} // namespace

Value ConvLoops::inGroups(Value tensor, ArrayRef<int64_t> last) {
  auto type = cast<RankedTensorType>(tensor.getType());
  unsigned rank = type.getRank();
  SmallVector<int64_t> shape(type.getShape().drop_back());
  llvm::append_range(shape, last);
  SmallVector<ReassociationIndices> dimensions(rank);
  for (unsigned d = 0; d + 1 < rank; ++d)
    dimensions[d] = {d};
  for (unsigned d = 0; d < last.size(); ++d)
    dimensions.back().push_back(rank - 1 + d);
  MixedSizes sizes = builder.sizesOf(tensor);
  sizes.pop_back();
  for (int64_t size : last)
    sizes.push_back(builder.getIndexAttr(size));
  return tensor::ExpandShapeOp::create(builder, RankedTensorType::get(shape, type.getElementType()), tensor, dimensions,
                                       sizes);
}

/// Sizes of the result, with channels in groups.
MixedSizes ConvLoops::resultSizes() {
  MixedSizes sizes = builder.sizesOf(op.getInput());
  for (unsigned d = 0; d < spatial; ++d)
    sizes[d + 1] = builder.computed(sizes[d + 1], [&](auto size) { return op.resultSize(d, size); });
  sizes.back() = builder.getIndexAttr(groups);
  sizes.push_back(builder.getIndexAttr(op.getOutputChannels() / groups));
  return sizes;
}

Value ConvLoops::gather(ArrayRef<OpFoldResult> sizes, Value input, Value weight) {
  SmallVector<int64_t> low(spatial + 2), high(spatial + 2);
  SmallVector<AffineExpr> left{loop(0)}, right{loop(spatial + 1), loop(spatial + 2)};
  for (unsigned d = 0; d < spatial; ++d) {
    WindowDimension w = op.getWindowDimension(d);
    low[d + 1] = w.padLow;
    high[d + 1] = w.padHigh;
    left.push_back(loop(d + 1) * w.stride + loop(window(d)) * w.dilation);
    right.push_back(loop(window(d)));
  }
  left.append({loop(spatial + 1), loop(loops - 1)});
  right.push_back(loop(loops - 1));
  input = buildPadded(builder, input, low, high, 0);
  input = inGroups(input, {groups, op.getInputChannels() / groups});
  return builder.reduce(
      sizes, spatial + 1, 0.0, {{input, mapOf(left)}, {weight, mapOf(right)}},
      [](ScalarBuilder &b, ValueRange v) { return b.add(v[2], b.mul(b.exact(v[0]), b.exact(v[1]))); });
}

/// Gathers what a transposed convolution spreads: at position `o`, the input at `(o + pad_low - k * dilation) / stride`
/// where this is a whole number inside.
Value ConvLoops::spread(ArrayRef<OpFoldResult> sizes, Value input, Value weight) {
  SmallVector<AffineExpr> right{loop(spatial + 1), loop(spatial + 2)};
  for (unsigned d = 0; d < spatial; ++d)
    right.push_back(loop(window(d)));
  right.push_back(loop(loops - 1));
  MixedSizes inputSizes = builder.sizesOf(input);
  input = inGroups(input, {groups, op.getInputChannels() / groups});
  return builder.reduce(sizes, spatial + 1, 0.0, {{weight, mapOf(right)}}, [&](ScalarBuilder &b, ValueRange v) {
    Value isRead = arith::ConstantOp::create(b, b.getBoolAttr(true));
    SmallVector<Value> at{b.indexOf(0)};
    for (unsigned d = 0; d < spatial; ++d) {
      WindowDimension w = op.getWindowDimension(d);
      // Positions before the input wrap around, and are then beyond its end.
      Integer from = b.indexOf(d + 1) + w.padLow - b.indexOf(window(d)) * w.dilation;
      Integer size(b, b.index(inputSizes[d + 1]));
      Value isInside = from < size * w.stride, isWhole = from % w.stride == 0;
      Value isReadHere = arith::AndIOp::create(b, isInside, isWhole);
      at.push_back(choose({b, isReadHere}, from / w.stride, 0));
      isRead = arith::AndIOp::create(b, isRead, isReadHere);
    }
    at.append({b.indexOf(spatial + 1), b.indexOf(loops - 1)});
    Value product = b.mul(b.exact(tensor::ExtractOp::create(b, input, at)), b.exact(v[0]));
    return b.select(isRead, b.add(v[1], product), v[1]);
  });
}

Value ConvLoops::build() {
  MixedSizes sizes = resultSizes();
  SmallVector<int64_t> columns(op.getWindow());
  columns.push_back(op.getInputChannels() / groups);
  // [groups, channels of the group, window…, input channels of the group].
  Value weight = inGroups(op.getWeight(), columns);
  auto type = cast<RankedTensorType>(weight.getType());
  SmallVector<int64_t> shape{groups, op.getOutputChannels() / groups};
  llvm::append_range(shape, columns);
  SmallVector<ReassociationIndices> dimensions{{0, 1}};
  for (int64_t d = 1; d < type.getRank(); ++d)
    dimensions.push_back({d + 1});
  weight =
      tensor::ExpandShapeOp::create(builder, RankedTensorType::get(shape, type.getElementType()), weight, dimensions);

  Value sums = op.getTransposed() ? spread(sizes, op.getInput(), weight) : gather(sizes, op.getInput(), weight);
  unsigned rank = spatial + 3;
  Type element = elementOf(op.getInput());
  Value result;
  if (op.getBias()) {
    Value bias = inGroups(op.getBias(), {groups, op.getOutputChannels() / groups});
    result = builder.parallel(
        sizes, element, {{sums, builder.identity(rank)}, {bias, builder.map(rank, {rank - 2, rank - 1})}},
        [&](ScalarBuilder &b, ValueRange v) { return b.narrow(b.add(v[0], b.exact(v[1])), element); });
  } else {
    result = buildNarrow(builder, sums, element);
  }
  SmallVector<ReassociationIndices> merged;
  for (int64_t d = 0; d < rank - 2; ++d)
    merged.push_back({d});
  merged.push_back({rank - 2, rank - 1});
  return tensor::CollapseShapeOp::create(builder, result, merged);
}

SmallVector<Value> ConvOp::buildReference(ReferenceBuilder &builder) { return {ConvLoops(builder, *this).build()}; }
