//===- SortReference.cpp - Reference of sorting ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Elements of at most 32 bits and their indices are one integer each, so that no two are equal. Blocks of them are
// sorted by their ranks: how many of the block are less. Then in each step two sorted runs become one. An element of
// the new run finds by binary search how many of those before it come from the first of the two runs ("Merge path",
// arXiv 1406.2628), so that all elements of a step are computed beside each other. Runs have a power of two of
// elements, and of the largest k elements none becomes longer than the next power of two of k. Where the size is
// dynamic, so would be the number of steps: there, and of wider elements, the ranks are those among all elements.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

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
  /// Keys and indices as integers of 64 bits, of so many elements: those behind the last one are larger than all.
  Value places(int64_t padded);
  Value sortBlocks(Value places, int64_t blocks, int64_t block);
  Value merge(Value places, int64_t run, int64_t longest, int64_t runs);
  /// The first `count` elements along the axis.
  Value firstOf(Value tensor, OpFoldResult count) {
    SmallVector<OpFoldResult> zeros(rank, builder.getIndexAttr(0)), ones(rank, builder.getIndexAttr(1));
    return tensor::ExtractSliceOp::create(builder, tensor, zeros, with(count), ones);
  }
  Value orderByMerging(int64_t size, int64_t count);
  Value orderByRanks(OpFoldResult count);
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

/// True if a result of these sizes has no elements, so that there may be none to read.
static bool isEmpty(const MixedSizes &sizes) {
  return llvm::any_of(sizes, [](OpFoldResult size) { return isConstantIntValue(size, 0); });
}

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

Value SortLoops::places(int64_t padded) {
  Value size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), sizes[axis]);
  Type i64 = builder.getI64Type();
  return builder.parallel(with(builder.getIndexAttr(padded)), i64, {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Integer position = b.indexOf(axis), last = Integer(b, size) - 1;
    Value element = tensor::ExtractOp::create(b, input, here(b, smaller(position, last)));
    Value behind = arith::ConstantOp::create(b, b.getI32IntegerAttr(std::numeric_limits<int32_t>::max()));
    Integer high(b, arith::ExtSIOp::create(b, i64, b.select(position <= last, keyOf(b, element), behind)));
    return (high << 32) | Integer(b, arith::IndexCastOp::create(b, i64, position));
  });
}

/// Sorts each of `blocks` blocks of `block` elements.
Value SortLoops::sortBlocks(Value places, int64_t blocks, int64_t block) {
  // Loops: the dimensions, of which that of the axis are two, for a block and a place in it, then places of the block.
  MixedSizes split = with(builder.getIndexAttr(blocks));
  split.insert(split.begin() + axis + 1, builder.getIndexAttr(block));
  unsigned loops = rank + 2, place = axis + 1, other = rank + 1;
  auto read = [&](unsigned inBlock) {
    SmallVector<AffineExpr> results;
    for (unsigned d = 0; d < rank; ++d)
      results.push_back(builder.getAffineDimExpr(d <= axis ? d : d + 1));
    results[axis] = results[axis] * block + builder.getAffineDimExpr(inBlock);
    return AffineMap::get(loops, 0, results, builder.getContext());
  };
  Value bounds = builder.filled({builder.getIndexAttr(block)}, builder.getF32FloatAttr(0));
  Value ranks = builder.fold(builder.filled(split, builder.getI64IntegerAttr(0)), 1,
                             {{places, read(place)}, {places, read(other)}, {bounds, builder.map(loops, {other})}},
                             [&](ScalarBuilder &b, ValueRange v) -> Value {
                               Value isLess = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, v[1], v[0]);
                               return Integer(b, v[3]) + Integer(b, arith::ExtUIOp::create(b, b.getI64Type(), isLess));
                             });
  SmallVector<unsigned> ofOther;
  for (unsigned d = 0; d <= rank; ++d)
    ofOther.push_back(d == place ? other : d);
  Value sorted = builder.fold(builder.filled(split, builder.getI64IntegerAttr(0)), 1,
                              {{ranks, builder.map(loops, ofOther)}, {places, read(other)}},
                              [&](ScalarBuilder &b, ValueRange v) -> Value {
                                Value here = arith::IndexCastOp::create(b, b.getI64Type(), b.indexOf(place));
                                return choose(Integer(b, v[0]) == Integer(b, here), Integer(b, v[1]), Integer(b, v[2]));
                              });
  SmallVector<ReassociationIndices> groups;
  for (unsigned d = 0; d < rank; ++d)
    groups.push_back(d < axis ? ReassociationIndices{d} : ReassociationIndices{d + 1});
  groups[axis] = {axis, place};
  return tensor::CollapseShapeOp::create(builder, sorted, groups);
}

