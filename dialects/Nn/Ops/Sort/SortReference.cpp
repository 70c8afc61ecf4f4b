//===- SortReference.cpp - Reference of sorting ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A merge sort: in each step two sorted runs become one, of twice the length. An element of the new run finds by binary
// search how many of those before it come from the first of the two runs ("Merge path", arXiv 1406.2628), so that all
// elements of a step are computed beside each other. Runs have a power of two of elements, and of the largest k
// elements none becomes longer than the next power of two of k. Where the size is dynamic, so is the number of steps:
// there each element is compared with each other one, and its rank is the number of those before it.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

namespace {
class SortLoops {
public:
  SortLoops(ReferenceBuilder &builder, Value input, int64_t axis, bool isDescending)
      : builder(builder), input(input), axis(axis), rank(rankOf(input)), isDescending(isDescending),
        sizes(builder.sizesOf(input)) {
    Type element = elementOf(input);
    key = builder.getIntegerType(element.getIntOrFloatBitWidth() > 32 ? 64 : 32);
  }

  /// Where the first `count` elements in order are: [sizes, but `count` along the axis], i64.
  Value order(OpFoldResult count);
  /// The elements that an order says.
  Value take(Value order);

private:
  /// An integer whose order is that of the elements.
  Value keyOf(ScalarBuilder &b, Value element);
  Value keys(int64_t padded);
  Value merge(Value keys, Value order, int64_t run, int64_t longest, int64_t runs);
  /// The first `count` elements along the axis.
  Value firstOf(Value tensor, OpFoldResult count) {
    SmallVector<OpFoldResult> zeros(rank, builder.getIndexAttr(0)), ones(rank, builder.getIndexAttr(1));
    return tensor::ExtractSliceOp::create(builder, tensor, zeros, with(count), ones);
  }
  Value orderOfStatic(int64_t size, int64_t count);
  Value orderOfDynamic(OpFoldResult count);
  SmallVector<Value> here(ScalarBuilder &b, Value position) {
    SmallVector<Value> at;
    for (unsigned d = 0; d < rank; ++d)
      at.push_back(b.indexOf(d));
    at[axis] = position;
    return at;
  }
  MixedSizes with(OpFoldResult size) {
    MixedSizes result = sizes;
    result[axis] = size;
    return result;
  }
  AffineMap mapWith(unsigned loops, AffineExpr along) {
    SmallVector<AffineExpr> results;
    for (unsigned d = 0; d < rank; ++d)
      results.push_back(d == axis ? along : builder.getAffineDimExpr(d));
    return AffineMap::get(loops, 0, results, builder.getContext());
  }

  ReferenceBuilder &builder;
  Value input;
  unsigned axis, rank;
  bool isDescending;
  MixedSizes sizes;
  IntegerType key;
};
} // namespace

Value SortLoops::keyOf(ScalarBuilder &b, Value element) {
  auto number = [&](const APInt &value) -> Value { return arith::ConstantOp::create(b, b.getIntegerAttr(key, value)); };
  unsigned width = key.getWidth();
  Value result = element;
  if (auto type = dyn_cast<FloatType>(element.getType())) {
    if (type.getWidth() < 32)
      element = b.widen(element);
    // The bits of floats have their order as integers with a sign and a magnitude.
    Value bits = arith::BitcastOp::create(b, key, element);
    Value sign = arith::ShRSIOp::create(b, bits, number(APInt(width, width - 1)));
    Value magnitude = arith::AndIOp::create(b, bits, number(APInt::getSignedMaxValue(width)));
    result = arith::SubIOp::create(b, arith::XOrIOp::create(b, magnitude, sign), sign);
    result = b.select(b.isNan(element), number(APInt::getSignedMaxValue(width)), result);
  } else if (element.getType().isInteger(1)) {
    result = arith::ExtUIOp::create(b, key, element); // false, then true
  } else if (element.getType().getIntOrFloatBitWidth() < width) {
    result = arith::ExtSIOp::create(b, key, element);
  }
  return isDescending ? arith::XOrIOp::create(b, result, number(APInt::getAllOnes(width))) : result;
}

/// The keys, and behind them so many of the largest integer that there is a power of two of them.
Value SortLoops::keys(int64_t padded) {
  Value size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), sizes[axis]);
  return builder.parallel(with(builder.getIndexAttr(padded)), key, {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Integer position = b.indexOf(axis), last = Integer(b, size) - 1;
    Value element = tensor::ExtractOp::create(b, input, here(b, smaller(position, last)));
    Value behind = arith::ConstantOp::create(b, b.getIntegerAttr(key, APInt::getSignedMaxValue(key.getWidth())));
    return b.select(position <= last, keyOf(b, element), behind);
  });
}

