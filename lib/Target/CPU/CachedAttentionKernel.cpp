//===- CachedAttentionKernel.cpp - Attention over paged caches --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "lib/Target/CPU/CachedScoreEmitter.h"
#include "lib/Target/CPU/KernelRoots.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

using namespace kernel;

namespace {
/// A tile is some tokens and one head of the keys with all query heads that share it. Tokens that follow one another in
/// the same sequence form a run: its rows, tokens times heads, are multiplied by the pages of keys as they lie, then
/// summed up with the running maximum and total of arXiv 2205.14135, algorithm 1.
class CachedAttentionKernel final : public CachedScoreEmitter {
public:
  using CachedScoreEmitter::CachedScoreEmitter;

private:
  LogicalResult run() override;
  void launch() override;

  LogicalResult makeRoom();
  void makeConstants();
  LogicalResult emitRuns(Value begin, Value end);
  Element beginsRun(Value token, Value begin);
  Element countRun(Value end);

  // A run: from the queries in to the results out.
  LogicalResult emitRun(Value end);
  LogicalResult emitBlock(Value begin, Value firstKey, Value endKey);
  LogicalResult startRows();
  FailureOr<std::pair<Value, Value>> keysOfRun();
  LogicalResult loadValueParameters(Value p);
  LogicalResult sumUp(Value row, Value firstKey);
  Value hideAndMaximize(Value begin, Value slots, Value own, Value last);
  SmallVector<Value> exponentiate(Value begin, Value slots, Value shift);
  LogicalResult addValues(Value p);
  void copyValuePage(Value from, Value depth);
  void storeRow(Value row);

  Value tokenOf(Value row) { return add(first, div(row, constant(group))); }
  Value headOf(Value row) { return add(mul(head, constant(group)), rem(row, constant(group))); }
  Value horizontal(vector::CombiningKind kind, Value vector) {
    return make<vector::ReductionOp>(kind, vector, arith::FastMathFlags::reassoc);
  }

  Value sums, valueBlock, maxima, totals;
  /// Scratch for quantized values: their scales and zero points, and for each row the contribution of the zero
  /// points to its sums.
  Value valueScales, valueZeros, offsets;
  Value lowest, lowestScalar, zero, zeroScalar, iota;
  Value position; ///< of the first token of the run that is being emitted
  // The block of keys that is being emitted: its first key, how many they are, and their pages.
  Value blockKey, keyCount, pages, firstPage;
};
} // namespace

Emitter makeCachedAttentionKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<CachedAttentionKernel>(kernel, cast<nn::CachedAttentionOp>(root), config);
}

void CachedAttentionKernel::launch() {
  Value tokens = function.sizeOf(root.getQuery(), 0);
  Value wanted = ceilDiv(mul(tokens, constant(keyHeads)), mul(function.threads, constant(caches.kTilesPerThread)));
  Value perTile = max(min(wanted, constant(maximalTokens)), constant(1));
  function.setSlot(CacheEmitter::kTokensPerTile, perTile);
  function.setSlot(ITX_PLAN_TILES, mul(ceilDiv(tokens, perTile), constant(keyHeads)));
}

LogicalResult CachedAttentionKernel::run() {
  Value tokens = function.sizeOf(root.getQuery(), 0);
  if (failed(checkLayout()) || failed(function.storesOnly(root)) || failed(findOperands()))
    return failure();
  if (failed(makeRoom()))
    return failure();
  indices = {root.getPositions(), root.getSequences(), tokens};
  Value perTile = function.slot(CacheEmitter::kTokensPerTile);
  makeConstants();
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value tile) {
    head = rem(tile, constant(keyHeads));
    Value begin = mul(div(tile, constant(keyHeads)), perTile);
    return emitRuns(begin, min(add(begin, perTile), tokens));
  });
}

LogicalResult CachedAttentionKernel::makeRoom() {
  makeRoomForScores();
  sums = function.scratch(maximalRows * paddedDim * 4);
  valueBlock = copyValues ? function.scratch(page * paddedDim * 4) : Value();
  maxima = function.scratch(maximalRows * 4);
  totals = function.scratch(maximalRows * 4);
  if (quantizedKeys && failed(makeRoomForQuantizedKeys()))
    return failure();
  if (!quantizedValues)
    return success();
  valueScales = function.scratch(blockKeys * 4);
  valueZeros = function.scratch(blockKeys * 4);
  offsets = function.scratch(maximalRows * 4);
  return success();
}