/// Merges every two of `runs` runs of `run` elements, and keeps the first `longest` elements of each new one.
Value SortLoops::merge(Value places, int64_t run, int64_t longest, int64_t runs) {
  OpFoldResult size = builder.getIndexAttr(runs / 2 * longest);
  return builder.parallel(with(size), builder.getI64Type(), {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Integer position = b.indexOf(axis), zero(b, b.index(int64_t(0)));
    Integer first = position / longest * (2 * run), place = position % longest;
    auto at = [&](Integer index) -> Value { return tensor::ExtractOp::create(b, places, here(b, index)); };
    // True if element i of the first run comes before element j of the second one.
    auto isBefore = [&](Integer i, Integer j) -> Integer {
      return {b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, at(first + i), at(first + run + j))};
    };
    // `low` and `high` bound how many of the `place` elements before this one come from the first run.
    Integer low = choose(place < run, zero, place - run), high = smaller(place, Integer(b, b.index(run)));
    Integer last(b, b.index(run - 1));
    for (int64_t width = std::min(run, longest); width > 0; width /= 2) {
      Integer middle = (low + high) / 2;
      Integer isOpen = low < high;
      // Where the search has ended, what is compared does not matter.
      Integer j = choose(isOpen, place - 1 - middle, zero);
      Integer takes = isOpen & isBefore(smaller(middle, last), j);
      high = choose(takes, high, choose(isOpen, middle, high));
      low = choose(takes, middle + 1, low);
    }
    Value x = at(first + smaller(low, last)), y = at(first + run + smaller(place - low, last));
    Integer isFirst(b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y));
    isFirst = (low < run) & (isFirst | (last < place - low));
    return b.select(isFirst, x, y);
  });
}

Value SortLoops::orderByMerging(int64_t size, int64_t count) {
  constexpr int64_t largestBlock = 256; // ranks take as long as a few steps
  auto padded = int64_t(llvm::PowerOf2Ceil(size));
  auto most = int64_t(llvm::PowerOf2Ceil(count));
  int64_t run = std::min(padded, largestBlock);
  Value sorted = sortBlocks(places(padded), padded / run, run);
  for (int64_t runs = padded / run; runs > 1; runs /= 2) {
    int64_t longest = std::min(2 * run, std::max(most, largestBlock));
    sorted = merge(sorted, run, longest, runs);
    run = longest;
  }
  return builder.parallel(with(builder.getIndexAttr(count)), builder.getI64Type(),
                          {{firstOf(sorted, builder.getIndexAttr(count)), builder.identity(rank)}},
                          [](ScalarBuilder &b, ValueRange v) -> Value {
                            return Integer(b, v[0]) & int64_t(std::numeric_limits<uint32_t>::max());
                          });
}

Value SortLoops::orderByRanks(OpFoldResult count) {
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
  if (isEmpty(with(count)))
    return builder.filled(with(count), builder.getI64IntegerAttr(0));
  bool isNarrow = key.getWidth() == 32 && size && *size <= std::numeric_limits<int32_t>::max();
  return isNarrow ? orderByMerging(*size, *number) : orderByRanks(count);
}

Value SortLoops::take(Value order) {
  MixedSizes taken = builder.sizesOf(order);
  if (isEmpty(taken))
    return builder.filled(taken, cast<TypedAttr>(builder.getZeroAttr(elementOf(input))));
  return builder.parallel(taken, elementOf(input), {{order, builder.identity(rank)}},
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
