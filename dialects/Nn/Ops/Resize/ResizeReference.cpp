//===- ResizeReference.cpp - Reference of resampling ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The positions that an axis reads, and their weights, are computed once for each position of the result on that axis.
// They are stored in tables, which the loops over elements read.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include <cmath>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

namespace {
/// Builds the tables of one axis.
class AxisLoops {
public:
  AxisLoops(ReferenceBuilder &builder, ResizeOp op, unsigned number, Value input)
      : builder(builder), op(op), number(number), axis(op.getAxes()[number]),
        size(tensor::getMixedSize(builder, builder.getLoc(), input, axis)) {
    if (op.getSizes())
      made = builder.getIndexAttr((*op.getSizes())[number]);
    else
      made = tensor::getMixedSize(builder, builder.getLoc(), op.getLike(), number);
  }

  /// The coordinate of a position, f32.
  Value coordinate(ScalarBuilder &b, Integer position);
  /// The element that is nearest to each position: [made], i64.
  Value nearest();
  /// The elements that the kernel covers from, and their weights: [made], i64, and [made, taps], f32.
  std::pair<Value, Value> weights();
  /// Elements that the kernel covers around a coordinate.
  int64_t taps();
  /// A position as one of the input's.
  Value clamped(ScalarBuilder &b, Value position) {
    Value last = arith::SubIOp::create(b, b.index(size), b.index(int64_t(1)));
    return arith::MaxSIOp::create(b, arith::MinSIOp::create(b, position, last), b.index(int64_t(0)));
  }

  OpFoldResult getMade() const { return made; }
  unsigned getAxis() const { return axis; }

private:
  float factor() { return op.getAntialias() ? std::max(1.0f, *op.getStep(number)) : 1.0f; }
  int64_t support() { return op.getKind() == Interpolation::Linear ? 1 : 2; }
  /// The kernel at a distance, f32, which is not negative.
  Value kernel(ScalarBuilder &b, Value distance);

  ReferenceBuilder &builder;
  ResizeOp op;
  unsigned number;
  unsigned axis;
  OpFoldResult size, made;
};
} // namespace

static Value toPosition(ScalarBuilder &b, Value whole) {
  return arith::IndexCastOp::create(b, b.getIndexType(), arith::FPToSIOp::create(b, b.getI64Type(), whole));
}

Value AxisLoops::coordinate(ScalarBuilder &b, Integer position) {
  // Products of numbers of f32 are exact in f64, so that kernels which fuse sums into them give the same.
  auto widen = [&](Value value) { return arith::ExtFOp::create(b, b.getF64Type(), value).getResult(); };
  Value x =
      arith::SIToFPOp::create(b, b.getF64Type(), arith::IndexCastOp::create(b, b.getI64Type(), position).getResult());
  if (op.getShifts() && (*op.getShifts())[number] != 0)
    x = b.add(x, b.f64((*op.getShifts())[number]));
  if (std::optional<float> step = op.getStep(number)) {
    x = b.mul(x, b.f64(*step));
  } else {
    Value read = b.toFloat({b, b.index(size)}), written = b.toFloat({b, b.index(made)});
    if (op.getCorners()) {
      // A result of size 1 reads the first element.
      read = b.sub(read, b.f32(1));
      Value steps = b.sub(written, b.f32(1));
      Value isAlone = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, steps, b.f32(0));
      x = b.mul(x, widen(b.select(isAlone, b.f32(0), b.div(read, b.max(steps, b.f32(1))))));
    } else {
      x = b.mul(x, widen(b.div(read, written)));
    }
  }
  if (op.getOffsets() && (*op.getOffsets())[number] != 0)
    x = b.add(x, b.f64((*op.getOffsets())[number]));
  // Positions are integers of 64 bits: coordinates that no tensor has need not be exact.
  constexpr double far = 1 << 30;
  return b.narrow(b.min(b.max(x, b.f64(-far)), b.f64(2 * far)), b.getF32Type());
}

