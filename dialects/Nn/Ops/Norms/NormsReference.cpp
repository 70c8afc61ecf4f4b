//===----------------------------------------------------------------------------------------------------------===//
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

static Value buildRowSize(ReferenceBuilder &builder, Value input) {
  Value size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), builder.sizesOf(input).back());
  Value integer = arith::IndexCastOp::create(builder, builder.getI64Type(), size);
  return arith::SIToFPOp::create(builder, builder.getF64Type(), integer);
}

/// Dimensions of a tensor of `rank`, the last one in two.
static SmallVector<ReassociationIndices> lastTwo(int64_t rank) {
  SmallVector<ReassociationIndices> dimensions;
  for (int64_t dimension = 0; dimension != rank; ++dimension)
    dimensions.push_back({dimension});
  dimensions.back().push_back(rank);
  return dimensions;
}

/// Splits the last dimension, [… , features] to [… , groups, features / groups].
static Value splitLast(ReferenceBuilder &builder, Value tensor, int64_t groups) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape(type.getShape());
  MixedSizes sizes = builder.sizesOf(tensor);
  shape.back() /= groups;
  shape.insert(shape.end() - 1, groups);
  sizes.back() = builder.getIndexAttr(shape.back());
  sizes.insert(sizes.end() - 1, builder.getIndexAttr(groups));
  return tensor::ExpandShapeOp::create(builder, RankedTensorType::get(shape, type.getElementType()), tensor,
                                       lastTwo(type.getRank()), sizes);
}

static Value buildNorm(ReferenceBuilder &builder, NormOpInterface op) {
  NormStatistics statistics = op.getStatistics();
  bool isSplit = statistics.groups != 1;
  auto splitIfGrouped = [&](Value tensor) { return isSplit ? splitLast(builder, tensor, statistics.groups) : tensor; };
  Value input = splitIfGrouped(op.getInput());
  unsigned rank = rankOf(input);
  MixedSizes sizes = builder.sizesOf(input);
  ArrayRef<OpFoldResult> outer = ArrayRef(sizes).drop_back();
  AffineMap all = builder.identity(rank), row = builder.leading(rank, rank - 1),
            feature = isSplit ? builder.map(rank, {rank - 2, rank - 1}) : builder.map(rank, {rank - 1});
  Value features = buildRowSize(builder, input);
  SmallVector<std::pair<Value, AffineMap>> inputs = {{input, all}};
  if (statistics.isCentred) {
    Value sum = builder.reduce(outer, 1, 0.0, inputs,
                               [](ScalarBuilder &b, ValueRange v) { return b.add(v[1], b.exact(v[0])); });
    inputs.push_back({sum, row});
  }
  auto centre = [&](ScalarBuilder &b, ValueRange v) {
    Value x = b.exact(v[0]);
    return statistics.isCentred ? b.sub(x, b.div(v[1], features)) : x;
  };
  Value squares = builder.reduce(outer, 1, 0.0, inputs, [&](ScalarBuilder &b, ValueRange v) {
    Value centred = centre(b, v);
    return b.add(v.back(), b.mul(centred, centred));
  });
  unsigned squaresAt = inputs.size();
  inputs.append({{squares, row}, {splitIfGrouped(op.getScale()), feature}});
  if (op.getBias())
    inputs.push_back({splitIfGrouped(op.getBias()), feature});
  Type element = elementOf(input);
  Value result = builder.parallel(sizes, element, inputs, [&](ScalarBuilder &b, ValueRange v) {
    Value variance = b.add(b.div(v[squaresAt], features), b.f64(statistics.epsilon));
    Value normal = b.div(centre(b, v), math::SqrtOp::create(b, variance));
    Value scaled = b.mul(normal, b.exact(v[squaresAt + 1]));
    return b.narrow(op.getBias() ? b.add(scaled, b.exact(v[squaresAt + 2])) : scaled, element);
  });
  if (!isSplit)
    return result;
  return tensor::CollapseShapeOp::create(builder, op.getInput().getType(), result, lastTwo(rank - 1));
}

SmallVector<Value> LayerNormOp::buildReference(ReferenceBuilder &builder) { return {buildNorm(builder, *this)}; }
SmallVector<Value> RmsNormOp::buildReference(ReferenceBuilder &builder) { return {buildNorm(builder, *this)}; }
SmallVector<Value> GroupNormOp::buildReference(ReferenceBuilder &builder) { return {buildNorm(builder, *this)}; }
