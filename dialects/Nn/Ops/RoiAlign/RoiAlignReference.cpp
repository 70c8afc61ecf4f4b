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

/// Tables [regions, points] along one dimension of the image: the element before a point and the one behind it, i64,
/// and how near the point is to the one behind, f32; -1 for a point outside.
static std::array<Value, 3> buildPoints(ReferenceBuilder &builder, RoiAlignOp op, unsigned dimension) {
  int64_t cells = op.getSizes()[dimension], samples = op.getSamples();
  OpFoldResult regions = tensor::getMixedSize(builder, builder.getLoc(), op.getBoxes(), 0);
  Value size = getValueOrCreateConstantIndexOp(
      builder, builder.getLoc(), tensor::getMixedSize(builder, builder.getLoc(), op.getInput(), 1 + dimension));
  MixedSizes sizes = {regions, builder.getIndexAttr(cells * samples)};
  // A box is (x1, y1, x2, y2).
  auto corner = [&](unsigned number) {
    return std::pair(
        op.getBoxes(),
        AffineMap::get(2, 0, {builder.getAffineDimExpr(0), builder.getAffineConstantExpr(2 * number + 1 - dimension)},
                       builder.getContext()));
  };
  Value points = builder.parallel(
      sizes, builder.getF32Type(), {corner(0), corner(1)}, [&](ScalarBuilder &b, ValueRange v) -> Value {
        // In f64, so that all kernels which compute a point give the same f32.
        auto widen = [&](Value value) { return arith::ExtFOp::create(b, b.getF64Type(), value).getResult(); };
        auto number = [&](Integer integer) -> Value {
          return arith::SIToFPOp::create(b, b.getF64Type(),
                                         arith::IndexCastOp::create(b, b.getI64Type(), integer).getResult());
        };
        Value scale = b.f64(op.getSpatialScale().convertToFloat());
        Value begin = b.mul(widen(v[0]), scale), end = b.mul(widen(v[1]), scale);
        Value length = b.sub(end, begin);
        if (op.getHalfPixel())
          begin = b.sub(begin, b.f64(0.5));
        else
          length = b.max(length, b.f64(1));
        Value cell = b.div(length, b.f64(double(cells)));
        Value place = b.div(b.add(number(b.indexOf(1) % samples), b.f64(0.5)), b.f64(double(samples)));
        return b.narrow(b.add(begin, b.mul(b.add(number(b.indexOf(1) / samples), place), cell)), b.getF32Type());
      });
  auto table = [&](Type element, llvm::function_ref<Value(ScalarBuilder &, Value, Value)> body) {
    return builder.parallel(sizes, element, {{points, builder.identity(2)}}, [&](ScalarBuilder &b, ValueRange v) {
      // Points that are less than one element outside read the border. One that is NaN is outside.
      Value length = b.toFloat({b, size}), last = b.sub(length, b.f32(1));
      using P = arith::CmpFPredicate;
      Value isInside = arith::AndIOp::create(b, arith::CmpFOp::create(b, P::OGE, v[0], b.f32(-1)),
                                             arith::CmpFOp::create(b, P::OLE, v[0], length));
      Value x = b.select(isInside, b.min(b.max(v[0], b.f32(0)), last), b.f32(0));
      return body(b, x, isInside);
    });
  };
  auto position = [&](ScalarBuilder &b, Value whole) -> Value {
    return arith::FPToSIOp::create(b, b.getI64Type(), whole);
  };
  auto floorOf = [](ScalarBuilder &b, Value x) -> Value { return math::FloorOp::create(b, x); };
  Value before =
      table(builder.getI64Type(), [&](ScalarBuilder &b, Value x, Value) { return position(b, floorOf(b, x)); });
  Value behind = table(builder.getI64Type(), [&](ScalarBuilder &b, Value x, Value) {
    Value last = b.sub(b.toFloat({b, size}), b.f32(1));
    return position(b, b.min(b.add(floorOf(b, x), b.f32(1)), last));
  });
  Value nearness = table(builder.getF32Type(), [&](ScalarBuilder &b, Value x, Value isInside) {
    return b.select(isInside, b.sub(x, floorOf(b, x)), b.f32(-1));
  });
  return {before, behind, nearness};
}

