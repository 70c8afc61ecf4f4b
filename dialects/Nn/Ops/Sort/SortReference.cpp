//===- SortReference.cpp - Reference of sorting ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Runs of an axis of static size have a power of two of elements. Where the largest k elements are wanted, none becomes
// longer than the next power of two of k.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Sort/SortLoops.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

SortLoops::SortLoops(ReferenceBuilder &builder, Value input, int64_t axis, bool isDescending)
    : builder(builder), input(input), axis(axis), rank(rankOf(input)), isDescending(isDescending),
      sizes(builder.sizesOf(input)) {
  Type element = elementOf(input);
  key = builder.getIntegerType(element.getIntOrFloatBitWidth() > 32 ? 64 : 32);
}

Value SortLoops::firstOf(Value tensor, OpFoldResult count) {
  SmallVector<OpFoldResult> zeros(rank, builder.getIndexAttr(0)), ones(rank, builder.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(builder, tensor, zeros, with(count), ones);
}

SmallVector<Value> SortLoops::here(ScalarBuilder &b, Value position) {
  SmallVector<Value> at;
  for (unsigned d = 0; d < rank; ++d)
    at.push_back(d == axis ? position : Value(b.indexOf(d)));
  return at;
}

MixedSizes SortLoops::with(OpFoldResult size) {
  MixedSizes result = sizes;
  result[axis] = size;
  return result;
}

/// True if a result of these sizes has no elements, so that there may be none to read.
static bool isEmpty(const MixedSizes &sizes) {
  return llvm::any_of(sizes, [](OpFoldResult size) { return isConstantIntValue(size, 0); });
}

static Value i64Of(ScalarBuilder &b, Value index) { return arith::IndexCastOp::create(b, b.getI64Type(), index); }

//===-- Order ------------------------------------------------------------------------------------------------===//

Value SortLoops::keyNumber(ScalarBuilder &b, const APInt &value) {
  return arith::ConstantOp::create(b, b.getIntegerAttr(key, value));
}

/// An integer whose order is that of the elements.
Value SortLoops::keyOf(ScalarBuilder &b, Value element) {
  unsigned width = key.getWidth();
  Value result = element;
  if (auto type = dyn_cast<FloatType>(element.getType())) {
    if (type.getWidth() < 32)
      element = b.widen(element);
    // The bits of floats have their order as integers with a sign and a magnitude.
    Value bits = arith::BitcastOp::create(b, key, element);
    Value sign = arith::ShRSIOp::create(b, bits, keyNumber(b, APInt(width, width - 1)));
    Value magnitude = arith::AndIOp::create(b, bits, keyNumber(b, APInt::getSignedMaxValue(width)));
    result = arith::SubIOp::create(b, arith::XOrIOp::create(b, magnitude, sign), sign);
    result = b.select(b.isNan(element), keyNumber(b, APInt::getSignedMaxValue(width)), result);
  } else if (element.getType().isInteger(1)) {
    result = arith::ExtUIOp::create(b, key, element); // false, then true
  } else if (element.getType().getIntOrFloatBitWidth() < width) {
    result = arith::ExtSIOp::create(b, key, element);
  }
  return isDescending ? arith::XOrIOp::create(b, result, keyNumber(b, APInt::getAllOnes(width))) : result;
}

/// True if an entry comes before another one. Of equal elements that is the first one.
Value SortLoops::lessThan(ScalarBuilder &b, Entry x, Entry y) {
  using P = arith::CmpIPredicate;
  Value isFirst = arith::CmpIOp::create(b, P::slt, x.place, y.place);
  if (!isWide())
    return isFirst;
  Value isLess = arith::CmpIOp::create(b, P::slt, x.key, y.key);
  Value isSame = arith::CmpIOp::create(b, P::eq, x.key, y.key);
  return arith::OrIOp::create(b, isLess, arith::AndIOp::create(b, isSame, isFirst));
}

/// Places of so many elements: those behind the last one come after all.
Value SortLoops::places(OpFoldResult padded) {
  Value size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), sizes[axis]);
  Type i64 = builder.getI64Type();
  return builder.parallel(with(padded), i64, {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Integer position = b.indexOf(axis), last = Integer(b, size) - 1;
    if (isWide())
      return i64Of(b, position);
    Value element = tensor::ExtractOp::create(b, input, here(b, smaller(position, last)));
    Value behind = keyNumber(b, APInt::getSignedMaxValue(32));
    Integer high(b, arith::ExtSIOp::create(b, i64, b.select(position <= last, keyOf(b, element), behind)));
    return (high << 32) | Integer(b, i64Of(b, position));
  });
}

