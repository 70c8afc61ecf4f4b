//===- NmsReference.cpp - Reference of nn.nms -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Boxes are sorted by their scores. Each step takes the first open box of all batches and classes beside each other,
// and closes those that it overlaps; there are as many steps as the class with the most boxes takes.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include <limits>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

namespace {
/// The state of a box: suppressed, still a candidate, or selected.
enum State : int8_t { Closed, Open, Taken };

class NmsLoops {
public:
  NmsLoops(ReferenceBuilder &builder, NmsOp op)
      : builder(builder), op(op), f32(builder.getF32Type()), i64(builder.getI64Type()), i8(builder.getI8Type()) {
    auto sort = SortOp::create(builder, op.getScores(), /*axis=*/2, /*descending=*/true);
    scores = sort.getValues();
    order = sort.getIndices();
    sizes = builder.sizesOf(scores);
    boxes = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), sizes[2]);
  }

  SmallVector<Value> build() {
    if (isConstantIntValue(sizes[2], 0)) // nothing could be read
      return {builder.filled({builder.getIndexAttr(0), builder.getIndexAttr(3)}, builder.getI64IntegerAttr(0)),
              builder.filled({}, builder.getI64IntegerAttr(0))};
    corners = buildCorners();
    return select(buildSteps(buildStart()));
  }

private:
  Value buildCorners();
  Value buildStart();
  Value buildFirst(Value states);
  Value buildStep(Value states, Value first);
  Value buildSteps(Value start);
  SmallVector<Value> select(Value states);

  Value constant(ScalarBuilder &b, State state) { return arith::ConstantOp::create(b, b.getI8IntegerAttr(state)); }
  Value is(ScalarBuilder &b, Value state, State which) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, state, constant(b, which));
  }

  ReferenceBuilder &builder;
  NmsOp op;
  Type f32, i64, i8;
  Value scores, order; ///< [batch, classes, boxes], the best first
  MixedSizes sizes;    ///< of these
  Value boxes;         ///< how many
  Value corners;       ///< [batch, classes, boxes, 4], in that order: the lower corner, then the higher one, f32
};
} // namespace

Value NmsLoops::buildCorners() {
  MixedSizes all = sizes;
  all.push_back(builder.getIndexAttr(4));
  return builder.parallel(all, f32, {{order, builder.leading(4, 3)}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
    Integer corner = b.indexOf(3), dimension = corner % 2, isLow = corner < Integer(b, b.index(int64_t(2)));
    auto read = [&](Integer number) {
      return b.widen(tensor::ExtractOp::create(b, op.getBoxes(), ValueRange{b.indexOf(0), b.toIndex(v[0]), number}));
    };
    Value first = read(dimension), second = read(dimension + 2);
    if (!op.getCentered())
      return b.select(isLow, b.min(first, second), b.max(first, second));
    Value half = b.div(second, b.f32(2));
    return b.select(isLow, b.sub(first, half), b.add(first, half));
  });
}

/// The state of each box before the first step.
Value NmsLoops::buildStart() {
  SmallVector<std::pair<Value, AffineMap>> inputs = {{scores, builder.identity(3)}};
  if (op.getScoreThreshold())
    inputs.push_back({op.getScoreThreshold(), builder.map(3, {})});
  return builder.parallel(sizes, i8, inputs, [&](ScalarBuilder &b, ValueRange v) {
    using P = arith::CmpFPredicate;
    Value score = b.widen(v[0]), least = op.getScoreThreshold() ? v[1] : score;
    Value isOpen = arith::CmpFOp::create(b, op.getScoreThreshold() ? P::OGT : P::ORD, score, least);
    return b.select(isOpen, constant(b, Open), constant(b, Closed));
  });
}

/// The first open box of each class, more than there are if there is none: [batch, classes].
Value NmsLoops::buildFirst(Value states) {
  TypedAttr none = builder.getI64IntegerAttr(std::numeric_limits<int64_t>::max());
  return builder.fold(builder.filled(ArrayRef(sizes).take_front(2), none), 1, {{states, builder.identity(3)}},
                      [&](ScalarBuilder &b, ValueRange v) -> Value {
                        Integer here(b, arith::IndexCastOp::create(b, i64, Value(b.indexOf(2)))), first(b, v[1]);
                        return choose({b, is(b, v[0], Open)}, smaller(first, here), first);
                      });
}

