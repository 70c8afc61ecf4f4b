//===- TileEmitter.cpp - Register tiles, and panels that are packed at run time ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/TileEmitter.h"
#include "lib/Target/CPU/QuantizedCache.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// Sums in flight that hide the latency of a fused multiply-add: two units of four cycles.
constexpr int64_t kSumsInFlight = 8;
/// Rows of a tile that waits for its weights.
constexpr int64_t kFewRows = 2;
/// Rows of a panel ahead that a tile of few rows prefetches: 4 KB of f32.
constexpr int64_t kRowsAhead = 32;
constexpr int64_t kPageBytes = 4096;
} // namespace

//===-- Register tile -----------------------------------------------------------------------------------------===//

bool TileEmitter::usesBf16Dot(const TileOperands &t) {
  return config.bf16Dot && t.aType.isBF16() && t.bType.isBF16() && matchPattern(t.aColumn, m_One());
}

void TileEmitter::prefetchNextPage(Value pointer) {
  make<LLVM::Prefetch>(memory.at(pointer, constant(kPageBytes), b.getI8Type()), /*rw=*/0,
                       /*hint=*/2,
                       /*cache=*/1);
}

Value TileEmitter::loadQuantized(Value pointer, Value row, int64_t column, int64_t bits) {
  int64_t lanes = config.lanes, byte = column;
  if (bits == 4)
    byte = column / kBlockValues * kBlockBytes + column % kBlockBytes;
  Type i32 = vectorOf(b.getI32Type(), lanes);
  Value values = make<arith::ExtUIOp>(i32, memory.load(pointer, add(row, constant(byte)), b.getI8Type(), lanes));
  auto constantOf = [&](int64_t value) -> Value {
    return make<arith::ConstantOp>(DenseElementsAttr::get(cast<ShapedType>(i32), APInt(32, value)));
  };
  if (bits == 4 && column % kBlockValues < kBlockBytes)
    values = make<arith::AndIOp>(values, constantOf(15));
  else if (bits == 4)
    values = make<arith::ShRUIOp>(values, constantOf(4));
  return make<arith::SIToFPOp>(vectorOf(b.getF32Type(), lanes), values);
}

/// Adds the products of two k, or of one (`pair` is false): the left pair is one 32-bit broadcast, the two right rows
/// are interleaved. Both rows' elements of one column are then neighbours, as the instruction wants them, and the
/// packed layout is the one of all variants.
SmallVector<Value> TileEmitter::addDots(const TileOperands &t, Value start, int64_t rows, int64_t vectors, Value k,
                                        bool pair, bool prefetches, ValueRange running) {
  int64_t lanes = config.lanes;
  if (prefetches && pair)
    make<LLVM::Prefetch>(memory.at(t.prefetch, mul(k, t.prefetchStep), b.getI8Type()), /*rw=*/0,
                         /*hint=*/2, /*cache=*/1);
  Type bf16 = b.getBF16Type(), i16 = b.getI16Type(), i32 = b.getI32Type();
  auto narrow = VectorType::get({lanes}, bf16), wide = VectorType::get({2 * lanes}, bf16);
  auto loadRaw = [&](Value pointer, Value offset, Type type) -> Value {
    return make<LLVM::LoadOp>(type, memory.at(pointer, offset, bf16), /*alignment=*/2);
  };
  SmallVector<int64_t> interleave;
  for (int64_t i = 0; i < lanes; ++i)
    llvm::append_values(interleave, i, lanes + i);
  SmallVector<Value> right, next(running);
  for (int64_t v = 0; v < vectors; ++v) {
    Value upper = loadRaw(start, add(mul(k, t.bRow), constant(v * lanes)), narrow);
    Value lower = pair ? loadRaw(start, add(mul(add(k, constant(1)), t.bRow), constant(v * lanes)), narrow)
                       : make<arith::ConstantOp>(b.getZeroAttr(narrow)).getResult();
    right.push_back(make<vector::ShuffleOp>(upper, lower, interleave));
  }
  for (int64_t r = 0; r < rows; ++r) {
    Value left = loadRaw(t.a, add(k, mul(constant(r), t.aRow)), pair ? i32 : i16);
    if (!pair)
      left = make<arith::ExtUIOp>(i32, left);
    left = make<vector::BitCastOp>(wide, splat(left, lanes));
    for (int64_t v = 0; v < vectors; ++v) {
      int64_t sum = r * vectors + v;
      next[sum] =
          make<LLVM::CallIntrinsicOp>(running[sum].getType(), b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
                                      ValueRange{running[sum], left, right[v]})
              .getResults();
    }
  }
  return next;
}

