//===- PoolReference.cpp - Reference of pools -----------------------------------------------------------------===//
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
/// The loops of a pool: [batch, spatial…, channel], then those over a window.
class PoolLoops {
public:
  PoolLoops(ReferenceBuilder &builder, PoolOp op)
      : builder(builder), op(op), spatial(op.getSpatialRank()), sizes(builder.sizesOf(op.getInput())) {
    for (unsigned d = 0; d < spatial; ++d)
      sizes[d + 1] =
          builder.computed(sizes[d + 1], [&](auto size) { return op.getWindowDimension(d).windowsOf(size); });
  }

  SmallVector<Value> build();

private:
  /// Where a window reads in a spatial dimension, `outer` of `loops` being that of the result, `window` of its windows.
  AffineExpr positionOf(unsigned dimension, unsigned outer, unsigned window) {
    WindowDimension w = op.getWindowDimension(dimension);
    return builder.getAffineDimExpr(outer) * w.stride + builder.getAffineDimExpr(window) * w.dilation;
  }
  AffineMap readMap() {
    SmallVector<AffineExpr> read{builder.getAffineDimExpr(0)};
    for (unsigned d = 0; d < spatial; ++d)
      read.push_back(positionOf(d, d + 1, spatial + 2 + d));
    read.push_back(builder.getAffineDimExpr(spatial + 1));
    return AffineMap::get(2 * spatial + 2, 0, read, builder.getContext());
  }
  /// The input with what windows read around it.
  Value padded(double value) {
    SmallVector<int64_t> low(spatial + 2), high(spatial + 2);
    for (unsigned d = 0; d < spatial; ++d) {
      WindowDimension w = op.getWindowDimension(d);
      low[d + 1] = w.padLow;
      high[d + 1] = w.padHigh + w.beyond;
    }
    return buildPadded(builder, op.getInput(), low, high, value);
  }
  /// Returns an operand that gives the loops over a window their bounds, which linalg takes from operands, and its map.
  /// `outer` counts the loops around them.
  std::pair<Value, AffineMap> windowBounds(unsigned outer) {
    MixedSizes window;
    SmallVector<unsigned> loops;
    for (unsigned d = 0; d < spatial; ++d) {
      window.push_back(builder.getIndexAttr(op.getWindow()[d]));
      loops.push_back(outer + d);
    }
    return {builder.filled(window, builder.getF32FloatAttr(0)), builder.map(outer + spatial, loops)};
  }
  Value indicesOf(Value input, Value largest);
  Value countPositions();
  Value average();
  Value norm();

  ReferenceBuilder &builder;
  PoolOp op;
  unsigned spatial;
  MixedSizes sizes;
};
} // namespace

/// Where the largest elements are: the least index of an element that is equal to the largest one.
Value PoolLoops::indicesOf(Value input, Value largest) {
  MixedSizes inputSizes = builder.sizesOf(op.getInput());
  unsigned loops = 2 * spatial + 2;
  Value none = builder.filled(sizes, builder.getI64IntegerAttr(std::numeric_limits<int64_t>::max()));
  return builder.fold(none, spatial,
                      {{input, readMap()}, {largest, builder.leading(loops, spatial + 2)}, windowBounds(spatial + 2)},
                      [&](ScalarBuilder &b, ValueRange v) -> Value {
                        Value isNan = arith::AndIOp::create(b, b.isNan(v[0]), b.isNan(v[1]));
                        Value isFound = arith::OrIOp::create(b, b.isEqual(v[0], v[1]), isNan);
                        Value index;
                        for (unsigned d = 0; d < spatial; ++d) {
                          WindowDimension w = op.getWindowDimension(d);
                          Integer at = b.indexOf(d + 1) * w.stride + b.indexOf(spatial + 2 + d) * w.dilation - w.padLow;
                          Integer size(b, b.index(inputSizes[d + 1]));
                          isFound = arith::AndIOp::create(b, isFound, at < size);
                          index = index ? Value(Integer(b, index) * size + at) : Value(at);
                        }
                        index = arith::IndexCastOp::create(b, b.getI64Type(), index);
                        return b.select(isFound, arith::MinSIOp::create(b, index, v.back()), v.back());
                      });
}