/// Keys of so many wide elements: those behind the last one are as large as can be.
Value SortLoops::keysOf(OpFoldResult padded) {
  Value size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), sizes[axis]);
  return builder.parallel(with(padded), key, {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Integer position = b.indexOf(axis), last = Integer(b, size) - 1;
    Value element = tensor::ExtractOp::create(b, input, here(b, smaller(position, last)));
    return b.select(position <= last, keyOf(b, element), keyNumber(b, APInt::getSignedMaxValue(64)));
  });
}

//===-- Blocks and runs --------------------------------------------------------------------------------------===//

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
  SmallVector<std::pair<Value, AffineMap>> compared = {
      {places, read(place)}, {places, read(other)}, {bounds, builder.map(loops, {other})}};
  if (isWide())
    compared.append({{keys, read(place)}, {keys, read(other)}});
  Value ranks = builder.fold(
      builder.filled(split, builder.getI64IntegerAttr(0)), 1, compared, [&](ScalarBuilder &b, ValueRange v) -> Value {
        Value isLess = lessThan(b, {v[1], isWide() ? v[4] : Value()}, {v[0], isWide() ? v[3] : Value()});
        return Integer(b, v.back()) + Integer(b, arith::ExtUIOp::create(b, b.getI64Type(), isLess));
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

Value SortLoops::merged(ScalarBuilder &b, Value places, Integer place, Runs runs, Integer last, unsigned steps) {
  Integer zero(b, b.index(int64_t(0)));
  auto at = [&](Integer position) -> Entry {
    position = smaller(position, last); // where the search has ended, what is read does not matter
    Entry entry = {tensor::ExtractOp::create(b, places, here(b, position)), {}};
    if (isWide())
      entry.key = tensor::ExtractOp::create(b, keys, here(b, b.toIndex(entry.place)));
    return entry;
  };
  Integer second = runs.first + runs.left;
  // `low` and `high` bound how many of the `place` entries before this one come from the first run.
  Integer low = choose(place < runs.right, zero, place - runs.right), high = smaller(place, runs.left);
  for (unsigned step = 0; step < steps; ++step) {
    Integer middle = (low + high) / 2, isOpen = low < high;
    Integer j = choose(isOpen, place - 1 - middle, zero);
    Integer takes = isOpen & Integer(b, lessThan(b, at(runs.first + middle), at(second + j)));
    high = choose(takes, high, choose(isOpen, middle, high));
    low = choose(takes, middle + 1, low);
  }
  Entry x = at(runs.first + low), y = at(second + (place - low));
  Integer isFirst = (low < runs.left) & (Integer(b, lessThan(b, x, y)) | (runs.right <= place - low));
  return b.select(isFirst, x.place, y.place);
}

/// Merges every two of `runs` runs of `run` elements, and keeps the first `longest` elements of each new one.
Value SortLoops::merge(Value places, int64_t run, int64_t longest, int64_t runs) {
  OpFoldResult size = builder.getIndexAttr(runs / 2 * longest);
  return builder.parallel(with(size), builder.getI64Type(), {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Integer position = b.indexOf(axis), length(b, b.index(run));
    Integer first = position / longest * (2 * run), last(b, b.index(runs * run - 1));
    unsigned steps = llvm::Log2_64(std::min(run, longest)) + 1;
    return merged(b, places, position % longest, {first, length, length}, last, steps);
  });
}

Value SortLoops::indicesOf(Value places, OpFoldResult count) {
  return builder.parallel(with(count), builder.getI64Type(), {{firstOf(places, count), builder.identity(rank)}},
                          [&](ScalarBuilder &b, ValueRange v) -> Value {
                            return isWide() ? v[0]
                                            : Value(Integer(b, v[0]) & int64_t(std::numeric_limits<uint32_t>::max()));
                          });
}

Value SortLoops::orderByMerging(int64_t size, int64_t count) {
  constexpr int64_t largestBlock = 256; // ranks take as long as a few steps
  auto padded = int64_t(llvm::PowerOf2Ceil(size));
  auto most = int64_t(llvm::PowerOf2Ceil(count));
  int64_t run = std::min(padded, largestBlock);
  if (isWide())
    keys = keysOf(builder.getIndexAttr(padded));
  Value sorted = sortBlocks(places(builder.getIndexAttr(padded)), padded / run, run);
  for (int64_t runs = padded / run; runs > 1; runs /= 2) {
    int64_t longest = std::min(2 * run, std::max(most, largestBlock));
    sorted = merge(sorted, run, longest, runs);
    run = longest;
  }
  return indicesOf(sorted, builder.getIndexAttr(count));
}

Value SortLoops::orderInSteps(OpFoldResult count) {
  Type i64 = builder.getI64Type();
  OpFoldResult number = sizes[axis];
  if (isWide())
    keys = keysOf(number);
  Value start = places(number), size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), number);
  // The call is checked for a size of 32 bits.
  Value end = arith::IndexCastOp::create(builder, builder.getI32Type(), size);
  end = arith::ExtSIOp::create(builder, i64, end);
  TypedAttr one = builder.getI64IntegerAttr(1);
  // Positions come from a tensor: LLVM would follow the range of a loop counter through all halvings of a search, which
  // takes minutes.
  Value positions =
      builder.parallel({number}, i64, {}, [&](ScalarBuilder &b, ValueRange) { return i64Of(b, b.indexOf(0)); });
  // The length of the sorted runs, twice: as a number for the host's loop, and as a tensor for kernels.
  Value length = arith::ConstantOp::create(builder, one), lengths = builder.filled({}, one);
  OpBuilder::InsertionGuard guard(builder);
  auto ignore = [](OpBuilder &, Location, ValueRange) {};
  SmallVector<Type> types = {start.getType(), lengths.getType(), i64};
  auto loop = scf::WhileOp::create(builder, types, ValueRange{start, lengths, length}, ignore, ignore);
  builder.setInsertionPointToEnd(loop.getBeforeBody());
  Value goesOn = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, loop.getBeforeArguments()[2], end);
  scf::ConditionOp::create(builder, goesOn, loop.getBeforeArguments());
  builder.setInsertionPointToEnd(loop.getAfterBody());
  ValueRange values = loop.getAfterArguments();
  SmallVector<std::pair<Value, AffineMap>> inputs = {{values[1], builder.map(rank, {})},
                                                     {positions, builder.map(rank, {axis})}};
  Value next = builder.parallel(with(number), i64, inputs, [&](ScalarBuilder &b, ValueRange v) -> Value {
    Integer run = b.toIndex(v[0]), position = b.toIndex(v[1]), all(b, size);
    Integer first = position / (run * 2) * (run * 2), left = smaller(run, all - first);
    Integer right = smaller(run, all - first - left);
    return merged(b, values[0], position - first, {first, left, right}, all - 1, /*steps=*/31);
  });
  Value longer = builder.parallel({}, i64, {{values[1], builder.map(0, {})}},
                                  [](ScalarBuilder &b, ValueRange v) -> Value { return Integer(b, v[0]) << 1; });
  Value doubled = arith::AddIOp::create(builder, values[2], values[2]);
  scf::YieldOp::create(builder, ValueRange{next, longer, doubled});
  builder.setInsertionPointAfter(loop);
  return indicesOf(loop.getResult(0), count);
}

//===-- Ranks ------------------------------------------------------------------------------------------------===//

Value SortLoops::orderByRanks(OpFoldResult count) {
  Type i64 = builder.getI64Type();
  Value keys = builder.parallel(sizes, key, {{input, builder.identity(rank)}},
                                [&](ScalarBuilder &b, ValueRange v) { return keyOf(b, v[0]); });
  SmallVector<unsigned> along;
  for (unsigned d = 0; d < rank; ++d)
    along.push_back(d == axis ? rank : d);
  AffineMap mine = builder.leading(rank + 1, rank), others = builder.map(rank + 1, along);
  TypedAttr zero = builder.getI64IntegerAttr(0);
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
  bool isMerged = size && *size <= std::numeric_limits<int32_t>::max();
  return isMerged ? orderByMerging(*size, *number) : orderByRanks(count);
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
