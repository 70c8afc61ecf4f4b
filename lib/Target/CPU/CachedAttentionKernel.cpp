//===- CachedAttentionKernel.cpp - Attention over paged caches --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/CacheEmitter.h"
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// Pages whose scores are kept before they are summed up: 64 rows by 128 scores are 32 KB.
constexpr int64_t kPagesPerBlock = 4;
/// Rows (tokens times the query heads of one key head) of a tile: eight register tiles read a page that is in the
/// first-level cache.
constexpr int64_t kMaximalRows = 64;
constexpr int64_t kLineBytes = 64;

/// A tile is some tokens and one head of the keys with all query heads that share it. Tokens that follow one another in
/// the same sequence form a run: its rows, tokens times heads, are multiplied by the pages of keys as they lie, then
/// summed up with the running maximum and total of arXiv 2205.14135, algorithm 1.
class CachedAttentionKernel final : public CacheEmitter {
public:
  CachedAttentionKernel(rt::KernelOp kernel, nn::CachedAttentionOp root, const TileConfig &config);

private:
  LogicalResult run() override;
  LogicalResult plan() override;

  LogicalResult findOperands();
  void makeRoom();
  void makeConstants();
  void emitRuns(Value begin, Value end);
  Value countRun(Value end, Value position);

  // A run: from the queries in to the results out.
  void emitRun();
  void startRows();
  std::pair<Value, Value> keysOfRun();
  void prefetchPage(const Storage &cache, Value place);
  void scorePage(Value p, Value place, Value endKey);
  void scoreCodes(Value p, Value place);
  void scaleQueries(Value row, Value p);
  /// Numbers of a page of keys, or codes of `bits` each.
  struct PageOfKeys {
    Value pointer;
    Type type;
    int64_t bits;
  };
  void score(Value begin, Value end, Value from, const PageOfKeys &pageOfKeys, Value p);
  void loadValueParameters(Value p);
  void sumUp(Value row, Value firstKey);
  Value hideAndMaximize(Value begin, Value slots, Value position, Value last);
  SmallVector<Value> exponentiate(Value begin, Value slots, Value shift);
  void addValues(Value p);
  void copyValuePage(Value from, Value depth);
  void storeRow(Value row);

  /// Returns where a page of the run lies in a cache.
  Value pageAt(const Storage &cache, Value place) { return pageOf(cache, root.getPageTable(), sequence, place, head); }
  Value tokenOf(Value row) { return add(first, div(row, constant(group))); }
  Value headOf(Value row) { return add(mul(head, constant(group)), rem(row, constant(group))); }
  Value horizontal(vector::CombiningKind kind, Value vector) {
    return vector::ReductionOp::create(b, loc, kind, vector, arith::FastMathFlags::reassoc);
  }

  nn::CachedAttentionOp root;
  bool quantized;
  int64_t keyHeads, group, headDim, valueDim, page, bits;
  int64_t maximalTokens, maximalRows, blockKeys, lanes, paddedDim;
  /// A page of values is read where it lies if its rows are whole vectors, else from a padded copy.
  bool copyValues;
  std::optional<Storage> keys, values, keyParameters, valueParameters, tail;
  TokenPlaces places;
  Value queries, scores, sums, valueBlock, maxima, totals;
  /// Scratch for quantized caches: a page of keys that are not quantized yet, queries times the scales of a page,
  /// scales and zero points, and for each row the contribution of the zero points to its sums.
  Value panel, scaledQueries, keyScales, keyZeros, valueScales, valueZeros, offsets;
  Value lowest, lowestScalar, zero, zeroScalar, iota;
  // The run that is being emitted.
  Value head, first, count, sequence, rows, firstPosition;
  // The block of keys that is being emitted: its first key, how many they are, and their pages.
  Value blockKey, keyCount, pages, firstPlace;
};
} // namespace

