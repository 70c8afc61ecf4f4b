//===- AttentionKernel.cpp - Attention whose scores stay in the cache -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "lib/Target/CPU/KernelRoots.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

using namespace kernel;

namespace {
/// A tile is 32 queries of one head. Scores are kept transposed, keys by queries: a register tile multiplies rows of
/// the keys, as they lie in memory, by the packed panel of queries; softmax then runs along keys with a query in each
/// lane, without horizontal reductions. Keys come in blocks, with the running maximum and sum of arXiv 2205.14135,
/// algorithm 1, so that the workspace does not depend on the sequence.
class AttentionKernel final : public KernelEmitter {
public:
  AttentionKernel(rt::KernelOp kernel, nn::AttentionOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root),
        headDim(cast<RankedTensorType>(root.getQuery().getType()).getDimSize(3)),
        valueDim(cast<RankedTensorType>(root.getValue().getType()).getDimSize(3)),
        paddedDim(llvm::divideCeil(valueDim, config.lanes) * config.lanes), vectors(kPanelWidth / config.lanes) {}

private:
  LogicalResult run() override;
  void launch() override;

  void countQueries();
  void makeRoom();
  LogicalResult attendTile(Value tile);
  void startTile();
  void scoreKeys(Value firstKey, Value keyCount);
  FailureOr<SmallVector<Value>> maskScores(Value firstKey, Value keyCount);
  Element addMask(Value score, Value keyIndex, Value firstLane);
  Value hideLaterKeys(Value score, Value keyIndex, Value firstLane);
  void exponentiate(ArrayRef<Value> largest, Value keyCount);
  void rescaleSums();
  void addValues(Value firstKey, Value keyCount);
  void storeRows();
  Value base(const Storage &operand, Value row, Value headIndex);
  Value ofVector(int64_t v) { return constant(v * config.lanes); }

  nn::AttentionOp root;
  int64_t headDim, valueDim, paddedDim, vectors;
  bool copyValues = false; ///< values are read from a padded copy of the block as f32
  std::optional<Storage> query, key, value;
  Value queries, keys, queryBlocks, headsPerKey, width, lowest, zero;
  Value ahead; ///< how many keys the first query sees beyond itself, when causal
  Value panel, scores, sums, maxima, totals, factors, valueBlock;
  // The tile that is being emitted.
  Value batch, head, keyHead, firstQuery, queryCount;
};
} // namespace

Emitter makeAttentionKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<AttentionKernel>(kernel, cast<nn::AttentionOp>(root), config);
}

void AttentionKernel::countQueries() {
  queries = size(sizes.of(root.getQuery())[1]);
  keys = size(sizes.of(root.getKey())[1]);
  queryBlocks = ceilDiv(queries, constant(kPanelWidth));
}

void AttentionKernel::launch() {
  countQueries();
  ArrayRef<AffineExpr> querySizes = sizes.of(root.getQuery());
  setLaunchValue(ITX_PLAN_TILES, mul(mul(size(querySizes[0]), size(querySizes[2])), queryBlocks));
}

LogicalResult AttentionKernel::run() {
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
  makeRoom();
  headsPerKey = div(size(sizes.of(root.getQuery())[2]), size(sizes.of(root.getKey())[2]));
  ahead = sub(keys, queries);
  return forLoop(tileBegin, tileEnd, constant(1), [&](Value tile) { return attendTile(tile); });
}

/// Makes room for scores and sums.
void AttentionKernel::makeRoom() {
  Type f32 = b.getF32Type();
  // Values are read where they lie if a row is a whole number of f32 vectors.
  copyValues = paddedDim != valueDim || !value->elementType.isF32();
  panel = scratch(headDim * kPanelWidth * 4);
  scores = scratch(config.keyBlock * kPanelWidth * 4);
  sums = scratch(paddedDim * kPanelWidth * 4);
  maxima = scratch(kPanelWidth * 4);
  totals = scratch(kPanelWidth * 4);
  factors = scratch(kPanelWidth * 4);
  valueBlock = copyValues ? scratch(config.keyBlock * paddedDim * 4) : Value();
  width = constant(kPanelWidth);
  lowest = floatConstant(-std::numeric_limits<double>::infinity(), f32, config.lanes);
  zero = floatConstant(0.0, f32, config.lanes);
}

