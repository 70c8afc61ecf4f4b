//===- EmitCache.cpp - Paged caches: rows in, attention over them -------------------------------------------------===//
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

namespace {
/// Slot of both plans: how many tokens a tile handles.
enum { kTokensPerTile = ITX_PLAN_PRIVATE };
/// Pages whose scores are kept before they are summed up: 64 rows by 128 scores are 32 KB.
constexpr int64_t kPagesPerBlock = 4;
/// Rows (tokens times the query heads of one key head) of a tile: eight register tiles read a page that is in the
/// first-level cache.
constexpr int64_t kMaximalRows = 64;
/// Tiles per thread, so that a thread that is held up does not hold up the others.
constexpr int64_t kTilesPerThread = 4;
constexpr int64_t kLineBytes = 64;
} // namespace

Value KernelEmitter::integerAt(Value tensor, ArrayRef<Index> at) {
  Value value = evaluate(tensor, at, 1);
  return value.getType().isInteger(64) ? value : arith::ExtSIOp::create(b, loc, b.getI64Type(), value).getResult();
}

/// Where the rows of one head of a page begin; `place` is the number of the page within its sequence.
Value KernelEmitter::pageOf(const Storage &cache, Value pageTable, Value sequence, Value place, Value head) {
  Value page = integerAt(pageTable, {Index{sequence}, Index{place}});
  return offsetPointer(cache.pointer, add(mul(page, cache.strides[0]), mul(head, cache.strides[1])), cache.elementType);
}

Type KernelEmitter::cacheElement(Type element) {
  return element.isInteger(8) ? Float8E4M3FNType::get(element.getContext()) : element;
}

/// Plans or walks the tokens of an append.
void KernelEmitter::forTokens(Value rows, const Body &body) {
  Value tokens = size(sizes.of(rows)[0]);
  if (planning) {
    Value perTile = max(ceilDiv(tokens, mul(threads, constant(kTilesPerThread))), constant(1));
    setPlan(kTokensPerTile, perTile);
    setPlan(ITX_PLAN_TILES, ceilDiv(tokens, perTile));
    return;
  }
  Value perTile = planValue(kTokensPerTile);
  forLoop(mul(tileBegin, perTile), min(mul(tileEnd, perTile), tokens), constant(1), body);
}

void KernelEmitter::emitCacheAppend(nn::CacheAppendOp root) {
  std::optional<Storage> cache = storage.empty() ? std::nullopt : view(root.getCache());
  if (!planning && (!cache || yielded(0) != root.getResult() || kernel.getResultTypes().size() != 1)) {
    unsupported(root, "the cache is computed in the same kernel, or is not its one result");
    return;
  }
  auto rowsType = cast<RankedTensorType>(root.getRows().getType());
  auto cacheType = cast<RankedTensorType>(root.getCache().getType());
  Type element = cacheElement(cacheType.getElementType());
  int64_t heads = rowsType.getDimSize(1), features = rowsType.getDimSize(2);
  bool transposed = root.getTransposed();
  int64_t page = cacheType.getDimSize(transposed ? 3 : 2);
  forTokens(root.getRows(), [&](Value token) {
    Value position = integerAt(root.getPositions(), {Index{token}});
    Value sequence = integerAt(root.getSequences(), {Index{token}});
    Value slot = rem(position, constant(page)), place = div(position, constant(page));
    forLoop(constant(0), constant(heads), constant(1), [&](Value head) {
      Value to = pageOf(*cache, root.getPageTable(), sequence, place, head);
      if (transposed) {
        storeColumn(root.getRows(), token, head, to, page, slot, element, element);
        return;
      }
      vectorLoop(constant(features), [&](Value feature, int64_t width) {
        Value row = evaluate(root.getRows(), {Index{token}, Index{head}, Index{feature, true}}, width);
        storeAt(row, to, add(mul(slot, constant(features)), feature), element, width);
      });
    });
  });
}

