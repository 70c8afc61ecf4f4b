//===- CacheEmitter.cpp - Paged caches: pages and tokens --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/CacheEmitter.h"

#include "lib/Kernel/VectorMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

Element CacheEmitter::pageOf(const Storage &cache, Value pageTable, Value sequence, Value pageIndex, Value head) {
  Element page = tensors.integerAt(pageTable, {Index{sequence}, Index{pageIndex}});
  if (failed(page))
    return failure();
  return memory.at(cache.pointer, add(mul(*page, cache.strides[0]), mul(head, cache.strides[1])), cache.elementType);
}

FailureOr<TokenIndex> CacheEmitter::indexOfToken(Value positions, Value sequences, Value token) {
  Element position = tensors.integerAt(positions, {Index{token}});
  if (failed(position))
    return failure();
  Element sequence = tensors.integerAt(sequences, {Index{token}});
  if (failed(sequence))
    return failure();
  return TokenIndex{*position, *sequence};
}

void CacheEmitter::cutTokens(Value rows) {
  Value tokens = function.sizeOf(rows, 0);
  Value perTile = max(ceilDiv(tokens, mul(function.threads, constant(kTilesPerThread))), constant(1));
  function.setSlot(kTokensPerTile, perTile);
  function.setSlot(ITX_PLAN_TILES, ceilDiv(tokens, perTile));
}

LogicalResult CacheEmitter::forTokens(Value rows, function_ref<LogicalResult(Value)> body) {
  Value tokens = function.sizeOf(rows, 0);
  Value perTile = function.slot(kTokensPerTile);
  Value begin = mul(function.tileBegin, perTile);
  return forLoop(begin, min(mul(function.tileEnd, perTile), tokens), constant(1), body);
}

Element CacheEmitter::isTokenAt(const TokenIndices &indices, Value row, Value sequence, Value position) {
  Value inside =
      make<arith::AndIOp>(make<arith::CmpIOp>(arith::CmpIPredicate::sge, row, constant(0)), less(row, indices.tokens));
  Value some = max(min(row, sub(indices.tokens, constant(1))), constant(0));
  Element ownSequence = tensors.integerAt(indices.sequences, {Index{some}});
  if (failed(ownSequence))
    return failure();
  Value isSequence = equal(*ownSequence, sequence);
  Element ownPosition = tensors.integerAt(indices.positions, {Index{some}});
  if (failed(ownPosition))
    return failure();
  Value same = make<arith::AndIOp>(isSequence, equal(*ownPosition, position));
  return make<arith::AndIOp>(inside, same).getResult();
}

LogicalResult CacheEmitter::storeColumn(Value rows, Value row, Value head, Value panel, int64_t page, Value slot,
                                        Type rounded, Type stored) {
  int64_t features = cast<RankedTensorType>(rows.getType()).getDimSize(2);
  return vectorLoop(constant(features), [&](Value feature, int64_t width) -> LogicalResult {
    Element element = tensors.evaluate(rows, {Index{row}, Index{head}, Index{feature, true}}, width);
    if (failed(element))
      return failure();
    Value x = *element;
    if (isa<Float8E4M3FNType>(rounded))
      x = memory.narrowE4M3(x, width);
    else if (!rounded.isF32())
      x = memory.narrow(x, rounded, width);
    if (stored != rounded)
      x = memory.widen(x, stored, width);
    for (int64_t lane = 0; lane < width; ++lane) {
      Value value = width == 1 ? x : make<vector::ExtractOp>(x, lane).getResult();
      Value offset = add(mul(add(feature, constant(lane)), constant(page)), slot);
      make<LLVM::StoreOp>(value, memory.at(panel, offset, stored), stored.getIntOrFloatBitWidth() / 8);
    }
    return success();
  });
}

LogicalResult CacheEmitter::gatherPage(Value panel, const Storage &tail, Value rows, const TokenIndices &indices,
                                       Value sequence, Value head, Value base, Value firstRow, Value slots) {
  auto rowsType = cast<RankedTensorType>(rows.getType());
  int64_t features = rowsType.getDimSize(2), page = kPanelWidth;
  Type f32 = b.getF32Type();
  Element beginsHere = isTokenAt(indices, firstRow, sequence, base);
  if (failed(beginsHere))
    return failure();
  ifThen(
      *beginsHere, [] {},
      [&] {
        Value from =
            memory.at(tail.pointer, add(mul(sequence, tail.strides[0]), mul(head, tail.strides[1])), tail.elementType);
        forLoop(constant(0), constant(features * page), constant(config.lanes), [&](Value i) {
          memory.store(memory.load(from, i, tail.elementType, config.lanes), panel, i, f32, config.lanes);
        });
      });
  return forLoop(constant(0), slots, constant(1), [&](Value slot) -> LogicalResult {
    Value row = add(firstRow, slot);
    Element isHere = isTokenAt(indices, row, sequence, add(base, slot));
    if (failed(isHere))
      return failure();
    return ifThen(*isHere, [&] { return storeColumn(rows, row, head, panel, page, slot, tail.elementType, f32); });
  });
}