Value AxisLoops::nearest() {
  return builder.parallel({made}, builder.getI64Type(), {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Value x = coordinate(b, b.indexOf(0));
    switch (op.getRounding()) {
    case NearestRounding::Floor:
      x = math::FloorOp::create(b, x);
      break;
    case NearestRounding::Ceil:
      x = math::CeilOp::create(b, x);
      break;
    case NearestRounding::HalfDown:
      x = math::CeilOp::create(b, b.sub(x, b.f32(0.5f)));
      break;
    case NearestRounding::HalfUp:
      x = math::FloorOp::create(b, b.add(x, b.f32(0.5f)));
      break;
    }
    return arith::IndexCastOp::create(b, b.getI64Type(), clamped(b, toPosition(b, x)));
  });
}

int64_t AxisLoops::taps() { return static_cast<int64_t>(std::ceil(2 * support() * factor())); }

Value AxisLoops::kernel(ScalarBuilder &b, Value distance) {
  Value one = b.f32(1);
  if (op.getKind() == Interpolation::Linear)
    return b.max(b.sub(one, distance), b.f32(0));
  float a = op.getCoefficient().convertToFloat();
  auto [inner, outer] = buildCubic(b, distance, a);
  auto isAtMost = [&](float limit) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, distance, b.f32(limit)).getResult();
  };
  return b.select(isAtMost(1), inner, b.select(isAtMost(2), outer, b.f32(0)));
}

std::pair<Value, Value> AxisLoops::weights() {
  float reach = float(support()) * factor();
  Value first = builder.parallel({made}, builder.getI64Type(), {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Value below = math::FloorOp::create(b, b.sub(coordinate(b, b.indexOf(0)), b.f32(reach)));
    return arith::FPToSIOp::create(b, b.getI64Type(), b.add(below, b.f32(1))); // the first that is nearer
  });
  MixedSizes table = {made, builder.getIndexAttr(taps())};
  AffineMap ofPosition = builder.leading(2, 1);
  Value weights =
      builder.parallel(table, builder.getF32Type(), {{first, ofPosition}}, [&](ScalarBuilder &b, ValueRange v) {
        Value x = coordinate(b, b.indexOf(0));
        Integer position = b.toIndex(v[0]) + b.indexOf(1);
        Value distance = b.abs(b.sub(b.toFloat(position), x));
        if (factor() != 1)
          distance = b.div(distance, b.f32(factor()));
        Value weight = kernel(b, distance);
        if (op.getExcludeOutside()) // a negative position is a large one without a sign
          weight = b.select(position < Integer(b, b.index(size)), weight, b.f32(0));
        return weight;
      });
  if (!op.getExcludeOutside() && !op.getAntialias())
    return {first, weights};
  Value sums = builder.fold(builder.filled({made}, builder.getF32FloatAttr(0)), 1, {{weights, builder.identity(2)}},
                            [](ScalarBuilder &b, ValueRange v) { return b.add(v[1], v[0]); });
  weights = builder.parallel(table, builder.getF32Type(), {{weights, builder.identity(2)}, {sums, ofPosition}},
                             [](ScalarBuilder &b, ValueRange v) { return b.div(v[0], v[1]); });
  return {first, weights};
}

/// Reads each axis at the positions of its table.
static Value buildNearest(ReferenceBuilder &builder, ResizeOp op) {
  Value input = op.getInput();
  unsigned rank = rankOf(input);
  MixedSizes sizes = builder.sizesOf(input);
  SmallVector<std::pair<Value, AffineMap>> tables;
  for (unsigned number = 0; number < op.getAxes().size(); ++number) {
    AxisLoops axis(builder, op, number, input);
    tables.push_back({axis.nearest(), builder.map(rank, {axis.getAxis()})});
    sizes[axis.getAxis()] = axis.getMade();
  }
  return builder.parallel(sizes, elementOf(input), tables, [&](ScalarBuilder &b, ValueRange v) -> Value {
    SmallVector<Value> at;
    for (unsigned d = 0; d < rank; ++d)
      at.push_back(b.indexOf(d));
    for (auto [axis, position] : llvm::zip(op.getAxes(), v))
      at[axis] = b.toIndex(position);
    return tensor::ExtractOp::create(b, input, at);
  });
}