void CachedAttentionKernel::makeConstants() {
  Type f32 = b.getF32Type();
  lowest = floatConstant(-std::numeric_limits<double>::infinity(), f32, lanes);
  lowestScalar = floatConstant(-std::numeric_limits<double>::infinity(), f32, 1);
  zero = floatConstant(0.0, f32, lanes);
  zeroScalar = floatConstant(0.0, f32, 1);
  SmallVector<int64_t> laneIndices = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
  iota = make<arith::ConstantOp>(b.getI64VectorAttr(laneIndices));
}

//===-- Runs --------------------------------------------------------------------------------------------------===//

/// Emits the runs of tokens [begin, end) of a tile.
LogicalResult CachedAttentionKernel::emitRuns(Value begin, Value end) {
  return forLoop(begin, end, constant(1), [&](Value token) -> LogicalResult {
    Element own = tensors.integerAt(root.getSequences(), {Index{token}});
    if (failed(own))
      return failure();
    sequence = *own;
    Element isFirst = beginsRun(token, begin);
    if (failed(isFirst))
      return failure();
    return ifThen(*isFirst, [&]() -> LogicalResult {
      first = token;
      return emitRun(end);
    });
  });
}

/// Returns whether a token begins a run: it is the tile's first, or of another sequence than the one before.
Element CachedAttentionKernel::beginsRun(Value token, Value begin) {
  Element previous = tensors.integerAt(root.getSequences(), {Index{max(sub(token, constant(1)), begin)}});
  if (failed(previous))
    return failure();
  Value isFirst = equal(token, begin);
  Value isOther = make<arith::CmpIOp>(arith::CmpIPredicate::ne, sequence, *previous);
  Element own = tensors.integerAt(root.getPositions(), {Index{token}});
  if (failed(own))
    return failure();
  position = *own;
  if (quantizedKeys) {
    // The part of a page that a token sees depends on its position, so the positions of a run are consecutive.
    Element before = tensors.integerAt(root.getPositions(), {Index{max(sub(token, constant(1)), begin)}});
    if (failed(before))
      return failure();
    Value skips = make<arith::CmpIOp>(arith::CmpIPredicate::ne, position, add(*before, constant(1)));
    isOther = make<arith::OrIOp>(isOther, skips);
  }
  return make<arith::OrIOp>(isFirst, isOther).getResult();
}

/// Returns how many tokens from `first` on, before `end`, are of the same sequence.
Element CachedAttentionKernel::countRun(Value end) {
  Value one = constant(1);
  using Next = FailureOr<SmallVector<Value>>;
  Next counted = forLoop(first, end, constant(1), {constant(0), one}, [&](Value other, ValueRange running) -> Next {
    Element itsSequence = tensors.integerAt(root.getSequences(), {Index{other}});
    if (failed(itsSequence))
      return failure();
    Value same = equal(sequence, *itsSequence);
    if (quantizedKeys) {
      Value expected = add(position, sub(other, first));
      Element itsPosition = tensors.integerAt(root.getPositions(), {Index{other}});
      if (failed(itsPosition))
        return failure();
      Value follows = equal(expected, *itsPosition);
      same = make<arith::AndIOp>(same, follows);
    }
    Value open = mul(running[1], make<arith::ExtUIOp>(b.getI64Type(), same));
    return SmallVector<Value>{add(running[0], open), open};
  });
  if (failed(counted))
    return failure();
  return (*counted)[0];
}

/// Emits the run that begins with the token `first`, of a tile whose tokens end at `end`.
LogicalResult CachedAttentionKernel::emitRun(Value end) {
  Element tokens = countRun(end);
  if (failed(tokens))
    return failure();
  count = *tokens;
  rows = mul(count, constant(group));
  if (failed(startRows()))
    return failure();
  Element own = tensors.integerAt(root.getPositions(), {Index{first}});
  if (failed(own))
    return failure();
  firstPosition = *own;
  FailureOr<std::pair<Value, Value>> keysSeen = keysOfRun();
  if (failed(keysSeen))
    return failure();
  auto [firstKey, endKey] = *keysSeen;
  LogicalResult summed =
      forLoop(firstKey, endKey, constant(blockKeys),
              [&, firstKey = firstKey, endKey = endKey](Value begin) { return emitBlock(begin, firstKey, endKey); });
  if (failed(summed))
    return failure();
  return forLoop(constant(0), rows, constant(1), [&](Value row) {
    storeRow(row);
    return success();
  });
}

