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
  queries = function.sizeOf(root.getQuery(), 1);
  keys = function.sizeOf(root.getKey(), 1);
  queryBlocks = ceilDiv(queries, constant(kPanelWidth));
}

/// Returns how many tiles there are: those of each batch entry, head and block of queries.
Value AttentionEmitter::tileCount() {
  ArrayRef<AffineExpr> querySizes = function.sizes.of(root.getQuery());
  return mul(mul(function.size(querySizes[0]), function.size(querySizes[2])), queryBlocks);
}

/// Keys that a block may have by the IR: a thread keeps as many scores of kPanelWidth queries.
static constexpr int64_t kMostKeys = 1 << 12;

void chooseKeys(KernelShape &shape, TileConfig &config) {
  shape.state("queries", kPanelWidth);
  // Bytes of keys are multiplied four at a time, and whole vectors of them are loaded.
  shape.choose("block_keys", config.keyBlock, {config.lanes, kMostKeys, config.lanes});
}

void AttentionEmitter::launch() {
  countQueries();
  function.setSlot(ITX_PLAN_TILES, tileCount());
}

LogicalResult AttentionEmitter::prepare() {
  if (failed(function.storesOnly(root)))
    return failure();
  if (ShapedType::isDynamic(headDim) || ShapedType::isDynamic(valueDim))
    return function.refuse(root, "its head size is dynamic");
  countQueries();
  query = tensors.view(root.getQuery());
  key = tensors.view(root.getKey());
  value = tensors.view(root.getValue());
  if (!query || !key || !value)
    return function.refuse(root, "a query, key or value that is computed in the same kernel");
  scores = function.scratch(config.keyBlock * kPanelWidth * 4);
  sums = function.scratch(paddedDim * kPanelWidth * 4);
  maxima = function.scratch(kPanelWidth * 4);
  totals = function.scratch(kPanelWidth * 4);
  factors = function.scratch(kPanelWidth * 4);
  width = constant(kPanelWidth);
  lowest = floatConstant(-std::numeric_limits<double>::infinity(), b.getF32Type(), config.lanes);
  zero = floatConstant(0.0, b.getF32Type(), config.lanes);
  headsPerKey = div(function.sizeOf(root.getQuery(), 2), function.sizeOf(root.getKey(), 2));
  ahead = sub(keys, queries);
  return success();
}

/// Returns the address of a row of an operand in the tile's batch.
Value AttentionEmitter::base(const Storage &operand, Value row, Value headIndex) {
  Value offset =
      add(add(mul(batch, operand.strides[0]), mul(row, operand.strides[1])), mul(headIndex, operand.strides[2]));
  return memory.at(operand.pointer, offset, operand.elementType);
}

LogicalResult AttentionEmitter::attendTile(Value tile) {
  Value heads = function.sizeOf(root.getQuery(), 2);
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
    memory.store(lowest, maxima, ofVector(v), f32, config.lanes);
    memory.store(zero, totals, ofVector(v), f32, config.lanes);
  }
  forLoop(constant(0), constant(paddedDim * kPanelWidth), constant(config.lanes),
          [&](Value i) { memory.store(zero, sums, i, f32, config.lanes); });
}

/// Applies masks; returns the largest score of each query so far.
FailureOr<SmallVector<Value>> AttentionEmitter::maskScores(Value firstKey, Value keyCount) {
  Type f32 = b.getF32Type();
  SmallVector<Value> start;
  for (int64_t v = 0; v < vectors; ++v)
    start.push_back(memory.load(maxima, ofVector(v), f32, config.lanes));
  using Next = FailureOr<SmallVector<Value>>;
  return forLoop(constant(0), keyCount, constant(1), start, [&](Value j, ValueRange running) -> Next {
    Value keyIndex = add(firstKey, j);
    SmallVector<Value> next;
    for (int64_t v = 0; v < vectors; ++v) {
      Value offset = add(mul(j, width), ofVector(v));
      Value score = memory.load(scores, offset, f32, config.lanes);
      Value firstLane = add(firstQuery, ofVector(v));
      if (root.getMask() && !scoresHaveMask) {
        Element masked = addMask(score, keyIndex, firstLane);
        if (failed(masked))
          return failure();
        score = *masked;
      }
      if (root.getCausal())
        score = hideLaterKeys(score, keyIndex, firstLane);
      if ((root.getMask() && !scoresHaveMask) || root.getCausal())
        memory.store(score, scores, offset, f32, config.lanes);
      next.push_back(make<arith::MaximumFOp>(running[v], score));
    }
    return next;
  });
}