CachedAttentionKernel::CachedAttentionKernel(rt::KernelOp kernel, nn::CachedAttentionOp root, const TileConfig &config)
    : CacheEmitter(kernel, config), root(root), quantized(static_cast<bool>(root.getTail())), lanes(config.lanes) {
  auto queryType = cast<RankedTensorType>(root.getQuery().getType());
  keyHeads = cast<RankedTensorType>(root.getKeys().getType()).getDimSize(1);
  group = queryType.getDimSize(1) / keyHeads;
  headDim = queryType.getDimSize(2);
  valueDim = cast<RankedTensorType>(root.getResult().getType()).getDimSize(2);
  nn::CodeLayout layout = nn::codeLayoutOf(root);
  page = layout.page;
  bits = layout.bits;
  maximalTokens = std::max<int64_t>(kMaximalRows / group, 1);
  maximalRows = maximalTokens * group;
  blockKeys = kPagesPerBlock * page;
  paddedDim = llvm::divideCeil(valueDim, lanes) * lanes;
  copyValues = paddedDim != valueDim;
}

Emitter makeCachedAttentionKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<CachedAttentionKernel>(kernel, cast<nn::CachedAttentionOp>(root), config);
}

LogicalResult CachedAttentionKernel::plan() {
  Value tokens = size(sizes.of(root.getQuery())[0]);
  Value wanted = ceilDiv(mul(tokens, constant(keyHeads)), mul(threads, constant(kTilesPerThread)));
  Value perTile = max(min(wanted, constant(maximalTokens)), constant(1));
  setPlan(kTokensPerTile, perTile);
  setPlan(ITX_PLAN_TILES, mul(ceilDiv(tokens, perTile), constant(keyHeads)));
  return success();
}

LogicalResult CachedAttentionKernel::run() {
  if (page != kPanelWidth)
    return unsupported(root, "its pages do not have " + std::to_string(kPanelWidth) + " slots");
  Value tokens = size(sizes.of(root.getQuery())[0]);
  if (failed(storesOnly(root)) || failed(findOperands()))
    return failure();
  makeRoom();
  places = {root.getPositions(), root.getSequences(), tokens};
  Value perTile = planValue(kTokensPerTile);
  makeConstants();
  forLoop(tileBegin, tileEnd, constant(1), [&](Value tile) {
    head = rem(tile, constant(keyHeads));
    Value begin = mul(div(tile, constant(keyHeads)), perTile);
    emitRuns(begin, min(add(begin, perTile), tokens));
  });
  return success();
}

LogicalResult CachedAttentionKernel::findOperands() {
  keys = view(root.getKeys());
  values = view(root.getValues());
  if (quantized) {
    keyParameters = view(root.getKeyParameters());
    valueParameters = view(root.getValueParameters());
    tail = view(root.getTail());
  }
  if (!keys || !values || (quantized && (!keyParameters || !valueParameters || !tail)))
    return unsupported(root, "keys or values that are computed in the same kernel");
  if (!quantized)
    keys->elementType = values->elementType =
        cacheElement(cast<RankedTensorType>(root.getKeys().getType()).getElementType());
  return success();
}

void CachedAttentionKernel::makeRoom() {
  queries = scratch(maximalRows * headDim * 4);
  scores = scratch(maximalRows * blockKeys * 4);
  sums = scratch(maximalRows * paddedDim * 4);
  valueBlock = copyValues ? scratch(page * paddedDim * 4) : Value();
  maxima = scratch(maximalRows * 4);
  totals = scratch(maximalRows * 4);
  if (!quantized)
    return;
  panel = scratch(headDim * page * 4);
  scaledQueries = scratch(maximalRows * headDim * 4);
  keyScales = scratch(headDim * 4);
  keyZeros = scratch(headDim * 4);
  valueScales = scratch(blockKeys * 4);
  valueZeros = scratch(blockKeys * 4);
  offsets = scratch(maximalRows * 4);
}