/// Sums up the block of keys from `begin` on; `firstKey` begins the first block.
LogicalResult CachedAttentionKernel::emitBlock(Value begin, Value firstKey, Value endKey) {
  blockKey = begin;
  keyCount = min(sub(endKey, blockKey), constant(blockKeys));
  pages = ceilDiv(keyCount, constant(page));
  firstPage = div(blockKey, constant(page));
  auto forPages = [&](function_ref<LogicalResult(Value)> body) {
    return forLoop(constant(0), pages, constant(1), body);
  };
  if (failed(forPages([&](Value p) { return scorePage(p, add(firstPage, p), endKey); })))
    return failure();
  if (quantizedValues && failed(forPages([&](Value p) { return loadValueParameters(p); })))
    return failure();
  if (failed(forLoop(constant(0), rows, constant(1), [&](Value row) { return sumUp(row, firstKey); })))
    return failure();
  return forPages([&](Value p) { return addValues(p); });
}

/// Reads the queries of a run, scaled, and sets sums to zero.
LogicalResult CachedAttentionKernel::startRows() {
  Type f32 = b.getF32Type();
  Value scale = floatConstant(root.getScale().convertToDouble(), f32, 1);
  return forLoop(constant(0), rows, constant(1), [&](Value row) -> LogicalResult {
    LogicalResult scaled = vectorLoop(constant(headDim), [&](Value d, int64_t width) -> LogicalResult {
      Element x = tensors.evaluate(root.getQuery(), {Index{tokenOf(row)}, Index{headOf(row)}, Index{d, true}}, width);
      if (failed(x))
        return failure();
      memory.store(make<arith::MulFOp>(*x, splat(scale, width)), queries, add(mul(row, constant(headDim)), d), f32,
                   width);
      return success();
    });
    if (failed(scaled))
      return failure();
    // A sink is a score that was seen before all others, with a value of zero.
    Element sink = root.getSinks() ? tensors.evaluate(root.getSinks(), {Index{headOf(row)}}, 1) : Element(lowestScalar);
    if (failed(sink))
      return failure();
    memory.store(*sink, maxima, row, f32, 1);
    memory.store(floatConstant(root.getSinks() ? 1.0 : 0.0, f32, 1), totals, row, f32, 1);
    if (quantizedValues)
      memory.store(zeroScalar, offsets, row, f32, 1);
    forLoop(constant(0), constant(paddedDim), constant(lanes),
            [&](Value d) { memory.store(zero, sums, add(mul(row, constant(paddedDim)), d), f32, lanes); });
    return success();
  });
}

/// Returns the first and the end of the keys that some token of the run sees: whole pages before the last.
FailureOr<std::pair<Value, Value>> CachedAttentionKernel::keysOfRun() {
  using Next = FailureOr<SmallVector<Value>>;
  Next seen = forLoop(constant(0), count, constant(1), {constant(0), constant(std::numeric_limits<int64_t>::max())},
                      [&](Value i, ValueRange running) -> Next {
                        Element own = tensors.integerAt(root.getPositions(), {Index{add(first, i)}});
                        if (failed(own))
                          return failure();
                        return SmallVector<Value>{max(running[0], add(*own, constant(1))), min(running[1], *own)};
                      });
  if (failed(seen))
    return failure();
  Value firstKey = constant(0);
  if (root.getWindow())
    firstKey =
        mul(div(max(sub((*seen)[1], constant(*root.getWindow() - 1)), constant(0)), constant(page)), constant(page));
  return std::pair(firstKey, (*seen)[0]);
}

//===-- Sums --------------------------------------------------------------------------------------------------===//

LogicalResult CachedAttentionKernel::loadValueParameters(Value p) {
  Type f32 = b.getF32Type();
  Value at = mul(p, constant(page));
  Element from = pageAt(*valueParameters, add(firstPage, p));
  if (failed(from))
    return failure();
  caches.loadParameters(*from, page, valueFormat.getBits(), sub(keyCount, at), memory.at(valueScales, at, f32),
                        memory.at(valueZeros, at, f32));
  return success();
}