// A tile is some tokens and one head of the keys with all query heads that share it. Tokens that follow one another in
// the same sequence form a run: its rows, tokens times heads, are multiplied by the pages of keys as they lie, then
// summed up with the running maximum and total of arXiv 2205.14135, algorithm 1.
void KernelEmitter::emitCachedAttention(nn::CachedAttentionOp root) {
  auto queryType = cast<RankedTensorType>(root.getQuery().getType());
  auto keysType = cast<RankedTensorType>(root.getKeys().getType());
  int64_t keyHeads = keysType.getDimSize(1), group = queryType.getDimSize(1) / keyHeads;
  int64_t headDim = queryType.getDimSize(2);
  int64_t valueDim = cast<RankedTensorType>(root.getResult().getType()).getDimSize(2);
  auto [page, bits] = nn::codeLayoutOf(root);
  bool quantized = static_cast<bool>(root.getTail());
  int64_t maximalTokens = std::max<int64_t>(kMaximalRows / group, 1), maximalRows = maximalTokens * group;
  int64_t lanes = config.lanes;
  // A page of values is read where it lies if its rows are whole vectors, else from a padded copy.
  int64_t paddedDim = llvm::divideCeil(valueDim, lanes) * lanes;
  bool copyValues = paddedDim != valueDim;
  if (page != kPanelWidth) {
    unsupported(root, "its pages do not have " + std::to_string(kPanelWidth) + " slots");
    return;
  }
  Value tokens = size(sizes.of(root.getQuery())[0]);
  if (planning) {
    Value wanted = ceilDiv(mul(tokens, constant(keyHeads)), mul(threads, constant(kTilesPerThread)));
    Value perTile = max(min(wanted, constant(maximalTokens)), constant(1));
    setPlan(kTokensPerTile, perTile);
    setPlan(ITX_PLAN_TILES, mul(ceilDiv(tokens, perTile), constant(keyHeads)));
    return;
  }
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (yielded(i) != root.getResult()) {
      unsupported(root, "an op stands between it and the kernel's result");
      return;
    }
  std::optional<Storage> keys = view(root.getKeys()), values = view(root.getValues());
  std::optional<Storage> keyParameters, valueParameters, tail;
  if (quantized) {
    keyParameters = view(root.getKeyParameters());
    valueParameters = view(root.getValueParameters());
    tail = view(root.getTail());
  }
  if (!keys || !values || (quantized && (!keyParameters || !valueParameters || !tail))) {
    unsupported(root, "keys or values that are computed in the same kernel");
    return;
  }
  if (!quantized)
    keys->elementType = values->elementType = cacheElement(keysType.getElementType());

  Type f32 = b.getF32Type(), i64 = b.getI64Type();
  int64_t blockKeys = kPagesPerBlock * page;
  Value queries = scratch(maximalRows * headDim * 4), scores = scratch(maximalRows * blockKeys * 4);
  Value sums = scratch(maximalRows * paddedDim * 4), valueBlock = copyValues ? scratch(page * paddedDim * 4) : Value();
  Value maxima = scratch(maximalRows * 4), totals = scratch(maximalRows * 4);
  // Scratch for quantized caches: a page of keys that are not quantized yet, queries times the scales of a page, scales
  // and zero points, and for each row the contribution of the zero points to its sums.
  Value panel, scaledQueries, keyScales, keyZeros, valueScales, valueZeros, offsets;
  if (quantized) {
    panel = scratch(headDim * page * 4);
    scaledQueries = scratch(maximalRows * headDim * 4);
    keyScales = scratch(headDim * 4);
    keyZeros = scratch(headDim * 4);
    valueScales = scratch(blockKeys * 4);
    valueZeros = scratch(blockKeys * 4);
    offsets = scratch(maximalRows * 4);
  }
  TokenPlaces places{root.getPositions(), root.getSequences(), tokens};
  Value perTile = planValue(kTokensPerTile);
  Value lowest = floatConstant(-std::numeric_limits<double>::infinity(), f32, lanes);
  Value lowestScalar = floatConstant(-std::numeric_limits<double>::infinity(), f32, 1);
  Value zero = floatConstant(0.0, f32, lanes), zeroScalar = floatConstant(0.0, f32, 1);
  SmallVector<int64_t> iotaValues = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
  Value iota = arith::ConstantOp::create(b, loc, b.getI64VectorAttr(iotaValues));
  auto horizontal = [&](vector::CombiningKind kind, Value vector) -> Value {
    return vector::ReductionOp::create(b, loc, kind, vector, arith::FastMathFlags::reassoc);
  };

  // Rows of a page as f32, zeros behind each. Four bits come in multiples of 32, so that no such page is copied.
  auto copyValuePage = [&](Value from, Value depth) {
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
  };
  auto emitRun = [&](Value head, Value first, Value count, Value sequence) {
    Value rows = mul(count, constant(group));
    auto tokenOf = [&](Value row) { return add(first, div(row, constant(group))); };
    auto headOf = [&](Value row) { return add(mul(head, constant(group)), rem(row, constant(group))); };
    Value scale = floatConstant(root.getScale().convertToDouble(), f32, 1);
    forLoop(constant(0), rows, constant(1), [&](Value row) {
      vectorLoop(constant(headDim), [&](Value d, int64_t width) {
        Value x = evaluate(root.getQuery(), {Index{tokenOf(row)}, Index{headOf(row)}, Index{d, true}}, width);
        storeAt(arith::MulFOp::create(b, loc, x, splat(scale, width)), queries, add(mul(row, constant(headDim)), d),
                f32, width);
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

    Value firstPosition = integerAt(root.getPositions(), {Index{first}});
    // The keys that some token of the run sees: whole pages before the last.
    SmallVector<Value> seen =
        forLoop(constant(0), count, constant(1), {constant(0), constant(std::numeric_limits<int64_t>::max())},
                [&](Value i, ValueRange running) {
                  Value position = integerAt(root.getPositions(), {Index{add(first, i)}});
                  return SmallVector<Value>{max(running[0], add(position, constant(1))), min(running[1], position)};
                });
    Value endKey = seen[0], firstKey = constant(0);
    if (root.getWindow())
      firstKey =
          mul(div(max(sub(seen[1], constant(*root.getWindow() - 1)), constant(0)), constant(page)), constant(page));

    auto prefetchPage = [&](const Storage &cache, Value place) {
      Value from = pageOf(cache, root.getPageTable(), sequence, place, head);
      int64_t bytes = cache.elementType.getIntOrFloatBitWidth() / 8;
      for (AffineExpr extent : ArrayRef(cache.sizes).drop_front(2))
        bytes *= cast<AffineConstantExpr>(extent).getValue();
      forLoop(constant(0), constant(bytes), constant(kLineBytes), [&](Value byte) {
        LLVM::Prefetch::create(b, loc, offsetPointer(from, byte, b.getI8Type()), /*rw=*/0, /*hint=*/2, /*cache=*/1);
      });
    };
    forLoop(firstKey, endKey, constant(blockKeys), [&](Value blockKey) {
      Value keyCount = min(sub(endKey, blockKey), constant(blockKeys));
      Value pages = ceilDiv(keyCount, constant(page)), firstPlace = div(blockKey, constant(page));
      forLoop(constant(0), pages, constant(1), [&](Value p) {
        Value place = add(firstPlace, p);
        // Scores of rows [begin, end) with a page of keys, `from` the queries; on top of what is there for codes.
        auto score = [&](Value begin, Value end, Value from, Value pageKeys, Type type, int64_t codeBits) {
          forLoop(begin, end, constant(config.rows), [&](Value row) {
            TileOperands operands;
            operands.a = offsetPointer(from, mul(row, constant(headDim)), f32);
            operands.aRow = constant(headDim);
            operands.aColumn = constant(1);
            operands.aType = f32;
            operands.b = pageKeys;
            operands.bRow = constant(codeBits ? page * codeBits / 8 : page);
            operands.bType = type;
            operands.codeBits = codeBits;
            operands.depth = constant(headDim);
            operands.out = offsetPointer(scores, add(mul(row, constant(blockKeys)), mul(p, constant(page))), f32);
            operands.outRow = constant(blockKeys);
            operands.accumulate = codeBits != 0;
            emitTileRows(operands, min(sub(end, row), constant(config.rows)), kPanelWidth);
          });
        };
        // Pages lie anywhere: what comes next is asked for now. Without, decoding over 8,000 tokens in 8 heads of 128
        // features took 1.8 times as long with 4-bit codes, 1.3 times with f16.
        prefetchPage(*values, place);
        if (quantized)
          prefetchPage(*valueParameters, place);
        Value nextPlace = min(add(place, constant(1)), div(sub(endKey, constant(1)), constant(page)));
        prefetchPage(*keys, nextPlace);
        if (quantized)
          prefetchPage(*keyParameters, nextPlace);
        if (!quantized) {
          score(constant(0), rows, queries, pageOf(*keys, root.getPageTable(), sequence, place, head),
                keys->elementType, 0);
          return;
        }
        // Tokens of this page see its keys as they are, those of later pages as codes.
        Value base = mul(place, constant(page));
        auto tokenAt = [&](Value position) { return min(max(sub(position, firstPosition), constant(0)), count); };
        Value own = tokenAt(base), later = tokenAt(add(base, constant(page)));
        ifThen(less(own, later), [&] {
          Value firstRow = sub(add(first, base), firstPosition);
          gatherPage(panel, *tail, root.getRows(), places, sequence, head, base, firstRow,
                     sub(add(first, later), firstRow));
          score(mul(own, constant(group)), mul(later, constant(group)), queries, panel, f32, 0);
        });
        ifThen(less(later, count), [&] {
          loadParameters(pageOf(*keyParameters, root.getPageTable(), sequence, place, head), headDim, bits, Value(),
                         keyScales, keyZeros);
          Value begin = mul(later, constant(group));
          forLoop(begin, rows, constant(1), [&](Value row) {
            Value at = mul(row, constant(headDim));
            Value shift = reduce(constant(headDim), /*maximum=*/false, f32, [&](Value d, int64_t width) -> Value {
              Value x = loadAt(queries, add(at, d), f32, width);
              x = arith::MulFOp::create(b, loc, x, loadAt(keyScales, d, f32, width));
              storeAt(x, scaledQueries, add(at, d), f32, width);
              return arith::MulFOp::create(b, loc, x, loadAt(keyZeros, d, f32, width));
            });
            shift = splat(arith::NegFOp::create(b, loc, shift), lanes);
            for (int64_t slot = 0; slot < page; slot += lanes)
              storeAt(shift, scores, add(add(mul(row, constant(blockKeys)), mul(p, constant(page))), constant(slot)),
                      f32, lanes);
          });
          score(begin, rows, scaledQueries, pageOf(*keys, root.getPageTable(), sequence, place, head), b.getI8Type(),
                bits);
        });
      });

      if (quantized)
        forLoop(constant(0), pages, constant(1), [&](Value p) {
          Value at = mul(p, constant(page));
          loadParameters(pageOf(*valueParameters, root.getPageTable(), sequence, add(firstPlace, p), head), page, bits,
                         sub(keyCount, at), offsetPointer(valueScales, at, f32), offsetPointer(valueZeros, at, f32));
        });
      forLoop(constant(0), rows, constant(1), [&](Value row) {
        Value position = integerAt(root.getPositions(), {Index{tokenOf(row)}});
        Value last = splat(sub(position, blockKey), lanes);
        Value begin = mul(row, constant(blockKeys));
        Value width = mul(pages, constant(page));
        // Slots that the token does not see, unwritten ones among them, are dropped whatever they hold.
        Value largest = forLoop(constant(0), width, constant(lanes), {lowest}, [&](Value c, ValueRange running) {
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
        Value before = loadAt(maxima, row, f32, 1);
        // NaN need not come through here: it comes through the exponentials.
        Value maximum = arith::MaximumFOp::create(b, loc, before, horizontal(vector::CombiningKind::MAXNUMF, largest));
        // A row that has seen nothing yet keeps -inf; subtracting 0 instead keeps its exponentials at zero.
        Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, maximum, lowestScalar);
        Value shift = arith::SelectOp::create(b, loc, none, zeroScalar, maximum);
        Value factor = emitExpNonPositive(b, loc, arith::SubFOp::create(b, loc, before, shift));
        SmallVector<Value> blockTotals(quantized ? 2 : 1, zero);
        blockTotals = forLoop(constant(0), width, constant(lanes), blockTotals, [&](Value c, ValueRange running) {
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
      });

      forLoop(constant(0), pages, constant(1), [&](Value p) {
        Value panel = pageOf(*values, root.getPageTable(), sequence, add(firstPlace, p), head);
        Value depth = min(sub(keyCount, mul(p, constant(page))), constant(page));
        if (copyValues) {
          copyValuePage(panel, depth);
          panel = valueBlock;
        }
        forLoop(constant(0), rows, constant(config.rows), [&](Value row) {
          TileOperands operands;
          operands.a = offsetPointer(scores, add(mul(row, constant(blockKeys)), mul(p, constant(page))), f32);
          operands.aRow = constant(blockKeys);
          operands.aColumn = constant(1);
          operands.aType = f32;
          operands.b = panel;
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
      });
    });

    forLoop(constant(0), rows, constant(1), [&](Value row) {
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
    });
  };

  forLoop(tileBegin, tileEnd, constant(1), [&](Value tile) {
    Value head = rem(tile, constant(keyHeads)), first = mul(div(tile, constant(keyHeads)), perTile);
    Value end = min(add(first, perTile), tokens);
    forLoop(first, end, constant(1), [&](Value token) {
      Value sequence = integerAt(root.getSequences(), {Index{token}});
      Value previous = integerAt(root.getSequences(), {Index{max(sub(token, constant(1)), first)}});
      Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, token, first);
      Value isOther = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, sequence, previous);
      Value position = integerAt(root.getPositions(), {Index{token}});
      if (quantized) {
        // What a token sees of a page depends on its place: a run is of places that follow one another.
        Value before = integerAt(root.getPositions(), {Index{max(sub(token, constant(1)), first)}});
        Value skips = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, position, add(before, constant(1)));
        isOther = arith::OrIOp::create(b, loc, isOther, skips);
      }
      ifThen(arith::OrIOp::create(b, loc, isFirst, isOther), [&] {
        // Tokens from here on, as long as they are of the same sequence.
        Value one = constant(1);
        Value count = forLoop(token, end, constant(1), {constant(0), one}, [&](Value other, ValueRange running) {
          Value same = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, sequence,
                                             integerAt(root.getSequences(), {Index{other}}));
          if (quantized) {
            Value expected = add(position, sub(other, token));
            Value follows = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, expected,
                                                  integerAt(root.getPositions(), {Index{other}}));
            same = arith::AndIOp::create(b, loc, same, follows);
          }
          Value open = mul(running[1], arith::ExtUIOp::create(b, loc, i64, same));
          return SmallVector<Value>{add(running[0], open), open};
        })[0];
        emitRun(head, token, count, sequence);
      });
    });
  });
}

} // namespace intarsia::cpu