void CachedAttentionKernel::makeConstants() {
  Type f32 = b.getF32Type();
  lowest = floatConstant(-std::numeric_limits<double>::infinity(), f32, lanes);
  lowestScalar = floatConstant(-std::numeric_limits<double>::infinity(), f32, 1);
  zero = floatConstant(0.0, f32, lanes);
  zeroScalar = floatConstant(0.0, f32, 1);
  SmallVector<int64_t> numbers = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
  iota = arith::ConstantOp::create(b, loc, b.getI64VectorAttr(numbers));
}

//===-- Runs --------------------------------------------------------------------------------------------------===//

/// Emits the runs of tokens [begin, end) of a tile.
void CachedAttentionKernel::emitRuns(Value begin, Value end) {
  forLoop(begin, end, constant(1), [&](Value token) {
    sequence = integerAt(root.getSequences(), {Index{token}});
    Value previous = integerAt(root.getSequences(), {Index{max(sub(token, constant(1)), begin)}});
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, token, begin);
    Value isOther = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, sequence, previous);
    Value position = integerAt(root.getPositions(), {Index{token}});
    if (quantized) {
      // The part of a page that a token sees depends on its position, so the positions of a run are consecutive.
      Value before = integerAt(root.getPositions(), {Index{max(sub(token, constant(1)), begin)}});
      Value skips = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, position, add(before, constant(1)));
      isOther = arith::OrIOp::create(b, loc, isOther, skips);
    }
    ifThen(arith::OrIOp::create(b, loc, isFirst, isOther), [&] {
      first = token;
      count = countRun(end, position);
      emitRun();
    });
  });
}

/// Returns how many tokens from `first` on are of the same sequence.
Value CachedAttentionKernel::countRun(Value end, Value position) {
  Value one = constant(1);
  return forLoop(first, end, constant(1), {constant(0), one}, [&](Value other, ValueRange running) {
    Value same = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, sequence,
                                       integerAt(root.getSequences(), {Index{other}}));
    if (quantized) {
      Value expected = add(position, sub(other, first));
      Value follows = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, expected,
                                            integerAt(root.getPositions(), {Index{other}}));
      same = arith::AndIOp::create(b, loc, same, follows);
    }
    Value open = mul(running[1], arith::ExtUIOp::create(b, loc, b.getI64Type(), same));
    return SmallVector<Value>{add(running[0], open), open};
  })[0];
}

void CachedAttentionKernel::emitRun() {
  rows = mul(count, constant(group));
  startRows();
  firstPosition = integerAt(root.getPositions(), {Index{first}});
  auto [firstKey, endKey] = keysOfRun();
  forLoop(firstKey, endKey, constant(blockKeys), [&, firstKey = firstKey, endKey = endKey](Value begin) {
    blockKey = begin;
    keyCount = min(sub(endKey, blockKey), constant(blockKeys));
    pages = ceilDiv(keyCount, constant(page));
    firstPlace = div(blockKey, constant(page));
    forLoop(constant(0), pages, constant(1), [&](Value p) { scorePage(p, add(firstPlace, p), endKey); });
    if (quantized)
      forLoop(constant(0), pages, constant(1), [&](Value p) { loadValueParameters(p); });
    forLoop(constant(0), rows, constant(1), [&](Value row) { sumUp(row, firstKey); });
    forLoop(constant(0), pages, constant(1), [&](Value p) { addValues(p); });
  });
  forLoop(constant(0), rows, constant(1), [&](Value row) { storeRow(row); });
}

