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

namespace {
/// Samples along one spatial dimension; all numbers are f32.
class Coordinate {
public:
  Coordinate(ScalarBuilder &b, GridSampleOp op, Value size)
      : b(b), op(op), size(size), length(b.toFloat({b, size})), last(b.sub(length, b.f32(1))) {}

  /// The position of the input that a coordinate of the grid means.
  Value position(Value coordinate) {
    Value right = b.add(coordinate, b.f32(1));
    return op.getCorners() ? b.mul(b.mul(right, b.f32(0.5f)), last)
                           : b.mul(b.sub(b.mul(right, length), b.f32(1)), b.f32(0.5f));
  }

  /// A number between others, the lower one if it is NaN.
  Value clipped(Value x, Value low, Value high) {
    Value isAbove = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, low);
    return b.min(b.select(isAbove, x, low), high);
  }

  /// A position that is clipped or turned over; as it is where what lies outside is zero. Never NaN, and near enough to
  /// the input to be an integer.
  Value inside(Value x) {
    if (op.getOutside() == OutsideKind::Zeros)
      return clipped(x, b.f32(-8), b.add(length, b.f32(8)));
    if (op.getOutside() == OutsideKind::Reflection) {
      Value low = b.f32(op.getCorners() ? 0 : -0.5f), span = op.getCorners() ? last : length;
      // |x - low| goes up and down between 0 and the span. A single element has no span.
      Value width = b.max(span, b.f32(0.5f));
      Value distance = b.abs(b.sub(x, low));
      Value turns = math::FloorOp::create(b, b.div(distance, width));
      Value rest = b.sub(distance, b.mul(turns, width));
      Value isBack =
          b.isEqual(b.sub(turns, b.mul(math::FloorOp::create(b, b.mul(turns, b.f32(0.5f))), b.f32(2))), b.f32(1));
      x = b.add(b.select(isBack, b.sub(width, rest), rest), low);
    }
    return clipped(x, b.f32(0), last);
  }

  /// Returns the elements that are read around a position, each with its weight.
  SmallVector<std::pair<Value, Value>> taps(Value x) {
    SmallVector<std::pair<Value, Value>> result;
    if (op.getKind() == Interpolation::Nearest) {
      result.push_back({math::RoundEvenOp::create(b, inside(x)), b.f32(1)});
    } else if (op.getKind() == Interpolation::Linear) {
      x = inside(x);
      Value below = math::FloorOp::create(b, x), part = b.sub(x, below);
      result.push_back({below, b.sub(b.f32(1), part)});
      result.push_back({b.add(below, b.f32(1)), part});
    } else {
      constexpr float far = 1 << 30;
      x = clipped(x, b.f32(-far), b.f32(far));
      Value below = math::FloorOp::create(b, x), part = b.sub(x, below);
      for (int tap = -1; tap <= 2; ++tap)
        result.push_back({inside(b.add(below, b.f32(float(tap)))), cubic(b.abs(b.sub(part, b.f32(float(tap)))), tap)});
    }
    return result;
  }

  /// An element as an index of the input, and whether there is one.
  std::pair<Value, Value> index(Value element) {
    Integer integer = b.toIndex(arith::FPToSIOp::create(b, b.getI64Type(), element));
    Integer isInside = integer < Integer(b, size); // a negative one is large without a sign
    return {choose(isInside, integer, 0), isInside};
  }

private:
  /// The kernel of Keys at the distance of a tap.
  Value cubic(Value distance, int tap) {
    auto [inner, outer] = buildCubic(b, distance, -0.75f);
    return tap == 0 || tap == 1 ? inner : outer;
  }

  ScalarBuilder &b;
  GridSampleOp op;
  Value size, length, last;
};
} // namespace

SmallVector<Value> GridSampleOp::buildReference(ReferenceBuilder &builder) {
  Value input = getInput();
  unsigned rank = rankOf(input), spatial = rank - 2;
  MixedSizes image = builder.sizesOf(input), sizes = builder.sizesOf(getGrid());
  sizes.back() = image.back();
  Type element = elementOf(input);
  // The grid has the last dimension's coordinate first.
  SmallVector<std::pair<Value, AffineMap>> coordinates;
  for (unsigned d = 0; d < spatial; ++d) {
    SmallVector<AffineExpr> read;
    for (unsigned loop = 0; loop + 1 < rank; ++loop)
      read.push_back(builder.getAffineDimExpr(loop));
    read.push_back(builder.getAffineConstantExpr(spatial - 1 - d));
    coordinates.push_back({getGrid(), AffineMap::get(rank, 0, read, builder.getContext())});
  }
  return {builder.parallel(sizes, element, coordinates, [&](ScalarBuilder &b, ValueRange v) {
    struct Read {
      SmallVector<Value> at;
      Value weight, isInside;
    };
    SmallVector<Read> reads = {{{b.indexOf(0)}, {}, {}}};
    for (unsigned d = 0; d < spatial; ++d) {
      Coordinate along(b, *this, b.index(image[d + 1]));
      SmallVector<Read> next;
      for (auto [place, weight] : along.taps(along.position(b.widen(v[d])))) {
        auto [index, isInside] = along.index(place);
        for (const Read &read : reads) {
          Read more = read;
          more.at.push_back(index);
          more.weight = read.weight ? b.mul(read.weight, weight) : weight;
          more.isInside = read.isInside ? arith::AndIOp::create(b, read.isInside, isInside).getResult() : isInside;
          next.push_back(more);
        }
      }
      reads = next;
    }
    Value zero = arith::ConstantOp::create(b, b.getFloatAttr(b.sumType, 0)), sum;
    for (Read &read : reads) {
      read.at.push_back(b.indexOf(rank - 1));
      Value value = b.exact(tensor::ExtractOp::create(b, input, read.at));
      value = b.select(read.isInside, value, zero);
      if (getKind() != Interpolation::Nearest)
        value = b.mul(value, b.exact(read.weight));
      sum = sum ? b.add(sum, value) : value;
    }
    return b.narrow(sum, element);
  })};
}