/// The number of positions of each window that an average counts: [spatial…].
Value PoolLoops::countPositions() {
  SmallVector<int64_t> low, high, beyond, none(spatial);
  MixedSizes image = builder.sizesOf(op.getInput());
  MixedSizes inner(ArrayRef(image).slice(1, spatial)), outer(ArrayRef(sizes).slice(1, spatial));
  SmallVector<AffineExpr> read;
  for (unsigned d = 0; d < spatial; ++d) {
    WindowDimension w = op.getWindowDimension(d);
    low.push_back(w.padLow);
    high.push_back(w.padHigh);
    beyond.push_back(w.beyond);
    read.push_back(positionOf(d, d, spatial + d));
  }
  Value ones = builder.filled(inner, builder.getFloatAttr(builder.sumType, 1));
  ones = buildPadded(builder, ones, low, high, op.getCountIncludePad() ? 1 : 0);
  ones = buildPadded(builder, ones, none, beyond, 0);
  return builder.reduce(outer, spatial, 0.0,
                        {{ones, AffineMap::get(2 * spatial, 0, read, builder.getContext())}, windowBounds(spatial)},
                        [](ScalarBuilder &b, ValueRange v) { return b.add(v.back(), v[0]); });
}

Value PoolLoops::average() {
  Value sums = builder.reduce(sizes, spatial, 0.0, {{padded(0), readMap()}, windowBounds(spatial + 2)},
                              [](ScalarBuilder &b, ValueRange v) { return b.add(v.back(), b.exact(v[0])); });
  Type element = elementOf(op.getInput());
  unsigned rank = spatial + 2;
  SmallVector<unsigned> positions;
  for (unsigned d = 0; d < spatial; ++d)
    positions.push_back(d + 1);
  return builder.parallel(sizes, element,
                          {{sums, builder.identity(rank)}, {countPositions(), builder.map(rank, positions)}},
                          [&](ScalarBuilder &b, ValueRange v) { return b.narrow(b.div(v[0], v[1]), element); });
}

Value PoolLoops::norm() {
  auto p = double(op.getP());
  Value sums = builder.reduce(
      sizes, spatial, 0.0, {{padded(0), readMap()}, windowBounds(spatial + 2)}, [&](ScalarBuilder &b, ValueRange v) {
        Value x = b.abs(b.exact(v[0]));
        if (p == 2)
          x = b.mul(x, x);
        else if (p != 1)
          x = math::PowFOp::create(b, x, arith::ConstantOp::create(b, b.getFloatAttr(b.sumType, p)));
        return b.add(v.back(), x);
      });
  Type element = elementOf(op.getInput());
  return builder.parallel(
      sizes, element, {{sums, builder.identity(spatial + 2)}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
        Value x = v[0];
        if (p == 2)
          x = math::SqrtOp::create(b, x);
        else if (p != 1)
          x = math::PowFOp::create(b, x, arith::ConstantOp::create(b, b.getFloatAttr(b.sumType, 1 / p)));
        return b.narrow(x, element);
      });
}

SmallVector<Value> PoolLoops::build() {
  switch (op.getKind()) {
  case PoolKind::Average:
    return {average()};
  case PoolKind::Lp:
    return {norm()};
  case PoolKind::Max:
    break;
  }
  Type element = elementOf(op.getInput());
  Value input = padded(minusInfinity);
  Value largest = builder.fold(builder.filled(sizes, builder.getFloatAttr(element, minusInfinity)), spatial,
                               {{input, readMap()}, windowBounds(spatial + 2)},
                               [](ScalarBuilder &b, ValueRange v) { return b.max(v[0], v.back()); });
  if (!op.getWithIndices())
    return {largest};
  return {largest, indicesOf(input, largest)};
}

SmallVector<Value> PoolOp::buildReference(ReferenceBuilder &builder) { return PoolLoops(builder, *this).build(); }