/// Makes exponentials of a row's scores of a block, and brings the row's maximum, total and sums up to date.
LogicalResult CachedAttentionKernel::sumUp(Value row, Value firstKey) {
  Type f32 = b.getF32Type();
  Element own = tensors.integerAt(root.getPositions(), {Index{tokenOf(row)}});
  if (failed(own))
    return failure();
  Value last = splat(sub(*own, blockKey), lanes);
  Value begin = mul(row, constant(blockKeys)), slots = mul(pages, constant(page));
  Value largest = hideAndMaximize(begin, slots, *own, last);
  Value before = memory.load(maxima, row, f32, 1);
  // NaN need not come through here: it comes through the exponentials.
  Value maximum = make<arith::MaximumFOp>(before, horizontal(vector::CombiningKind::MAXNUMF, largest));
  // A row that has seen nothing yet keeps -inf; subtracting 0 instead keeps its exponentials at zero.
  Value none = make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, maximum, lowestScalar);
  Value shift = select(none, zeroScalar, maximum);
  Value factor = emitExpNonPositive(b, loc, make<arith::SubFOp>(before, shift));
  SmallVector<Value> blockTotals = exponentiate(begin, slots, shift);
  Value total = make<arith::MulFOp>(memory.load(totals, row, f32, 1), factor);
  total = make<arith::AddFOp>(total, horizontal(vector::CombiningKind::ADD, blockTotals[0]));
  if (quantizedValues) {
    Value offset = make<arith::MulFOp>(memory.load(offsets, row, f32, 1), factor);
    Value zeros = horizontal(vector::CombiningKind::ADD, blockTotals[1]);
    memory.store(make<arith::SubFOp>(offset, zeros), offsets, row, f32, 1);
  }
  memory.store(maximum, maxima, row, f32, 1);
  memory.store(total, totals, row, f32, 1);
  ifThen(less(firstKey, blockKey), [&] {
    forLoop(constant(0), constant(paddedDim), constant(lanes), [&](Value d) {
      Value offset = add(mul(row, constant(paddedDim)), d);
      Value sum = make<arith::MulFOp>(memory.load(sums, offset, f32, lanes), splat(factor, lanes));
      memory.store(sum, sums, offset, f32, lanes);
    });
  });
  return success();
}

/// Drops the scores from `begin` on of slots that the token does not see, whatever they hold: those behind
/// `last`, a splat, unwritten ones among them, and those before the window of the token's position `own`. Returns the
/// largest scores of the others, a vector.
Value CachedAttentionKernel::hideAndMaximize(Value begin, Value slots, Value own, Value last) {
  Type f32 = b.getF32Type();
  return forLoop(constant(0), slots, constant(lanes), {lowest}, [&](Value c, ValueRange running) {
    Value index = make<arith::AddIOp>(splat(c, lanes), iota);
    Value visible = make<arith::CmpIOp>(arith::CmpIPredicate::sle, index, last);
    if (root.getWindow()) {
      Value before = splat(sub(sub(own, blockKey), constant(*root.getWindow())), lanes);
      visible = make<arith::AndIOp>(visible, make<arith::CmpIOp>(arith::CmpIPredicate::sgt, index, before));
    }
    Value score = memory.load(scores, add(begin, c), f32, lanes);
    if (root.getSoftCap()) {
      double cap = root.getSoftCap()->convertToDouble();
      score = make<arith::MulFOp>(score, floatConstant(1.0 / cap, f32, lanes));
      score = make<arith::MulFOp>(emitTanh(b, loc, score), floatConstant(cap, f32, lanes));
    }
    score = select(visible, score, lowest);
    memory.store(score, scores, add(begin, c), f32, lanes);
    return SmallVector<Value>{make<arith::MaximumFOp>(running[0], score)};
  })[0];
}

