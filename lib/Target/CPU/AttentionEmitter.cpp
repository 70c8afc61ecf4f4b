//===- AttentionEmitter.cpp - What kernels of attention share ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/AttentionEmitter.h"

#include "intarsia/module_abi.h"
#include "lib/Kernel/VectorMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

using namespace kernel;

void AttentionEmitter::countQueries() {
  queries = size(sizes.of(root.getQuery())[1]);
  keys = size(sizes.of(root.getKey())[1]);
  queryBlocks = ceilDiv(queries, constant(kPanelWidth));
}

/// Returns how many tiles there are: those of each batch entry, head and block of queries.
Value AttentionEmitter::tileCount() {
  ArrayRef<AffineExpr> querySizes = sizes.of(root.getQuery());
  return mul(mul(size(querySizes[0]), size(querySizes[2])), queryBlocks);
}

void AttentionEmitter::launch() {
  countQueries();
  setLaunchValue(ITX_PLAN_TILES, tileCount());
}

LogicalResult AttentionEmitter::prepare() {
  if (failed(storesOnly(root)))
    return failure();
  if (ShapedType::isDynamic(headDim) || ShapedType::isDynamic(valueDim))
    return unsupported(root, "its head size is dynamic");
  countQueries();
  query = view(root.getQuery());
  key = view(root.getKey());
  value = view(root.getValue());
  if (!query || !key || !value)
    return unsupported(root, "a query, key or value that is computed in the same kernel");
  scores = scratch(config.keyBlock * kPanelWidth * 4);
  sums = scratch(paddedDim * kPanelWidth * 4);
  maxima = scratch(kPanelWidth * 4);
  totals = scratch(kPanelWidth * 4);
  factors = scratch(kPanelWidth * 4);
  width = constant(kPanelWidth);
  lowest = floatConstant(-std::numeric_limits<double>::infinity(), b.getF32Type(), config.lanes);
  zero = floatConstant(0.0, b.getF32Type(), config.lanes);
  headsPerKey = div(size(sizes.of(root.getQuery())[2]), size(sizes.of(root.getKey())[2]));
  ahead = sub(keys, queries);
  return success();
}

/// Returns the address of a row of an operand in the tile's batch.
Value AttentionEmitter::base(const Storage &operand, Value row, Value headIndex) {
  Value offset =
      add(add(mul(batch, operand.strides[0]), mul(row, operand.strides[1])), mul(headIndex, operand.strides[2]));
  return offsetPointer(operand.pointer, offset, operand.elementType);
}

LogicalResult AttentionEmitter::attendTile(Value tile) {
  Value heads = size(sizes.of(root.getQuery())[2]);
  Value block = rem(tile, queryBlocks), rest = div(tile, queryBlocks);
  head = rem(rest, heads);
  batch = div(rest, heads);
  keyHead = div(head, headsPerKey);
  firstQuery = mul(block, width);
  queryCount = min(sub(queries, firstQuery), width);
  startTile();

  // The keys that a query of this tile may see.
  Value endKey = keys;
  if (root.getCausal())
    endKey = max(min(keys, add(add(firstQuery, queryCount), ahead)), constant(0));
  LogicalResult summed = forLoop(constant(0), endKey, constant(config.keyBlock), [&](Value firstKey) -> LogicalResult {
    Value keyCount = min(sub(endKey, firstKey), constant(config.keyBlock));
    scoreKeys(firstKey, keyCount);
    FailureOr<SmallVector<Value>> largest = maskScores(firstKey, keyCount);
    if (failed(largest))
      return failure();
    exponentiate(*largest, keyCount);
    addValues(firstKey, keyCount);
    return success();
  });
  if (failed(summed))
    return failure();
  storeRows();
  return success();
}

void AttentionEmitter::startSums() {
  Type f32 = b.getF32Type();
  for (int64_t v = 0; v < vectors; ++v) {
    storeAt(lowest, maxima, ofVector(v), f32, config.lanes);
    storeAt(zero, totals, ofVector(v), f32, config.lanes);
  }
  forLoop(constant(0), constant(paddedDim * kPanelWidth), constant(config.lanes),
          [&](Value i) { storeAt(zero, sums, i, f32, config.lanes); });
}

/// Applies masks; returns the largest score of each query so far.
FailureOr<SmallVector<Value>> AttentionEmitter::maskScores(Value firstKey, Value keyCount) {
  Type f32 = b.getF32Type();
  SmallVector<Value> start;
  for (int64_t v = 0; v < vectors; ++v)
    start.push_back(loadAt(maxima, ofVector(v), f32, config.lanes));
  using Next = FailureOr<SmallVector<Value>>;
  return forLoop(constant(0), keyCount, constant(1), start, [&](Value j, ValueRange running) -> Next {
    Value keyIndex = add(firstKey, j);
    SmallVector<Value> next;
    for (int64_t v = 0; v < vectors; ++v) {
      Value offset = add(mul(j, width), ofVector(v));
      Value score = loadAt(scores, offset, f32, config.lanes);
      Value firstLane = add(firstQuery, ofVector(v));
      if (root.getMask()) {
        Element masked = addMask(score, keyIndex, firstLane);
        if (failed(masked))
          return failure();
        score = *masked;
      }
      if (root.getCausal())
        score = hideLaterKeys(score, keyIndex, firstLane);
      if (root.getMask() || root.getCausal())
        storeAt(score, scores, offset, f32, config.lanes);
      next.push_back(arith::MaximumFOp::create(b, loc, running[v], score));
    }
    return next;
  });
}