/// Reads the queries of a run, scaled, and sets sums to zero.
void CachedAttentionKernel::startRows() {
  Type f32 = b.getF32Type();
  Value scale = floatConstant(root.getScale().convertToDouble(), f32, 1);
  forLoop(constant(0), rows, constant(1), [&](Value row) {
    vectorLoop(constant(headDim), [&](Value d, int64_t width) {
      Value x = evaluate(root.getQuery(), {Index{tokenOf(row)}, Index{headOf(row)}, Index{d, true}}, width);
      storeAt(arith::MulFOp::create(b, loc, x, splat(scale, width)), queries, add(mul(row, constant(headDim)), d), f32,
              width);
    });
    // A sink is a score that was seen before all others, with a value of zero.
    Value sink = root.getSinks() ? evaluate(root.getSinks(), {Index{headOf(row)}}, 1) : lowestScalar;
    storeAt(sink, maxima, row, f32, 1);
    storeAt(floatConstant(root.getSinks() ? 1.0 : 0.0, f32, 1), totals, row, f32, 1);
    if (quantized)
      storeAt(zeroScalar, offsets, row, f32, 1);
    forLoop(constant(0), constant(paddedDim), constant(lanes),
            [&](Value d) { storeAt(zero, sums, add(mul(row, constant(paddedDim)), d), f32, lanes); });
  });
}

/// Returns the first and the end of the keys that some token of the run sees: whole pages before the last.
std::pair<Value, Value> CachedAttentionKernel::keysOfRun() {
  SmallVector<Value> seen =
      forLoop(constant(0), count, constant(1), {constant(0), constant(std::numeric_limits<int64_t>::max())},
              [&](Value i, ValueRange running) {
                Value position = integerAt(root.getPositions(), {Index{add(first, i)}});
                return SmallVector<Value>{max(running[0], add(position, constant(1))), min(running[1], position)};
              });
  Value firstKey = constant(0);
  if (root.getWindow())
    firstKey =
        mul(div(max(sub(seen[1], constant(*root.getWindow() - 1)), constant(0)), constant(page)), constant(page));
  return {firstKey, seen[0]};
}

//===-- Scores ------------------------------------------------------------------------------------------------===//

void CachedAttentionKernel::prefetchPage(const Storage &cache, Value place) {
  Value from = pageAt(cache, place);
  int64_t bytes = cache.elementType.getIntOrFloatBitWidth() / 8;
  for (AffineExpr extent : ArrayRef(cache.sizes).drop_front(2))
    bytes *= cast<AffineConstantExpr>(extent).getValue();
  forLoop(constant(0), constant(bytes), constant(kLineBytes), [&](Value byte) {
    LLVM::Prefetch::create(b, loc, offsetPointer(from, byte, b.getI8Type()), /*rw=*/0, /*hint=*/2, /*cache=*/1);
  });
}

/// Multiplies the queries by page `p` of a block, the sequence's number `place`.
void CachedAttentionKernel::scorePage(Value p, Value place, Value endKey) {
  // Pages lie anywhere in memory, so the next one is prefetched now. Without prefetching, decoding over 8,000 tokens in
  // 8 heads of 128 features took 1.8 times as long with a 4-bit cache, 1.3 times with f16.
  prefetchPage(*values, place);
  if (quantized)
    prefetchPage(*valueParameters, place);
  Value nextPlace = min(add(place, constant(1)), div(sub(endKey, constant(1)), constant(page)));
  prefetchPage(*keys, nextPlace);
  if (quantized)
    prefetchPage(*keyParameters, nextPlace);
  if (quantized)
    scoreCodes(p, place);
  else
    score(constant(0), rows, queries, {pageAt(*keys, place), keys->elementType, 0}, p);
}