/// Makes exponentials of the scores from `begin` on less `shift`, times the scales of quantized values. Returns
/// their sums and, for quantized values, their sums times the zero points.
SmallVector<Value> CachedAttentionKernel::exponentiate(Value begin, Value slots, Value shift) {
  Type f32 = b.getF32Type();
  SmallVector<Value> blockTotals(quantizedValues ? 2 : 1, zero);
  return forLoop(constant(0), slots, constant(lanes), blockTotals, [&](Value c, ValueRange running) {
    Value score = memory.load(scores, add(begin, c), f32, lanes);
    Value e = emitExpNonPositive(b, loc, make<arith::SubFOp>(score, splat(shift, lanes)));
    SmallVector<Value> next{make<arith::AddFOp>(running[0], e)};
    if (quantizedValues) {
      e = make<arith::MulFOp>(e, memory.load(valueScales, c, f32, lanes));
      next.push_back(make<vector::FMAOp>(e, memory.load(valueZeros, c, f32, lanes), running[1]));
    }
    memory.store(e, scores, add(begin, c), f32, lanes);
    return next;
  });
}

/// Copies rows of a page as f32, zeros behind each. Four bits come in multiples of 32, so that no such page is copied.
void CachedAttentionKernel::copyValuePage(Value from, Value depth) {
  Type f32 = b.getF32Type();
  if (!quantizedValues) {
    registerTiles.packRows(valueBlock, from, constant(valueDim), values->elementType, depth, constant(valueDim),
                           paddedDim);
    return;
  }
  forLoop(constant(0), depth, constant(1), [&](Value slot) {
    Value begin = mul(slot, constant(paddedDim));
    vectorLoop(constant(valueDim), [&](Value d, int64_t width) {
      Value value = memory.load(from, add(mul(slot, constant(valueDim)), d), b.getI8Type(), width);
      value = make<arith::ExtUIOp>(vectorOf(b.getI32Type(), width), value);
      memory.store(make<arith::SIToFPOp>(vectorOf(f32, width), value), valueBlock, add(begin, d), f32, width);
    });
    forLoop(constant(valueDim), constant(paddedDim), constant(1),
            [&](Value d) { memory.store(zeroScalar, valueBlock, add(begin, d), f32, 1); });
  });
}

/// Adds the values of page `p` of a block, times their exponentials, to the sums.
LogicalResult CachedAttentionKernel::addValues(Value p) {
  Type f32 = b.getF32Type();
  Element from = pageAt(*values, add(firstPage, p));
  if (failed(from))
    return failure();
  Value pageOfValues = *from;
  Value depth = min(sub(keyCount, mul(p, constant(page))), constant(page));
  if (copyValues) {
    copyValuePage(pageOfValues, depth);
    pageOfValues = valueBlock;
  }
  forLoop(constant(0), rows, constant(config.rows), [&](Value row) {
    TileOperands operands;
    operands.a = memory.at(scores, add(mul(row, constant(blockKeys)), mul(p, constant(page))), f32);
    operands.aRow = constant(blockKeys);
    operands.aColumn = constant(1);
    operands.aType = f32;
    operands.b = pageOfValues;
    bool readsQuantized = quantizedValues && !copyValues;
    operands.bRow = constant(copyValues ? paddedDim : readsQuantized ? valueDim * valueFormat.getBits() / 8 : valueDim);
    operands.bType = copyValues ? f32 : values->elementType;
    operands.quantizedBits = readsQuantized ? valueFormat.getBits() : 0;
    operands.depth = depth;
    operands.out = memory.at(sums, mul(row, constant(paddedDim)), f32);
    operands.outRow = constant(paddedDim);
    operands.accumulate = true;
    registerTiles.emitTileRows(operands, min(sub(rows, row), constant(config.rows)), paddedDim);
  });
  return success();
}

/// Divides a row's sums by its total and stores them.
void CachedAttentionKernel::storeRow(Value row) {
  Type f32 = b.getF32Type();
  Value inverse = make<arith::DivFOp>(floatConstant(1.0, f32, 1), memory.load(totals, row, f32, 1));
  vectorLoop(constant(valueDim), [&](Value d, int64_t width) {
    Value x = memory.load(sums, add(mul(row, constant(paddedDim)), d), f32, width);
    if (quantizedValues)
      x = make<arith::AddFOp>(x, splat(memory.load(offsets, row, f32, 1), width));
    x = make<arith::MulFOp>(x, splat(inverse, width));
    Indices at{{tokenOf(row)}, {headOf(row)}, {d, true}};
    for (const Storage &output : function.outputs)
      tensors.store(x, output, at, width);
  });
}

} // namespace intarsia::cpu