/// Applies the mask operand to scores of one key by a vector of queries.
Element AttentionEmitter::addMask(Value score, Value keyIndex, Value firstLane) {
  Value mask = root.getMask();
  int64_t lanes = config.lanes;
  ArrayRef<AffineExpr> maskSizes = sizes.of(mask);
  auto isOne = [&](unsigned d) { return maskSizes[d] == getAffineConstantExpr(1, b.getContext()); };
  auto at = [&](Value queryIndex) {
    return Indices{{isOne(0) ? constant(0) : batch},
                   {isOne(1) ? constant(0) : head},
                   {isOne(2) ? constant(0) : queryIndex},
                   {keyIndex}};
  };
  SmallVector<Value> values;
  for (int64_t lane = 0; lane < (isOne(2) ? 1 : lanes); ++lane) {
    // Lanes beyond the last query read the last query's mask: they are never written out.
    Value queryIndex = isOne(2) ? constant(0) : min(add(firstLane, constant(lane)), sub(queries, constant(1)));
    Element value = evaluate(mask, at(queryIndex), 1);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  Value allowed = isOne(2)
                      ? splat(values[0], lanes)
                      : vector::FromElementsOp::create(b, loc, VectorType::get({lanes}, values[0].getType()), values);
  if (cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1))
    return arith::SelectOp::create(b, loc, allowed, score, lowest).getResult();
  return arith::AddFOp::create(b, loc, score, allowed).getResult();
}

/// Drops the scores of queries that come before the key.
Value AttentionEmitter::hideLaterKeys(Value score, Value keyIndex, Value firstLane) {
  SmallVector<int64_t> iota = llvm::to_vector(llvm::seq<int64_t>(0, config.lanes));
  Value queryIndex = arith::AddIOp::create(b, loc, splat(add(firstLane, ahead), config.lanes),
                                           arith::ConstantOp::create(b, loc, b.getI64VectorAttr(iota)).getResult());
  Value seen = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, splat(keyIndex, config.lanes), queryIndex);
  return arith::SelectOp::create(b, loc, seen, score, lowest);
}

SmallVector<Value> AttentionEmitter::shiftsOf(ArrayRef<Value> largest) {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  // A query that has seen no key yet keeps -inf; subtracting 0 instead keeps its exponentials at zero.
  SmallVector<Value> shifts;
  for (int64_t v = 0; v < vectors; ++v) {
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, largest[v], lowest);
    Value shift = arith::SelectOp::create(b, loc, none, zero, largest[v]);
    Value before = loadAt(maxima, ofVector(v), f32, lanes);
    Value factor = emitExpNonPositive(b, loc, arith::SubFOp::create(b, loc, before, shift));
    storeAt(largest[v], maxima, ofVector(v), f32, lanes);
    storeAt(factor, factors, ofVector(v), f32, lanes);
    shifts.push_back(shift);
  }
  return shifts;
}

void AttentionEmitter::addTotals(ArrayRef<Value> ofBlock) {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  for (int64_t v = 0; v < vectors; ++v) {
    Value factor = loadAt(factors, ofVector(v), f32, lanes);
    Value total = loadAt(totals, ofVector(v), f32, lanes);
    total = arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, total, factor), ofBlock[v]);
    storeAt(total, totals, ofVector(v), f32, lanes);
  }
}

Value AttentionEmitter::inverseOfTotal(Value query, int64_t width) {
  Type f32 = b.getF32Type();
  Value total = loadAt(totals, query, f32, width);
  Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, total, floatConstant(0.0, f32, width));
  total = arith::SelectOp::create(b, loc, none, floatConstant(1.0, f32, width), total);
  return arith::DivFOp::create(b, loc, floatConstant(1.0, f32, width), total);
}

/// Stores the result of a query, `row` times `inverse` where that is not null.
void AttentionEmitter::storeRow(Value query, Value row, Value inverse) {
  vectorLoop(constant(valueDim), [&](Value c, int64_t w) {
    Value x = loadAt(row, c, b.getF32Type(), w);
    if (inverse)
      x = arith::MulFOp::create(b, loc, x, splat(inverse, w));
    Indices at{{batch}, {add(firstQuery, query)}, {head}, {c, true}};
    for (const Storage &output : outputs)
      store(x, output, at, w);
  });
}

} // namespace intarsia::cpu