/// Multiplies the queries by a page of a quantized cache: tokens of this page see its keys as they are, those of later
/// pages as codes.
void CachedAttentionKernel::scoreCodes(Value p, Value place) {
  Type f32 = b.getF32Type();
  Value base = mul(place, constant(page));
  auto tokenAt = [&](Value position) { return min(max(sub(position, firstPosition), constant(0)), count); };
  Value own = tokenAt(base), later = tokenAt(add(base, constant(page)));
  ifThen(less(own, later), [&] {
    Value firstRow = sub(add(first, base), firstPosition);
    gatherPage(panel, *tail, root.getRows(), places, sequence, head, base, firstRow, sub(add(first, later), firstRow));
    Value begin = mul(own, constant(group));
    score(begin, mul(later, constant(group)), queries, {panel, f32, 0}, p);
  });
  ifThen(less(later, count), [&] {
    loadParameters(pageAt(*keyParameters, place), headDim, bits, Value(), keyScales, keyZeros);
    Value begin = mul(later, constant(group));
    forLoop(begin, rows, constant(1), [&](Value row) { scaleQueries(row, p); });
    score(begin, rows, scaledQueries, {pageAt(*keys, place), b.getI8Type(), bits}, p);
  });
}

/// Multiplies a row of queries by the scales of a page's keys; its scores begin with what the zero points contribute.
void CachedAttentionKernel::scaleQueries(Value row, Value p) {
  Type f32 = b.getF32Type();
  Value at = mul(row, constant(headDim));
  Value shift = reduce(constant(headDim), /*maximum=*/false, f32, [&](Value d, int64_t width) -> Value {
    Value x = loadAt(queries, add(at, d), f32, width);
    x = arith::MulFOp::create(b, loc, x, loadAt(keyScales, d, f32, width));
    storeAt(x, scaledQueries, add(at, d), f32, width);
    return arith::MulFOp::create(b, loc, x, loadAt(keyZeros, d, f32, width));
  });
  shift = splat(arith::NegFOp::create(b, loc, shift), lanes);
  for (int64_t slot = 0; slot < page; slot += lanes)
    storeAt(shift, scores, add(add(mul(row, constant(blockKeys)), mul(p, constant(page))), constant(slot)), f32, lanes);
}

/// Multiplies rows [begin, end) of queries `from` by a page of keys; scores of codes are added to what is there.
void CachedAttentionKernel::score(Value begin, Value end, Value from, const PageOfKeys &pageOfKeys, Value p) {
  Type f32 = b.getF32Type();
  forLoop(begin, end, constant(config.rows), [&](Value row) {
    TileOperands operands;
    operands.a = offsetPointer(from, mul(row, constant(headDim)), f32);
    operands.aRow = constant(headDim);
    operands.aColumn = constant(1);
    operands.aType = f32;
    operands.b = pageOfKeys.pointer;
    operands.bRow = constant(pageOfKeys.bits ? page * pageOfKeys.bits / 8 : page);
    operands.bType = pageOfKeys.type;
    operands.codeBits = pageOfKeys.bits;
    operands.depth = constant(headDim);
    operands.out = offsetPointer(scores, add(mul(row, constant(blockKeys)), mul(p, constant(page))), f32);
    operands.outRow = constant(blockKeys);
    operands.accumulate = pageOfKeys.bits != 0;
    emitTileRows(operands, min(sub(end, row), constant(config.rows)), kPanelWidth);
  });
}

//===-- Sums --------------------------------------------------------------------------------------------------===//

void CachedAttentionKernel::loadValueParameters(Value p) {
  Type f32 = b.getF32Type();
  Value at = mul(p, constant(page));
  loadParameters(pageAt(*valueParameters, add(firstPlace, p)), page, bits, sub(keyCount, at),
                 offsetPointer(valueScales, at, f32), offsetPointer(valueZeros, at, f32));
}