SmallVector<Value> RoiAlignOp::buildReference(ReferenceBuilder &builder) {
  Value input = getInput();
  int64_t samples = getSamples();
  auto [top, bottom, down] = buildPoints(builder, *this, 0);
  auto [left, right, across] = buildPoints(builder, *this, 1);
  MixedSizes sizes = {tensor::getMixedSize(builder, builder.getLoc(), getBoxes(), 0),
                      builder.getIndexAttr(getSizes()[0]), builder.getIndexAttr(getSizes()[1]),
                      tensor::getMixedSize(builder, builder.getLoc(), input, 3)};
  // Loops are region, cell down and across, channel, then point of the cell down and across.
  auto point = [&](unsigned cell, unsigned sample) {
    AffineExpr number = builder.getAffineDimExpr(cell) * samples + builder.getAffineDimExpr(sample);
    return AffineMap::get(6, 0, {builder.getAffineDimExpr(0), number}, builder.getContext());
  };
  AffineMap rows = point(1, 4), columns = point(2, 5);
  Value bounds =
      builder.filled({builder.getIndexAttr(samples), builder.getIndexAttr(samples)}, builder.getF32FloatAttr(0));
  Value images = getValueOrCreateConstantIndexOp(builder, builder.getLoc(),
                                                 tensor::getMixedSize(builder, builder.getLoc(), input, 0));
  constexpr double notANumber = std::numeric_limits<double>::quiet_NaN();
  double initial = getLargest() ? minusInfinity : 0;
  Value result = builder.reduce(
      sizes, 2, initial,
      {{top, rows},
       {bottom, rows},
       {down, rows},
       {left, columns},
       {right, columns},
       {across, columns},
       {getImages(), builder.map(6, {0})},
       {bounds, builder.map(6, {4, 5})}},
      [&](ScalarBuilder &b, ValueRange v) {
        Value isOutside = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, b.min(v[2], v[5]), b.f32(0));
        // Kernels read no image that there is not.
        Integer image = b.toIndex(v[6]), isImage = image < Integer(b, images);
        image = choose(isImage, image, 0);
        Value one = b.f32(1), none = arith::ConstantOp::create(b, b.getFloatAttr(b.sumType, 0)), sum;
        for (auto [row, downWeight] : {std::pair(v[0], b.sub(one, v[2])), std::pair(v[1], v[2])})
          for (auto [column, acrossWeight] : {std::pair(v[3], b.sub(one, v[5])), std::pair(v[4], v[5])}) {
            Value read =
                tensor::ExtractOp::create(b, input, ValueRange{image, b.toIndex(row), b.toIndex(column), b.indexOf(3)});
            Value product = b.mul(b.exact(read), b.exact(b.mul(downWeight, acrossWeight)));
            sum = !sum ? product : getLargest() ? b.max(sum, product) : b.add(sum, product);
          }
        sum = b.select(isOutside, none, sum);
        sum = b.select(isImage, sum, arith::ConstantOp::create(b, b.getFloatAttr(b.sumType, notANumber)));
        return getLargest() ? b.max(v.back(), sum) : b.add(v.back(), sum);
      });
  Type element = elementOf(input);
  return {builder.parallel(sizes, element, {{result, builder.identity(4)}}, [&](ScalarBuilder &b, ValueRange v) {
    if (getLargest())
      return b.narrow(v[0], element);
    Value points = arith::ConstantOp::create(b, b.getFloatAttr(b.sumType, double(samples * samples)));
    return b.narrow(b.div(v[0], points), element);
  })};
}