//===-- Unrotated keys ------------------------------------------------------------------------------------------===//

FailureOr<PageTurn> CacheEmitter::makeTurn(Value frequencies, bool interleaved) {
  if (!frequencies)
    return PageTurn();
  int64_t pairs = cast<RankedTensorType>(frequencies.getType()).getDimSize(0), page = kPanelWidth, lanes = config.lanes;
  Type f32 = b.getF32Type();
  PageTurn turn{function.scratch(pairs * page * 4),
                function.scratch(pairs * page * 4),
                function.scratch(pairs * 4),
                function.scratch(pairs * 4),
                frequencies,
                pairs,
                interleaved};
  LogicalResult made = forLoop(constant(0), constant(pairs), constant(1), [&](Value pair) -> LogicalResult {
    Element frequency = tensors.evaluate(frequencies, {Index{pair}}, 1);
    if (failed(frequency))
      return failure();
    for (int64_t first = 0; first < page; first += lanes) {
      SmallVector<float> slots;
      for (int64_t slot = first; slot < first + lanes; ++slot)
        slots.push_back(float(slot));
      Value slotsOfVector =
          make<arith::ConstantOp>(DenseElementsAttr::get(VectorType::get({lanes}, f32), ArrayRef<float>(slots)));
      Value angle = make<arith::MulFOp>(slotsOfVector, splat(*frequency, lanes));
      Value at = add(mul(pair, constant(page)), constant(first));
      memory.store(kernel::emitCos(b, loc, angle), turn.cosines, at, f32, lanes);
      memory.store(kernel::emitSin(b, loc, angle), turn.sines, at, f32, lanes);
    }
    return success();
  });
  if (failed(made))
    return failure();
  return turn;
}

LogicalResult CacheEmitter::turnPage(Value panel, const PageTurn &turn, Value base, bool back) {
  int64_t page = kPanelWidth, lanes = config.lanes;
  Type f32 = b.getF32Type();
  Value position = make<arith::SIToFPOp>(f32, base);
  LogicalResult first = vectorLoop(constant(turn.pairs), [&](Value pair, int64_t width) -> LogicalResult {
    Element frequency = tensors.evaluate(turn.frequencies, {Index{pair, true}}, width);
    if (failed(frequency))
      return failure();
    Value angle = make<arith::MulFOp>(*frequency, splat(position, width));
    memory.store(kernel::emitCos(b, loc, angle), turn.firstCosines, pair, f32, width);
    memory.store(kernel::emitSin(b, loc, angle), turn.firstSines, pair, f32, width);
    return success();
  });
  if (failed(first))
    return failure();
  auto times = [&](Value x, Value y) -> Value { return make<arith::MulFOp>(x, y); };
  auto minus = [&](Value x, Value y) -> Value { return make<arith::SubFOp>(x, y); };
  auto plus = [&](Value x, Value y) -> Value { return make<arith::AddFOp>(x, y); };
  forLoop(constant(0), constant(turn.pairs), constant(1), [&](Value pair) {
    Value even = turn.interleaved ? mul(pair, constant(2)) : pair;
    Value odd = add(even, constant(turn.interleaved ? 1 : turn.pairs));
    Value firstCosine = splat(memory.load(turn.firstCosines, pair, f32, 1), lanes);
    Value firstSine = splat(memory.load(turn.firstSines, pair, f32, 1), lanes);
    for (int64_t slot = 0; slot < page; slot += lanes) {
      auto at = [&](Value row) { return add(mul(row, constant(page)), constant(slot)); };
      Value x = memory.load(panel, at(even), f32, lanes), y = memory.load(panel, at(odd), f32, lanes);
      Value ownCosine = memory.load(turn.cosines, at(pair), f32, lanes),
            ownSine = memory.load(turn.sines, at(pair), f32, lanes);
      // The sum of two angles: that of the page's first position, and that of the slot.
      Value cosine = minus(times(firstCosine, ownCosine), times(firstSine, ownSine));
      Value sine = plus(times(firstSine, ownCosine), times(firstCosine, ownSine));
      if (back)
        sine = make<arith::NegFOp>(sine);
      memory.store(minus(times(x, cosine), times(y, sine)), panel, at(even), f32, lanes);
      memory.store(plus(times(y, cosine), times(x, sine)), panel, at(odd), f32, lanes);
    }
  });
  return success();
}

} // namespace intarsia::cpu