/// Adds up along one axis what the kernel weighs.
static Value buildAlong(ReferenceBuilder &builder, ResizeOp op, unsigned number, Value input) {
  AxisLoops axis(builder, op, number, input);
  unsigned rank = rankOf(input), along = axis.getAxis();
  auto [first, weights] = axis.weights();
  MixedSizes sizes = builder.sizesOf(input);
  sizes[along] = axis.getMade();
  auto read = [&](ScalarBuilder &b, Value start, Value tap) {
    SmallVector<Value> at;
    for (unsigned d = 0; d < rank; ++d)
      at.push_back(b.indexOf(d));
    at[along] = axis.clamped(b, Integer(b, b.toIndex(start)) + Integer(b, tap));
    return b.exact(tensor::ExtractOp::create(b, input, at));
  };
  // Few elements are read by a body without a loop.
  if (int64_t taps = axis.taps(); taps <= 4) {
    SmallVector<std::pair<Value, AffineMap>> tables = {{first, builder.map(rank, {along})}};
    AffineExpr position = builder.getAffineDimExpr(along);
    for (int64_t tap = 0; tap < taps; ++tap)
      tables.push_back(
          {weights, AffineMap::get(rank, 0, {position, builder.getAffineConstantExpr(tap)}, builder.getContext())});
    return builder.parallel(sizes, builder.sumType, tables, [&](ScalarBuilder &b, ValueRange v) {
      Value sum;
      for (int64_t tap = 0; tap < taps; ++tap) {
        Value product = b.mul(read(b, v[0], b.index(tap)), b.exact(v[1 + tap]));
        sum = sum ? b.add(sum, product) : product;
      }
      return sum;
    });
  }
  return builder.reduce(sizes, 1, 0.0,
                        {{first, builder.map(rank + 1, {along})}, {weights, builder.map(rank + 1, {along, rank})}},
                        [&](ScalarBuilder &b, ValueRange v) {
                          return b.add(v[2], b.mul(read(b, v[0], b.indexOf(rank)), b.exact(v[1])));
                        });
}

/// Rounds the sums, and puts in the number of `outside` where a coordinate is outside.
static Value buildRounded(ReferenceBuilder &builder, ResizeOp op, Value sums) {
  unsigned rank = rankOf(sums);
  Type element = elementOf(op.getInput());
  SmallVector<AxisLoops> axes;
  for (unsigned number = 0; op.getOutside() && number < op.getAxes().size(); ++number)
    axes.emplace_back(builder, op, number, op.getInput());
  if (axes.empty())
    return buildNarrow(builder, sums, element);
  SmallVector<std::pair<Value, AffineMap>> inputs = {{sums, builder.identity(rank)}};
  for (AxisLoops &axis : axes) {
    Value last = getValueOrCreateConstantIndexOp(
        builder, builder.getLoc(), tensor::getMixedSize(builder, builder.getLoc(), op.getInput(), axis.getAxis()));
    inputs.push_back({builder.parallel({axis.getMade()}, builder.getF32Type(), {},
                                       [&](ScalarBuilder &b, ValueRange) -> Value {
                                         // 0 for coordinates inside, 1 for others.
                                         Value x = axis.coordinate(b, b.indexOf(0));
                                         Value end = b.sub(b.toFloat({b, last}), b.f32(1));
                                         using P = arith::CmpFPredicate;
                                         Value isBelow = arith::CmpFOp::create(b, P::OLT, x, b.f32(0));
                                         Value isAbove = arith::CmpFOp::create(b, P::OGT, x, end);
                                         Value isOutside = arith::OrIOp::create(b, isBelow, isAbove);
                                         return b.select(isOutside, b.f32(1), b.f32(0));
                                       }),
                      builder.map(rank, {axis.getAxis()})});
  }
  return builder.parallel(builder.sizesOf(sums), element, inputs, [&](ScalarBuilder &b, ValueRange v) -> Value {
    Value far = v[1];
    for (unsigned i = 2; i <= axes.size(); ++i)
      far = b.max(far, v[i]);
    Value isInside = b.isEqual(far, b.f32(0));
    Value value = arith::ConstantOp::create(b, b.getFloatAttr(element, op.getOutside()->convertToDouble()));
    return b.select(isInside, b.narrow(v[0], element), value);
  });
}

SmallVector<Value> ResizeOp::buildReference(ReferenceBuilder &builder) {
  if (getKind() == Interpolation::Nearest)
    return {buildNearest(builder, *this)};
  Value sums = getInput();
  for (unsigned number = 0; number < getAxes().size(); ++number)
    sums = buildAlong(builder, *this, number, sums);
  return {buildRounded(builder, *this, sums)};
}