/// Adds the products along the depth to sums of `vectors` vectors of columns from `first` on.
SmallVector<Value> TileEmitter::addProducts(const TileOperands &t, int64_t rows, int64_t first, int64_t vectors,
                                            ValueRange initial) {
  int64_t lanes = config.lanes, sums = rows * vectors;
  bool dot = usesBf16Dot(t), fewRows = !dot && rows <= kFewRows;
  int64_t steps = dot ? 2 : std::max<int64_t>(kSumsInFlight / sums, 1); // of an iteration
  Value start = memory.at(t.b, constant(first), t.bType);
  bool prefetches = t.prefetch && rows == config.rows && first == 0;
  auto addStep = [&](Value k, bool isFirst, SmallVector<Value> &running) {
    if (prefetches)
      make<LLVM::Prefetch>(memory.at(t.prefetch, mul(k, t.prefetchStep), b.getI8Type()),
                           /*rw=*/0,
                           /*hint=*/2, /*cache=*/1);
    // With few rows a tile waits for its weights alone: they are asked for well ahead, across pages too.
    if (t.prefetch && fewRows && first == 0 && readsInOrder(rows)) {
      if (isFirst)
        prefetchNextPage(memory.at(t.b, mul(k, t.bRow), t.bType));
    } else if (t.prefetch && fewRows && first == 0) {
      for (int64_t line = 0; line < kPanelWidth; line += 64 * 8 / t.bType.getIntOrFloatBitWidth())
        make<LLVM::Prefetch>(memory.at(t.b, add(mul(add(k, constant(kRowsAhead)), t.bRow), constant(line)), t.bType),
                             /*rw=*/0, /*hint=*/3, /*cache=*/1);
    }
    SmallVector<Value> right;
    for (int64_t v = 0; v < vectors; ++v)
      right.push_back(t.quantizedBits ? loadQuantized(t.b, mul(k, t.bRow), first + v * lanes, t.quantizedBits)
                                      : memory.load(start, add(mul(k, t.bRow), constant(v * lanes)), t.bType, lanes));
    for (int64_t r = 0; r < rows; ++r) {
      Value left = memory.load(t.a, add(mul(k, t.aColumn), mul(constant(r), t.aRow)), t.aType, 1);
      left = splat(left, lanes);
      for (int64_t v = 0; v < vectors; ++v) {
        int64_t sum = r * vectors + v;
        running[sum] = make<vector::FMAOp>(left, right[v], running[sum]);
      }
    }
  };
  Value whole = mul(div(t.depth, constant(steps)), constant(steps));
  SmallVector<Value> result;
  if (dot) {
    result = forLoop(constant(0), whole, constant(steps), initial, [&](Value k, ValueRange running) {
      return addDots(t, start, rows, vectors, k, true, prefetches, running);
    });
    if (whole != t.depth)
      result = forLoop(whole, t.depth, constant(1), result, [&](Value k, ValueRange running) {
        return addDots(t, start, rows, vectors, k, false, prefetches, running);
      });
    return result;
  }
  result = forLoop(constant(0), whole, constant(steps), initial, [&](Value k, ValueRange running) {
    SmallVector<Value> next(running);
    for (int64_t step = 0; step < steps; ++step)
      addStep(add(k, constant(step)), step == 0, next);
    return next;
  });
  if (steps > 1 && whole != t.depth)
    result = forLoop(whole, t.depth, constant(1), result, [&](Value k, ValueRange running) {
      SmallVector<Value> next(running);
      addStep(k, true, next);
      return next;
    });
  return result;
}