/// Returns the address of a row of an operand in the tile's batch.
Value AttentionKernel::base(const Storage &operand, Value row, Value headIndex) {
  Value offset =
      add(add(mul(batch, operand.strides[0]), mul(row, operand.strides[1])), mul(headIndex, operand.strides[2]));
  return offsetPointer(operand.pointer, offset, operand.elementType);
}

LogicalResult AttentionKernel::attendTile(Value tile) {
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
    // Earlier blocks are rescaled; the first one has none.
    ifThen(less(constant(0), firstKey), [&] { rescaleSums(); });
    addValues(firstKey, keyCount);
    return success();
  });
  if (failed(summed))
    return failure();
  storeRows();
  return success();
}

/// Packs the queries of a tile, and sets sums to zero.
void AttentionKernel::startTile() {
  Type f32 = b.getF32Type();
  packTransposed(panel, base(*query, firstQuery, head), query->strides[1], query->elementType, constant(headDim),
                 queryCount, floatConstant(root.getScale().convertToDouble(), f32, 1));
  for (int64_t v = 0; v < vectors; ++v) {
    storeAt(lowest, maxima, ofVector(v), f32, config.lanes);
    storeAt(zero, totals, ofVector(v), f32, config.lanes);
  }
  forLoop(constant(0), constant(paddedDim * kPanelWidth), constant(config.lanes),
          [&](Value i) { storeAt(zero, sums, i, f32, config.lanes); });
}

/// Multiplies a block of keys by the tile's queries.
void AttentionKernel::scoreKeys(Value firstKey, Value keyCount) {
  Type f32 = b.getF32Type();
  forLoop(constant(0), keyCount, constant(config.rows), [&](Value j) {
    TileOperands operands;
    operands.a = base(*key, add(firstKey, j), keyHead);
    operands.aRow = key->strides[1];
    operands.aColumn = constant(1);
    operands.aType = key->elementType;
    operands.b = panel;
    operands.bRow = width;
    operands.bType = f32;
    operands.depth = constant(headDim);
    operands.out = offsetPointer(scores, mul(j, width), f32);
    operands.outRow = width;
    emitTileRows(operands, min(sub(keyCount, j), constant(config.rows)), kPanelWidth);
  });
}

/// Applies masks; returns the largest score of each query so far.
FailureOr<SmallVector<Value>> AttentionKernel::maskScores(Value firstKey, Value keyCount) {
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
Element AttentionKernel::addMask(Value score, Value keyIndex, Value firstLane) {
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
Value AttentionKernel::hideLaterKeys(Value score, Value keyIndex, Value firstLane) {
  SmallVector<int64_t> iota = llvm::to_vector(llvm::seq<int64_t>(0, config.lanes));
  Value queryIndex = arith::AddIOp::create(b, loc, splat(add(firstLane, ahead), config.lanes),
                                           arith::ConstantOp::create(b, loc, b.getI64VectorAttr(iota)).getResult());
  Value seen = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, splat(keyIndex, config.lanes), queryIndex);
  return arith::SelectOp::create(b, loc, seen, score, lowest);
}

/// Makes exponentials of a block's scores, and adds them to the totals.
void AttentionKernel::exponentiate(ArrayRef<Value> largest, Value keyCount) {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  // A query that has seen no key yet keeps -inf; subtracting 0 instead keeps its exponentials at zero.
  SmallVector<Value> shifts, noSums;
  for (int64_t v = 0; v < vectors; ++v) {
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, largest[v], lowest);
    Value shift = arith::SelectOp::create(b, loc, none, zero, largest[v]);
    Value before = loadAt(maxima, ofVector(v), f32, lanes);
    Value factor = emitExpNonPositive(b, loc, arith::SubFOp::create(b, loc, before, shift));
    storeAt(largest[v], maxima, ofVector(v), f32, lanes);
    storeAt(factor, factors, ofVector(v), f32, lanes);
    shifts.push_back(shift);
    noSums.push_back(zero);
  }
  SmallVector<Value> blockTotals =
      forLoop(constant(0), keyCount, constant(1), noSums, [&](Value j, ValueRange running) {
        SmallVector<Value> next;
        for (int64_t v = 0; v < vectors; ++v) {
          Value offset = add(mul(j, width), ofVector(v));
          Value shifted = arith::SubFOp::create(b, loc, loadAt(scores, offset, f32, lanes), shifts[v]);
          Value e = emitExpNonPositive(b, loc, shifted);
          storeAt(e, scores, offset, f32, lanes);
          next.push_back(arith::AddFOp::create(b, loc, running[v], e));
        }
        return next;
      });
  for (int64_t v = 0; v < vectors; ++v) {
    Value factor = loadAt(factors, ofVector(v), f32, lanes);
    Value total = loadAt(totals, ofVector(v), f32, lanes);
    total = arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, total, factor), blockTotals[v]);
    storeAt(total, totals, ofVector(v), f32, lanes);
  }
}