/// Makes exponentials of a row's scores of a block, and brings the row's maximum, total and sums up to date.
void CachedAttentionKernel::sumUp(Value row, Value firstKey) {
  Type f32 = b.getF32Type();
  Value position = integerAt(root.getPositions(), {Index{tokenOf(row)}});
  Value last = splat(sub(position, blockKey), lanes);
  Value begin = mul(row, constant(blockKeys)), slots = mul(pages, constant(page));
  Value largest = hideAndMaximize(begin, slots, position, last);
  Value before = loadAt(maxima, row, f32, 1);
  // NaN need not come through here: it comes through the exponentials.
  Value maximum = arith::MaximumFOp::create(b, loc, before, horizontal(vector::CombiningKind::MAXNUMF, largest));
  // A row that has seen nothing yet keeps -inf; subtracting 0 instead keeps its exponentials at zero.
  Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, maximum, lowestScalar);
  Value shift = arith::SelectOp::create(b, loc, none, zeroScalar, maximum);
  Value factor = emitExpNonPositive(b, loc, arith::SubFOp::create(b, loc, before, shift));
  SmallVector<Value> blockTotals = exponentiate(begin, slots, shift);
  Value total = arith::MulFOp::create(b, loc, loadAt(totals, row, f32, 1), factor);
  total = arith::AddFOp::create(b, loc, total, horizontal(vector::CombiningKind::ADD, blockTotals[0]));
  if (quantized) {
    Value offset = arith::MulFOp::create(b, loc, loadAt(offsets, row, f32, 1), factor);
    Value zeros = horizontal(vector::CombiningKind::ADD, blockTotals[1]);
    storeAt(arith::SubFOp::create(b, loc, offset, zeros), offsets, row, f32, 1);
  }
  storeAt(maximum, maxima, row, f32, 1);
  storeAt(total, totals, row, f32, 1);
  ifThen(less(firstKey, blockKey), [&] {
    forLoop(constant(0), constant(paddedDim), constant(lanes), [&](Value d) {
      Value offset = add(mul(row, constant(paddedDim)), d);
      Value sum = arith::MulFOp::create(b, loc, loadAt(sums, offset, f32, lanes), splat(factor, lanes));
      storeAt(sum, sums, offset, f32, lanes);
    });
  });
}

/// Drops the scores from `begin` on of slots that the token does not see, whatever they hold: those behind
/// `last`, a splat, unwritten ones among them, and those before the window of the token's position. Returns the largest
/// scores of the others, a vector.
Value CachedAttentionKernel::hideAndMaximize(Value begin, Value slots, Value position, Value last) {
  Type f32 = b.getF32Type();
  return forLoop(constant(0), slots, constant(lanes), {lowest}, [&](Value c, ValueRange running) {
    Value index = arith::AddIOp::create(b, loc, splat(c, lanes), iota);
    Value visible = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, index, last);
    if (root.getWindow()) {
      Value before = splat(sub(sub(position, blockKey), constant(*root.getWindow())), lanes);
      visible = arith::AndIOp::create(b, loc, visible,
                                      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, index, before));
    }
    Value score = loadAt(scores, add(begin, c), f32, lanes);
    if (root.getSoftCap()) {
      double cap = root.getSoftCap()->convertToDouble();
      score = arith::MulFOp::create(b, loc, score, floatConstant(1.0 / cap, f32, lanes));
      score = arith::MulFOp::create(b, loc, emitTanh(b, loc, score), floatConstant(cap, f32, lanes));
    }
    score = arith::SelectOp::create(b, loc, visible, score, lowest);
    storeAt(score, scores, add(begin, c), f32, lanes);
    return SmallVector<Value>{arith::MaximumFOp::create(b, loc, running[0], score)};
  })[0];
}

/// Makes exponentials of the scores from `begin` on less `shift`, times the scales of values that are codes. Returns
/// their sums and, for codes, their sums times the zero points.
SmallVector<Value> CachedAttentionKernel::exponentiate(Value begin, Value slots, Value shift) {
  Type f32 = b.getF32Type();
  SmallVector<Value> blockTotals(quantized ? 2 : 1, zero);
  return forLoop(constant(0), slots, constant(lanes), blockTotals, [&](Value c, ValueRange running) {
    Value score = loadAt(scores, add(begin, c), f32, lanes);
    Value e = emitExpNonPositive(b, loc, arith::SubFOp::create(b, loc, score, splat(shift, lanes)));
    SmallVector<Value> next{arith::AddFOp::create(b, loc, running[0], e)};
    if (quantized) {
      e = arith::MulFOp::create(b, loc, e, loadAt(valueScales, c, f32, lanes));
      next.push_back(vector::FMAOp::create(b, loc, e, loadAt(valueZeros, c, f32, lanes), running[1]));
    }
    storeAt(e, scores, add(begin, c), f32, lanes);
    return next;
  });
}