Value NmsLoops::buildStep(Value states, Value first) {
  return builder.parallel(
      sizes, i8,
      {{states, builder.identity(3)}, {first, builder.leading(3, 2)}, {op.getIouThreshold(), builder.map(3, {})}},
      [&](ScalarBuilder &b, ValueRange v) -> Value {
        Integer here = b.indexOf(2), taken = b.toIndex(v[1]), isAny = taken < Integer(b, boxes);
        Integer other = choose(isAny, taken, 0);
        Value zero = b.f32(0), width[3] = {}, overlaps;
        auto require = [&](arith::CmpFPredicate predicate, Value left, Value right) {
          Value holds = arith::CmpFOp::create(b, predicate, left, right);
          overlaps = overlaps ? arith::AndIOp::create(b, overlaps, holds).getResult() : holds;
        };
        auto isAbove = arith::CmpFPredicate::OGT;
        Value areas[3]; // of this box, of the one that is taken, of what is in both
        for (int64_t dimension : {0, 1}) {
          auto corner = [&](Integer box, int64_t number) -> Value {
            Value at = b.index(number);
            return tensor::ExtractOp::create(b, corners, ValueRange{b.indexOf(0), b.indexOf(1), box, at});
          };
          Value low = corner(here, dimension), high = corner(here, dimension + 2);
          Value otherLow = corner(other, dimension), otherHigh = corner(other, dimension + 2);
          width[0] = b.sub(high, low);
          width[1] = b.sub(otherHigh, otherLow);
          width[2] = b.sub(b.min(high, otherHigh), b.max(low, otherLow));
          require(isAbove, width[2], zero); // NaN is not above
          for (auto [area, length] : llvm::zip_equal(areas, width))
            area = dimension == 0 ? length : b.mul(area, length);
        }
        Value either = b.sub(b.add(areas[0], areas[1]), areas[2]);
        require(isAbove, either, zero);
        require(isAbove, b.div(areas[2], either), v[2]);
        Value isClosed = arith::AndIOp::create(b, isAny, overlaps);
        Value next = b.select(isClosed, constant(b, Closed), v[0]);
        next = b.select(isAny & (here == taken), constant(b, Taken), next);
        return b.select(is(b, v[0], Open), next, v[0]);
      });
}

Value NmsLoops::buildSteps(Value start) {
  Value zero = arith::ConstantOp::create(builder, builder.getI64IntegerAttr(0));
  Value one = arith::ConstantOp::create(builder, builder.getI64IntegerAttr(1));
  Value limit = tensor::ExtractOp::create(builder, op.getLimit(), ValueRange());
  Value end = arith::IndexCastOp::create(builder, i64, boxes);
  SmallVector<Value> inits = {start, buildFirst(start), zero};
  auto ignore = [](OpBuilder &, Location, ValueRange) {};
  OpBuilder::InsertionGuard guard(builder);
  auto loop = scf::WhileOp::create(builder, ValueRange(inits).getTypes(), inits, ignore, ignore);
  builder.setInsertionPointToEnd(loop.getBeforeBody());
  ValueRange values = loop.getBeforeArguments();
  TypedAttr none = builder.getI64IntegerAttr(std::numeric_limits<int64_t>::max());
  Value least =
      builder.fold(builder.filled({}, none), 2, {{values[1], builder.identity(2)}},
                   [](ScalarBuilder &b, ValueRange v) -> Value { return arith::MinSIOp::create(b, v[0], v[1]); });
  using P = arith::CmpIPredicate;
  Value isAny = arith::CmpIOp::create(builder, P::slt, tensor::ExtractOp::create(builder, least, ValueRange()), end);
  Value goesOn = arith::AndIOp::create(builder, isAny, arith::CmpIOp::create(builder, P::slt, values[2], limit));
  scf::ConditionOp::create(builder, goesOn, values);
  builder.setInsertionPointToEnd(loop.getAfterBody());
  values = loop.getAfterArguments();
  Value next = buildStep(values[0], values[1]);
  Value steps = arith::AddIOp::create(builder, values[2], one);
  scf::YieldOp::create(builder, ValueRange{next, buildFirst(next), steps});
  return loop.getResult(0);
}

/// The rows of the boxes that are taken, and how many they are.
SmallVector<Value> NmsLoops::select(Value states) {
  Value isTaken = builder.parallel(sizes, builder.getI1Type(), {{states, builder.identity(3)}},
                                   [&](ScalarBuilder &b, ValueRange v) { return is(b, v[0], Taken); });
  auto taken = NonzeroOp::create(builder, isTaken);
  Value rows = taken.getIndices();
  auto column = [&](int64_t number) {
    return AffineMap::get(2, 0, {builder.getAffineDimExpr(0), builder.getAffineConstantExpr(number)},
                          builder.getContext());
  };
  Value selected =
      builder.parallel(builder.sizesOf(rows), i64,
                       {{rows, builder.identity(2)}, {rows, column(0)}, {rows, column(1)}, {rows, column(2)}},
                       [&](ScalarBuilder &b, ValueRange v) -> Value {
                         Value isNone = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, v[0],
                                                              arith::ConstantOp::create(b, b.getI64IntegerAttr(0)));
                         SmallVector<Value> at;
                         for (Value index : v.slice(1, 3))
                           at.push_back(choose({b, isNone}, 0, b.toIndex(index)));
                         Value box = tensor::ExtractOp::create(b, order, at);
                         Value isBox = b.indexOf(1) == Integer(b, b.index(int64_t(2)));
                         return b.select(isBox, b.select(isNone, v[0], box), v[0]);
                       });
  return {selected, taken.getCount()};
}

SmallVector<Value> NmsOp::buildReference(ReferenceBuilder &builder) {
  // Without boxes there is nothing to read.
  if (llvm::is_contained(cast<RankedTensorType>(getScores().getType()).getShape(), 0)) {
    TypedAttr none = builder.getI64IntegerAttr(0);
    return {builder.filled({builder.getIndexAttr(0), builder.getIndexAttr(3)}, none), builder.filled({}, none)};
  }
  return NmsLoops(builder, *this).build();
}