/// Applies the mask operand to scores of one key by a vector of queries.
Element AttentionEmitter::addMask(Value score, Value keyIndex, Value firstLane) {
  Value mask = root.getMask();
  int64_t lanes = config.lanes;
  ArrayRef<AffineExpr> maskSizes = function.sizes.of(mask);
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
    Element value = tensors.evaluate(mask, at(queryIndex), 1);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  Value allowed = isOne(2) ? splat(values[0], lanes)
                           : make<vector::FromElementsOp>(VectorType::get({lanes}, values[0].getType()), values);
  if (cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1))
    return select(allowed, score, lowest);
  return make<arith::AddFOp>(score, allowed).getResult();
}

/// Drops the scores of queries that come before the key.
Value AttentionEmitter::hideLaterKeys(Value score, Value keyIndex, Value firstLane) {
  SmallVector<int64_t> iota = llvm::to_vector(llvm::seq<int64_t>(0, config.lanes));
  Value queryIndex = make<arith::AddIOp>(splat(add(firstLane, ahead), config.lanes),
                                         make<arith::ConstantOp>(b.getI64VectorAttr(iota)).getResult());
  Value seen = make<arith::CmpIOp>(arith::CmpIPredicate::sle, splat(keyIndex, config.lanes), queryIndex);
  return select(seen, score, lowest);
}

SmallVector<Value> AttentionEmitter::shiftsOf(ArrayRef<Value> largest) {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  // A query that has seen no key yet keeps -inf; subtracting 0 instead keeps its exponentials at zero.
  SmallVector<Value> shifts;
  for (int64_t v = 0; v < vectors; ++v) {
    Value none = make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, largest[v], lowest);
    Value shift = select(none, zero, largest[v]);
    Value before = memory.load(maxima, ofVector(v), f32, lanes);
    Value factor = emitExpNonPositive(b, loc, make<arith::SubFOp>(before, shift));
    memory.store(largest[v], maxima, ofVector(v), f32, lanes);
    memory.store(factor, factors, ofVector(v), f32, lanes);
    shifts.push_back(shift);
  }
  return shifts;
}

void AttentionEmitter::addTotals(ArrayRef<Value> ofBlock) {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  for (int64_t v = 0; v < vectors; ++v) {
    Value factor = memory.load(factors, ofVector(v), f32, lanes);
    Value total = memory.load(totals, ofVector(v), f32, lanes);
    total = make<arith::AddFOp>(make<arith::MulFOp>(total, factor), ofBlock[v]);
    memory.store(total, totals, ofVector(v), f32, lanes);
  }
}

Value AttentionEmitter::inverseOfTotal(Value query, int64_t width) {
  Type f32 = b.getF32Type();
  Value total = memory.load(totals, query, f32, width);
  Value none = make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, total, floatConstant(0.0, f32, width));
  total = select(none, floatConstant(1.0, f32, width), total);
  return make<arith::DivFOp>(floatConstant(1.0, f32, width), total);
}

/// Stores the result of a query, `row` times `inverse` where that is not null.
void AttentionEmitter::storeRow(Value query, Value row, Value inverse) {
  vectorLoop(constant(valueDim), [&](Value c, int64_t w) {
    Value x = memory.load(row, c, b.getF32Type(), w);
    if (inverse)
      x = make<arith::MulFOp>(x, splat(inverse, w));
    Indices at{{batch}, {add(firstQuery, query)}, {head}, {c, true}};
    for (const Storage &output : function.outputs)
      tensors.store(x, output, at, w);
  });
}

} // namespace intarsia::cpu