/// Copies rows of a page as f32, zeros behind each. Four bits come in multiples of 32, so that no such page is copied.
void CachedAttentionKernel::copyValuePage(Value from, Value depth) {
  Type f32 = b.getF32Type();
  if (!quantized) {
    packRows(valueBlock, from, constant(valueDim), values->elementType, depth, constant(valueDim), paddedDim);
    return;
  }
  forLoop(constant(0), depth, constant(1), [&](Value slot) {
    Value begin = mul(slot, constant(paddedDim));
    vectorLoop(constant(valueDim), [&](Value d, int64_t width) {
      Value code = loadAt(from, add(mul(slot, constant(valueDim)), d), b.getI8Type(), width);
      code = arith::ExtUIOp::create(b, loc, vectorOf(b.getI32Type(), width), code);
      storeAt(arith::SIToFPOp::create(b, loc, vectorOf(f32, width), code), valueBlock, add(begin, d), f32, width);
    });
    forLoop(constant(valueDim), constant(paddedDim), constant(1),
            [&](Value d) { storeAt(zeroScalar, valueBlock, add(begin, d), f32, 1); });
  });
}

/// Adds the values of page `p` of a block, times their exponentials, to the sums.
void CachedAttentionKernel::addValues(Value p) {
  Type f32 = b.getF32Type();
  Value pageOfValues = pageAt(*values, add(firstPlace, p));
  Value depth = min(sub(keyCount, mul(p, constant(page))), constant(page));
  if (copyValues) {
    copyValuePage(pageOfValues, depth);
    pageOfValues = valueBlock;
  }
  forLoop(constant(0), rows, constant(config.rows), [&](Value row) {
    TileOperands operands;
    operands.a = offsetPointer(scores, add(mul(row, constant(blockKeys)), mul(p, constant(page))), f32);
    operands.aRow = constant(blockKeys);
    operands.aColumn = constant(1);
    operands.aType = f32;
    operands.b = pageOfValues;
    bool readsCodes = quantized && !copyValues;
    operands.bRow = constant(copyValues ? paddedDim : readsCodes ? valueDim * bits / 8 : valueDim);
    operands.bType = copyValues ? f32 : values->elementType;
    operands.codeBits = readsCodes ? bits : 0;
    operands.depth = depth;
    operands.out = offsetPointer(sums, mul(row, constant(paddedDim)), f32);
    operands.outRow = constant(paddedDim);
    operands.accumulate = true;
    emitTileRows(operands, min(sub(rows, row), constant(config.rows)), paddedDim);
  });
}

/// Divides a row's sums by its total and stores them.
void CachedAttentionKernel::storeRow(Value row) {
  Type f32 = b.getF32Type();
  Value inverse = arith::DivFOp::create(b, loc, floatConstant(1.0, f32, 1), loadAt(totals, row, f32, 1));
  vectorLoop(constant(valueDim), [&](Value d, int64_t width) {
    Value x = loadAt(sums, add(mul(row, constant(paddedDim)), d), f32, width);
    if (quantized)
      x = arith::AddFOp::create(b, loc, x, splat(loadAt(offsets, row, f32, 1), width));
    x = arith::MulFOp::create(b, loc, x, splat(inverse, width));
    Indices at{{tokenOf(row)}, {headOf(row)}, {d, true}};
    for (const Storage &output : outputs)
      store(x, output, at, width);
  });
}

} // namespace intarsia::cpu
