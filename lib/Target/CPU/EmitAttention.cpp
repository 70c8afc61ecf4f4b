//===- EmitAttention.cpp - Attention whose scores stay in the cache -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"
#include "lib/Target/CPU/VectorMath.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

// A tile is 32 queries of one head. Scores are kept transposed, keys by queries: a register tile multiplies rows of
// the keys, as they lie in memory, by the packed panel of queries; softmax then runs along keys with a query in each
// lane, without horizontal reductions. Keys come in blocks, with the running maximum and sum of arXiv 2205.14135,
// algorithm 1, so that the workspace does not depend on the sequence.
void KernelEmitter::emitAttention(nn::AttentionOp root) {
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (yielded(i) != root.getResult()) {
      unsupported(root, "an op stands between it and the kernel's result");
      return;
    }
  ArrayRef<AffineExpr> querySizes = sizes.of(root.getQuery()), keySizes = sizes.of(root.getKey());
  int64_t headDim = cast<RankedTensorType>(root.getQuery().getType()).getDimSize(3);
  int64_t valueDim = cast<RankedTensorType>(root.getValue().getType()).getDimSize(3);
  if (ShapedType::isDynamic(headDim) || ShapedType::isDynamic(valueDim)) {
    unsupported(root, "its head size is dynamic");
    return;
  }
  Value queries = size(querySizes[1]), keys = size(keySizes[1]);
  Value queryBlocks = ceilDiv(queries, constant(kPanelWidth));
  if (planning) {
    setPlan(ITX_PLAN_TILES, mul(mul(size(querySizes[0]), size(querySizes[2])), queryBlocks));
    return;
  }
  std::optional<Storage> query = view(root.getQuery()), key = view(root.getKey()), value = view(root.getValue());
  if (!query || !key || !value) {
    unsupported(root, "a query, key or value that is computed in the same kernel");
    return;
  }

  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes, vectors = kPanelWidth / lanes, keyBlock = config.keyBlock;
  // Values are read where they lie if a row is a whole number of f32 vectors, else from a padded copy of the block.
  int64_t paddedDim = llvm::divideCeil(valueDim, lanes) * lanes;
  bool copyValues = paddedDim != valueDim || !value->elementType.isF32();
  Value panel = scratch(headDim * kPanelWidth * 4), scores = scratch(keyBlock * kPanelWidth * 4);
  Value sums = scratch(paddedDim * kPanelWidth * 4);
  Value maxima = scratch(kPanelWidth * 4), totals = scratch(kPanelWidth * 4), factors = scratch(kPanelWidth * 4);
  Value valueBlock = copyValues ? scratch(keyBlock * paddedDim * 4) : Value();

  Value width = constant(kPanelWidth);
  Value lowest = floatConstant(-std::numeric_limits<double>::infinity(), f32, lanes);
  Value zero = floatConstant(0.0, f32, lanes);
  Value headsPerKey = div(size(querySizes[2]), size(keySizes[2]));
  Value ahead = sub(keys, queries); // how many keys the first query sees beyond itself, when causal

  forLoop(tileBegin, tileEnd, constant(1), [&](Value tile) {
    Value block = rem(tile, queryBlocks), rest = div(tile, queryBlocks);
    Value head = rem(rest, size(querySizes[2])), batch = div(rest, size(querySizes[2]));
    Value keyHead = div(head, headsPerKey);
    Value firstQuery = mul(block, width);
    Value queryCount = min(sub(queries, firstQuery), width);
    auto base = [&](const Storage &operand, Value row, Value headIndex) {
      Value offset =
          add(add(mul(batch, operand.strides[0]), mul(row, operand.strides[1])), mul(headIndex, operand.strides[2]));
      return offsetPointer(operand.pointer, offset, operand.elementType);
    };
    packTransposed(panel, base(*query, firstQuery, head), query->strides[1], query->elementType, constant(headDim),
                   queryCount, floatConstant(root.getScale().convertToDouble(), f32, 1));
    for (int64_t v = 0; v < vectors; ++v) {
      storeAt(lowest, maxima, constant(v * lanes), f32, lanes);
      storeAt(zero, totals, constant(v * lanes), f32, lanes);
    }
    forLoop(constant(0), constant(paddedDim * kPanelWidth), constant(lanes),
            [&](Value i) { storeAt(zero, sums, i, f32, lanes); });

    // The keys that a query of this tile may see.
    Value endKey = keys;
    if (root.getCausal())
      endKey = max(min(keys, add(add(firstQuery, queryCount), ahead)), constant(0));

    forLoop(constant(0), endKey, constant(keyBlock), [&](Value firstKey) {
      Value keyCount = min(sub(endKey, firstKey), constant(keyBlock));
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

      // Masks, and the largest score of each query.
      SmallVector<Value> start;
      for (int64_t v = 0; v < vectors; ++v)
        start.push_back(loadAt(maxima, constant(v * lanes), f32, lanes));
      SmallVector<Value> largest = forLoop(constant(0), keyCount, constant(1), start, [&](Value j, ValueRange running) {
        Value keyIndex = add(firstKey, j);
        SmallVector<Value> next;
        for (int64_t v = 0; v < vectors; ++v) {
          Value offset = add(mul(j, width), constant(v * lanes));
          Value score = loadAt(scores, offset, f32, lanes);
          Value firstLane = add(firstQuery, constant(v * lanes));
          if (Value mask = root.getMask()) {
            ArrayRef<AffineExpr> maskSizes = sizes.of(mask);
            auto isOne = [&](unsigned d) { return maskSizes[d] == getAffineConstantExpr(1, b.getContext()); };
            auto at = [&](Value queryIndex) {
              return Indices{{isOne(0) ? constant(0) : batch},
                             {isOne(1) ? constant(0) : head},
                             {isOne(2) ? constant(0) : queryIndex},
                             {keyIndex}};
            };
            Value allowed;
            if (isOne(2)) {
              allowed = splat(evaluate(mask, at(constant(0)), 1), lanes);
            } else {
              // Lanes beyond the last query read the last query's mask: they are never written out.
              SmallVector<Value> values;
              for (int64_t lane = 0; lane < lanes; ++lane)
                values.push_back(evaluate(mask, at(min(add(firstLane, constant(lane)), sub(queries, constant(1)))), 1));
              allowed = vector::FromElementsOp::create(b, loc, VectorType::get({lanes}, values[0].getType()), values);
            }
            if (cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1))
              score = arith::SelectOp::create(b, loc, allowed, score, lowest);
            else
              score = arith::AddFOp::create(b, loc, score, allowed);
          }
          if (root.getCausal()) {
            SmallVector<int64_t> iota = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
            Value queryIndex =
                arith::AddIOp::create(b, loc, splat(add(firstLane, ahead), lanes),
                                      arith::ConstantOp::create(b, loc, b.getI64VectorAttr(iota)).getResult());
            Value seen = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, splat(keyIndex, lanes), queryIndex);
            score = arith::SelectOp::create(b, loc, seen, score, lowest);
          }
          if (root.getMask() || root.getCausal())
            storeAt(score, scores, offset, f32, lanes);
          next.push_back(arith::MaximumFOp::create(b, loc, running[v], score));
        }
        return next;
      });

      // A query that has seen no key yet keeps -inf; subtracting 0 instead keeps its exponentials at zero.
      SmallVector<Value> shifts, noSums;
      for (int64_t v = 0; v < vectors; ++v) {
        Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, largest[v], lowest);
        Value shift = arith::SelectOp::create(b, loc, none, zero, largest[v]);
        Value before = loadAt(maxima, constant(v * lanes), f32, lanes);
        Value factor = emitExpNonPositive(b, loc, arith::SubFOp::create(b, loc, before, shift));
        storeAt(largest[v], maxima, constant(v * lanes), f32, lanes);
        storeAt(factor, factors, constant(v * lanes), f32, lanes);
        shifts.push_back(shift);
        noSums.push_back(zero);
      }
      SmallVector<Value> blockTotals =
          forLoop(constant(0), keyCount, constant(1), noSums, [&](Value j, ValueRange running) {
            SmallVector<Value> next;
            for (int64_t v = 0; v < vectors; ++v) {
              Value offset = add(mul(j, width), constant(v * lanes));
              Value shifted = arith::SubFOp::create(b, loc, loadAt(scores, offset, f32, lanes), shifts[v]);
              Value e = emitExpNonPositive(b, loc, shifted);
              storeAt(e, scores, offset, f32, lanes);
              next.push_back(arith::AddFOp::create(b, loc, running[v], e));
            }
            return next;
          });
      for (int64_t v = 0; v < vectors; ++v) {
        Value factor = loadAt(factors, constant(v * lanes), f32, lanes);
        Value total = loadAt(totals, constant(v * lanes), f32, lanes);
        total = arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, total, factor), blockTotals[v]);
        storeAt(total, totals, constant(v * lanes), f32, lanes);
      }
      // Earlier blocks are rescaled; the first one has none.
      ifThen(less(constant(0), firstKey), [&] {
        forLoop(constant(0), queryCount, constant(1), [&](Value q) {
          Value factor = splat(loadAt(factors, q, f32, 1), lanes);
          for (int64_t c = 0; c < paddedDim; c += lanes) {
            Value offset = add(mul(q, constant(paddedDim)), constant(c));
            Value scaled = arith::MulFOp::create(b, loc, loadAt(sums, offset, f32, lanes), factor);
            storeAt(scaled, sums, offset, f32, lanes);
          }
        });
      });

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
    });

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
  });
}

} // namespace intarsia::cpu