SmallVector<Value> TileEmitter::addSegments(const TileOperands &t, ArrayRef<TileSegments> segments, int64_t rows,
                                            int64_t first, int64_t vectors, ValueRange initial) {
  if (segments.empty())
    return addProducts(t, rows, first, vectors, initial);
  const TileSegments &outer = segments.front();
  return forLoop(constant(0), outer.count, constant(1), initial, [&](Value turn, ValueRange running) {
    TileOperands inner = t;
    inner.a = memory.at(t.a, mul(turn, outer.aStep), t.aType);
    inner.b = memory.at(t.b, mul(turn, outer.bStep), t.bType);
    return addSegments(inner, segments.drop_front(), rows, first, vectors, running);
  });
}

void TileEmitter::emitTile(const TileOperands &t, int64_t rows, int64_t columns) {
  (void)emitTile(t, rows, columns, [&](int64_t row, int64_t column, Value sums) {
    memory.store(sums, t.out, add(mul(constant(row), t.outRow), constant(column)), b.getF32Type(), config.lanes);
    return success();
  });
}

LogicalResult TileEmitter::emitTile(const TileOperands &t, int64_t rows, int64_t columns, TileFinish finish) {
  int64_t lanes = config.lanes;
  // Every sum is taken in the order of k, so that a row's does not depend on how many rows there are: few rows have
  // more columns in flight instead.
  int64_t vectorsAtOnce = std::max(config.columnVectors, kSumsInFlight / rows);
  for (int64_t first = 0; first < columns; first += vectorsAtOnce * lanes) {
    int64_t vectors = std::min(vectorsAtOnce, (columns - first) / lanes);
    Type f32 = b.getF32Type();
    SmallVector<Value> initial;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v) {
        if (t.accumulate)
          initial.push_back(
              memory.load(t.out, add(mul(constant(r), t.outRow), constant(first + v * lanes)), f32, lanes));
        else
          initial.push_back(floatConstant(0.0, f32, lanes));
      }
    SmallVector<Value> result = addSegments(t, t.segments, rows, first, vectors, initial);
    for (int64_t sum = 0; sum < rows * vectors; ++sum)
      if (failed(finish(sum / vectors, first + sum % vectors * lanes, result[sum])))
        return failure();
  }
  return success();
}

LogicalResult TileEmitter::emitTileRows(const TileOperands &operands, Value rows, int64_t columns,
                                        ArrayRef<int64_t> finished, TileFinish finish,
                                        function_ref<LogicalResult()> fromOut) {
  std::function<void(int64_t)> choose = [&](int64_t count) {
    if (count == 1)
      return emitTile(operands, 1, columns);
    if (llvm::is_contained(finished, count))
      return choose(count - 1);
    ifThen(equal(rows, constant(count)), [&] { emitTile(operands, count, columns); }, [&] { choose(count - 1); });
  };
  std::function<LogicalResult(ArrayRef<int64_t>)> chooseFinished = [&](ArrayRef<int64_t> counts) -> LogicalResult {
    if (counts.empty()) {
      choose(config.rows);
      return fromOut();
    }
    return ifThen(
        equal(rows, constant(counts.front())), [&] { return emitTile(operands, counts.front(), columns, finish); },
        [&] { return chooseFinished(counts.drop_front()); });
  };
  return chooseFinished(finished);
}

void TileEmitter::emitTileRows(const TileOperands &operands, Value rows, int64_t columns) {
  (void)emitTileRows(operands, rows, columns, {}, {}, [] { return success(); });
}