/// Multiplies the sums of earlier blocks by the factors of this one.
void AttentionKernel::rescaleSums() {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  forLoop(constant(0), queryCount, constant(1), [&](Value q) {
    Value factor = splat(loadAt(factors, q, f32, 1), lanes);
    for (int64_t c = 0; c < paddedDim; c += lanes) {
      Value offset = add(mul(q, constant(paddedDim)), constant(c));
      Value scaled = arith::MulFOp::create(b, loc, loadAt(sums, offset, f32, lanes), factor);
      storeAt(scaled, sums, offset, f32, lanes);
    }
  });
}

/// Adds the values of a block of keys, times their exponentials, to the sums.
void AttentionKernel::addValues(Value firstKey, Value keyCount) {
  Type f32 = b.getF32Type();
  Value values = base(*value, firstKey, keyHead), valueStride = value->strides[1];
  if (copyValues) {
    packRows(valueBlock, values, valueStride, value->elementType, keyCount, constant(valueDim), paddedDim);
    values = valueBlock;
    valueStride = constant(paddedDim);
  }
  forLoop(constant(0), queryCount, constant(config.rows), [&](Value q) {
    TileOperands operands;
    operands.a = offsetPointer(scores, q, f32);
    operands.aRow = constant(1);
    operands.aColumn = width;
    operands.aType = f32;
    operands.b = values;
    operands.bRow = valueStride;
    operands.bType = f32;
    operands.depth = keyCount;
    operands.out = offsetPointer(sums, mul(q, constant(paddedDim)), f32);
    operands.outRow = constant(paddedDim);
    operands.accumulate = true;
    emitTileRows(operands, min(sub(queryCount, q), constant(config.rows)), paddedDim);
  });
}

/// Divides the sums by the totals and stores them.
void AttentionKernel::storeRows() {
  Type f32 = b.getF32Type();
  forLoop(constant(0), queryCount, constant(1), [&](Value q) {
    Value total = loadAt(totals, q, f32, 1);
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, total, floatConstant(0.0, f32, 1));
    total = arith::SelectOp::create(b, loc, none, floatConstant(1.0, f32, 1), total);
    Value inverse = arith::DivFOp::create(b, loc, floatConstant(1.0, f32, 1), total);
    Value from = mul(q, constant(paddedDim));
    vectorLoop(constant(valueDim), [&](Value c, int64_t w) {
      Value x = arith::MulFOp::create(b, loc, loadAt(sums, add(from, c), f32, w), splat(inverse, w));
      Indices at{{batch}, {add(firstQuery, q)}, {head}, {c, true}};
      for (const Storage &output : outputs)
        store(x, output, at, w);
    });
  });
}

} // namespace intarsia::cpu