/// Merges every two of `runs` runs of `run` elements, and keeps the first `longest` elements of each new one.
Value SortLoops::merge(Value keys, Value order, int64_t run, int64_t longest, int64_t runs) {
  OpFoldResult size = builder.getIndexAttr(runs / 2 * longest);
  return builder.parallel(with(size), builder.getI64Type(), {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Integer position = b.indexOf(axis), zero(b, b.index(int64_t(0)));
    Integer first = position / longest * (2 * run), place = position % longest;
    auto indexAt = [&](Integer at) -> Value { return tensor::ExtractOp::create(b, order, here(b, at)); };
    auto keyAt = [&](Integer at) -> Value {
      return tensor::ExtractOp::create(b, keys, here(b, b.toIndex(indexAt(at))));
    };
    // True if element i of the first run comes before element j of the second one.
    auto isBefore = [&](Integer i, Integer j) -> Integer {
      return {b, arith::CmpIOp::create(b, arith::CmpIPredicate::sle, keyAt(first + i), keyAt(first + run + j))};
    };
    // Of the `place` elements before this one, so many at least and at most are of the first run.
    Integer low = choose(place < run, zero, place - run), high = smaller(place, Integer(b, b.index(run)));
    for (int64_t width = std::min(run, longest); width > 0; width /= 2) {
      Integer middle = (low + high) / 2;
      Integer isOpen = low < high;
      // Where the search has ended, what is compared does not matter.
      Integer i = smaller(middle, Integer(b, b.index(run - 1)));
      Integer j = choose(isOpen, place - 1 - middle, zero);
      Integer takes = isOpen & isBefore(i, j);
      Integer next = choose(takes, middle + 1, low);
      high = choose(takes, high, choose(isOpen, middle, high));
      low = next;
    }
    Integer last(b, b.index(run - 1)), i = smaller(low, last), j = smaller(place - low, last);
    Integer isFirst = (low < run) & (isBefore(i, j) | (last < place - low));
    return indexAt(first + choose(isFirst, i, j + run));
  });
}

Value SortLoops::orderOfStatic(int64_t size, int64_t count) {
  auto padded = int64_t(llvm::PowerOf2Ceil(size));
  auto most = int64_t(llvm::PowerOf2Ceil(count));
  Value all = keys(padded);
  Value order = builder.parallel(with(builder.getIndexAttr(padded)), builder.getI64Type(), {},
                                 [&](ScalarBuilder &b, ValueRange) -> Value {
                                   return arith::IndexCastOp::create(b, b.getI64Type(), b.indexOf(axis));
                                 });
  for (int64_t run = 1, runs = padded; runs > 1; runs /= 2) {
    int64_t longest = std::min(2 * run, most);
    order = merge(all, order, run, longest, runs);
    run = longest;
  }
  return firstOf(order, builder.getIndexAttr(count));
}

Value SortLoops::orderOfDynamic(OpFoldResult count) {
  Type i64 = builder.getI64Type();
  Value keys = builder.parallel(sizes, key, {{input, builder.identity(rank)}},
                                [&](ScalarBuilder &b, ValueRange v) { return keyOf(b, v[0]); });
  AffineMap mine = builder.leading(rank + 1, rank), others = mapWith(rank + 1, builder.getAffineDimExpr(rank));
  TypedAttr zero = builder.getI64IntegerAttr(0);
  auto i64Of = [](ScalarBuilder &b, Value index) -> Value {
    return arith::IndexCastOp::create(b, b.getI64Type(), index);
  };
  Value ranks = builder.fold(builder.filled(sizes, zero), 1, {{keys, mine}, {keys, others}},
                             [&](ScalarBuilder &b, ValueRange v) -> Value {
                               Integer isEarlier = b.indexOf(rank) < b.indexOf(axis);
                               Integer isLess(b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, v[1], v[0]));
                               Integer isBefore = isLess | (isEarlier & (Integer(b, v[1]) == Integer(b, v[0])));
                               return Integer(b, v[2]) + Integer(b, arith::ExtUIOp::create(b, i64, isBefore));
                             });
  // The element of each rank replaces what the result holds before: the first positions, which there must be.
  Value positions = builder.parallel(sizes, i64, {},
                                     [&](ScalarBuilder &b, ValueRange) -> Value { return i64Of(b, b.indexOf(axis)); });
  positions = firstOf(positions, count);
  return builder.fold(positions, 1, {{ranks, others}}, [&](ScalarBuilder &b, ValueRange v) {
    Integer isIt = Integer(b, v[0]) == Integer(b, i64Of(b, b.indexOf(axis)));
    return Value(choose(isIt, Integer(b, i64Of(b, b.indexOf(rank))), Integer(b, v[1])));
  });
}

Value SortLoops::order(OpFoldResult count) {
  std::optional<int64_t> size = getConstantIntValue(sizes[axis]), number = getConstantIntValue(count);
  if (number == 0 || size == 0)
    return builder.filled(with(count), builder.getI64IntegerAttr(0));
  return size ? orderOfStatic(*size, *number) : orderOfDynamic(count);
}

Value SortLoops::take(Value order) {
  return builder.parallel(builder.sizesOf(order), elementOf(input), {{order, builder.identity(rank)}},
                          [&](ScalarBuilder &b, ValueRange v) -> Value {
                            return tensor::ExtractOp::create(b, input, here(b, b.toIndex(v[0])));
                          });
}

SmallVector<Value> TopKOp::buildReference(ReferenceBuilder &builder) {
  SortLoops loops(builder, getInput(), getAxis(), !getSmallest());
  Value order = loops.order(builder.getIndexAttr(getK()));
  return {loops.take(order), order};
}

SmallVector<Value> SortOp::buildReference(ReferenceBuilder &builder) {
  SortLoops loops(builder, getInput(), getAxis(), getDescending());
  Value order = loops.order(builder.sizesOf(getInput())[getAxis()]);
  return {loops.take(order), order};
}