//===-- Packing at run time -----------------------------------------------------------------------------------===//

SmallVector<Value> TileEmitter::transpose(ArrayRef<Value> rows) {
  int64_t n = rows.size();
  SmallVector<Value> result(rows);
  // Swaps off-diagonal blocks of half the size, then of a quarter, …: log2(n) rounds of n two-operand shuffles.
  for (int64_t s = n / 2; s >= 1; s /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t j = 0; j < n; ++j) {
      low.push_back((j & s) ? n + j - s : j);
      high.push_back((j & s) ? n + j : j + s);
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i & s)
        continue;
      Value x = result[i], y = result[i + s];
      result[i] = make<vector::ShuffleOp>(x, y, low);
      result[i + s] = make<vector::ShuffleOp>(x, y, high);
    }
  }
  return result;
}

void TileEmitter::packTransposed(Value panel, Value source, Value stride, Type type, Value depth, Value columns,
                                 Value scale) {
  int64_t lanes = config.lanes;
  Type f32 = b.getF32Type();
  Value width = constant(kPanelWidth);
  Value wholeDepth = mul(div(depth, constant(lanes)), constant(lanes));
  auto scaled = [&](Value value, int64_t w) -> Value {
    return scale ? make<arith::MulFOp>(value, splat(scale, w)).getResult() : value;
  };
  // Beyond the last column the one before it is read, so as to stay inside, and zero is stored.
  auto packColumns = [&](Value c, bool isWhole) {
    auto load = [&](Value column, Value k, int64_t w) {
      Value inside = isWhole ? column : min(column, sub(columns, constant(1)));
      Value value = scaled(memory.load(source, add(mul(inside, stride), k), type, w), w);
      return isWhole ? value : select(less(column, columns), value, floatConstant(0.0, f32, w));
    };
    forLoop(constant(0), wholeDepth, constant(lanes), [&](Value k) {
      SmallVector<Value> rows;
      for (int64_t i = 0; i < lanes; ++i)
        rows.push_back(load(add(c, constant(i)), k, lanes));
      rows = transpose(rows);
      for (int64_t i = 0; i < lanes; ++i)
        memory.store(rows[i], panel, add(mul(add(k, constant(i)), width), c), f32, lanes);
    });
    if (wholeDepth != depth)
      forLoop(wholeDepth, depth, constant(1), [&](Value k) {
        forLoop(constant(0), constant(lanes), constant(1), [&](Value i) {
          Value column = add(c, i);
          memory.store(load(column, k, 1), panel, add(mul(k, width), column), f32, 1);
        });
      });
  };
  forLoop(constant(0), width, constant(lanes), [&](Value c) {
    ifThen(
        less(add(c, constant(lanes - 1)), columns), [&] { packColumns(c, /*isWhole=*/true); },
        [&] { packColumns(c, /*isWhole=*/false); });
  });
}

void TileEmitter::packRows(Value panel, Value source, Value stride, Type type, Value depth, Value columns,
                           int64_t panelWidth) {
  int64_t lanes = config.lanes;
  Type f32 = b.getF32Type();
  forLoop(constant(0), depth, constant(1), [&](Value k) {
    Value from = mul(k, stride), to = mul(k, constant(panelWidth));
    Value whole = mul(div(columns, constant(lanes)), constant(lanes));
    forLoop(constant(0), whole, constant(lanes), [&](Value c) {
      memory.store(memory.load(source, add(from, c), type, lanes), panel, add(to, c), f32, lanes);
    });
    forLoop(whole, columns, constant(1),
            [&](Value c) { memory.store(memory.load(source, add(from, c), type, 1), panel, add(to, c), f32, 1); });
    forLoop(columns, constant(panelWidth), constant(1),
            [&](Value c) { memory.store(floatConstant(0.0, f32, 1), panel, add(to, c), f32, 1); });
  });
}

} // namespace intarsia::cpu
