//===- QuantizedTileEmitter.cpp - Register tiles of quantized weights and activations ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Records (RecordEmitter.cpp) are multiplied by panels of quantized weights (dialects/Rt/BlockPanels.h). Blocks of 32
// are scaled one by one. Those of 256 are added up as their weights scale them before the activations' scale is
// applied: a multiplication less.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/QuantizedTileEmitter.h"

#include "lib/Target/CPU/QuantizedPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
constexpr int64_t kStep = BlockPanels::stepDepth, kRows = BlockPanels::rows, kWords = BlockPanels::words;
/// Bytes of a panel ahead that a tile of few rows prefetches. 1.1 to 4.6 KB do on Zen 5 (99 to 100 % of the bandwidth
/// that plain reading reaches), none 90 %.
constexpr int64_t kBytesAhead = 2304;
constexpr int64_t kLineBytes = 64;

/// Returns a splat of the 32-bit word at a record's byte.
Value splatWord(OpBuilder &b, Location loc, Value pointer, Type type, int64_t lanes) {
  Value word = LLVM::LoadOp::create(b, loc, type, pointer, 4);
  return vector::BroadcastOp::create(b, loc, VectorType::get({lanes}, type), word);
}
} // namespace

/// Adds what blocks of a step give to a row's sums: `products` in integers, scaled by the weight, `sums` and `minima`
/// where it has them, and by the activations' `scale`, if each step has one.
Value QuantizedTileEmitter::addScaled(Value total, Value products, Value weightScale, Value minimum,
                                      Value activationSum, Value scale) {
  Value sum = make<arith::SIToFPOp>(total.getType(), products);
  if (scale) {
    if (weightScale)
      sum = make<arith::MulFOp>(sum, weightScale);
    if (minimum)
      sum = make<vector::FMAOp>(minimum, activationSum, sum);
    return make<vector::FMAOp>(sum, scale, total);
  }
  total = weightScale ? make<vector::FMAOp>(sum, weightScale, total).getResult()
                      : make<arith::AddFOp>(sum, total).getResult();
  return minimum ? make<vector::FMAOp>(minimum, activationSum, total).getResult() : total;
}

/// Returns a byte of the record of the tile's row `r`, for the step whose first row's record is `record`.
Value QuantizedTileEmitter::fieldOf(const BlockPanels &panels, Value record, int64_t r, int64_t byte) {
  return memory.at(record, constant(r * rowBytes(panels) + byte), b.getI8Type());
}

/// Asks for a step's share of its unit, scales too, well ahead; for one line of the next page where the step is read in
/// order.
void QuantizedTileEmitter::prefetchStep(const DecodeTile &tile, Value unitPointer, Value stepOfUnit) {
  int64_t share = tile.panels.unitBytes / (tile.panels.unitDepth / kStep);
  Value begin = memory.at(unitPointer, mul(stepOfUnit, constant(share)), b.getI8Type());
  if (registerTiles.readsInOrder(tile.rows))
    return registerTiles.prefetchNextPage(begin);
  for (int64_t line = 0; line < share; line += kLineBytes)
    make<LLVM::Prefetch>(memory.at(begin, constant(kBytesAhead + line), b.getI8Type()), /*rw=*/0,
                         /*hint=*/3, /*cache=*/1);
}

/// Loads a byte of each line of a unit's scales where units are read in order: steps use the elements behind them
/// first, and a part of them each.
void QuantizedTileEmitter::touchScales(const DecodeTile &tile, Value unitPointer) {
  if (!registerTiles.readsInOrder(tile.rows))
    return;
  for (int64_t line = 0; line < tile.panels.unitScaleBytes; line += kLineBytes)
    make<LLVM::LoadOp>(b.getI8Type(), memory.at(unitPointer, constant(line), b.getI8Type()),
                       /*alignment=*/1, /*isVolatile=*/true);
}

/// Adds the products of a step by a vector of columns to integers of each row: `low` and, if they are summed apart,
/// `high` for the second half of the step.
void QuantizedTileEmitter::addDecodedProducts(const DecodeTile &tile, Value packedVector, Value record, bool apart,
                                              SmallVector<Value> &low, SmallVector<Value> &high) {
  const BlockPanels &panels = tile.panels;
  int64_t lanes = config.lanes, blocks = blocksOfStep(panels);
  Type i32 = b.getI32Type();
  Value zero = make<arith::ConstantOp>(b.getZeroAttr(VectorType::get({lanes}, i32)));
  for (int64_t r = 0; r < tile.rows; ++r) {
    low.push_back(panels.hasMinima ? zero : splatWord(b, loc, fieldOf(panels, record, r, 0), i32, lanes));
    high.push_back(panels.hasMinima || blocks == 1 ? zero
                                                   : splatWord(b, loc, fieldOf(panels, record, r, 4), i32, lanes));
  }
  auto addWord = [&](int64_t word, Value elements) {
    SmallVector<Value> &into = apart && word >= kWords / 2 ? high : low;
    for (int64_t r = 0; r < tile.rows; ++r)
      into[r] = quantizedWeights.addByteProducts(
          into[r], elements, quantizedWeights.splatWordOf(fieldOf(panels, record, r, 4 * blocks + 4), word),
          panels.elementBits == 8);
  };
  quantizedWeights.forWordsOfStep(panels, packedVector, addWord, registerTiles.readsInOrder(tile.rows));
}

/// Adds a step of a unit to the sums `next` of a tile.
void QuantizedTileEmitter::addDecodedStep(const DecodeTile &tile, Value unitPointer, Value stepOfUnit, Value record,
                                          SmallVector<Value> &next) {
  const BlockPanels &panels = tile.panels;
  int64_t lanes = config.lanes, vectors = kRows / lanes, blocks = blocksOfStep(panels);
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  prefetchStep(tile, unitPointer, stepOfUnit);
  Value packed =
      memory.at(unitPointer, add(constant(panels.unitScaleBytes), mul(stepOfUnit, constant(panels.stepBytes()))), i8);
  for (int64_t v = 0; v < vectors; ++v) {
    Value packedVector =
        memory.at(packed, constant(v * lanes / 16 * (panels.stepBytes() / 2) + v * lanes % 16 * 4), i8);
    // Two sums hide the latency of a sum where few rows give few of them. The two halves of words are 16 k's each.
    bool apart = blocks == 2 || tile.rows < 4;
    SmallVector<Value> low, high;
    addDecodedProducts(tile, packedVector, record, apart, low, high);
    for (int64_t block = 0; block < blocks; ++block) {
      Value scales, minima;
      if (panels.block)
        std::tie(scales, minima) = weights.scalesOfBlock(
            panels, unitPointer, add(quantizedWeights.firstBlockOfStep(panels, stepOfUnit), constant(block)),
            constant(v * lanes), lanes);
      for (int64_t r = 0; r < tile.rows; ++r) {
        Value sum = block == 0 ? low[r] : high[r];
        if (apart && blocks == 1)
          sum = make<arith::AddIOp>(low[r], high[r]);
        Value activationSum = minima ? splatWord(b, loc, fieldOf(panels, record, r, 4 * block), f32, lanes) : Value();
        Value scale = tile.group == 1 ? splatWord(b, loc, fieldOf(panels, record, r, 4 * blocks), f32, lanes) : Value();
        Value &total = next[r * vectors + v];
        total = addScaled(total, sum, scales, minima, activationSum, scale);
      }
    }
  }
}

/// Returns the sums of a tile over units [begin, end) of its panel.
SmallVector<Value> QuantizedTileEmitter::addDecodedUnits(const DecodeTile &tile, ArrayRef<Value> zeros, Value begin,
                                                         Value end) {
  const BlockPanels &panels = tile.panels;
  int64_t stepsOfUnit = panels.unitDepth / kStep;
  Type i8 = b.getI8Type();
  return forLoop(begin, end, constant(1), zeros, [&](Value unit, ValueRange running) -> SmallVector<Value> {
    SmallVector<Value> next(running);
    Value unitPointer =
        memory.at(tile.panel, add(constant(panels.headBytes), mul(unit, constant(panels.unitBytes))), i8);
    touchScales(tile, unitPointer);
    auto record = [&](Value step) {
      return memory.at(tile.records, mul(add(mul(unit, constant(stepsOfUnit)), step), constant(recordBytes(panels))),
                       i8);
    };
    if (stepsOfUnit < kGroup) {
      for (int64_t step = 0; step < stepsOfUnit; ++step)
        addDecodedStep(tile, unitPointer, constant(step), record(constant(step)), next);
      return next;
    }
    return forLoop(constant(0), constant(stepsOfUnit), constant(1), next, [&](Value step, ValueRange running) {
      SmallVector<Value> sums(running);
      addDecodedStep(tile, unitPointer, step, record(step), sums);
      return sums;
    });
  });
}

/// Multiplies rows by a panel that is unpacked in registers: sums [rows][32] f32.
void QuantizedTileEmitter::emitDecodeTile(const DecodeTile &tile) {
  const BlockPanels &panels = tile.panels;
  int64_t lanes = config.lanes, rows = tile.rows, vectors = kRows / lanes, blocks = blocksOfStep(panels);
  int64_t stepsOfUnit = panels.unitDepth / kStep;
  Type f32 = b.getF32Type();
  SmallVector<Value> zeros(rows * vectors, floatConstant(0.0, f32, lanes));
  auto at = [&](int64_t r, int64_t v) { return constant(r * kRows + v * lanes); };
  if (tile.group == 1) {
    SmallVector<Value> result = addDecodedUnits(tile, zeros, constant(0), constant(panels.units));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        memory.store(result[r * vectors + v], tile.sums, at(r, v), f32, lanes);
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      memory.store(zeros.front(), tile.sums, at(r, v), f32, lanes);
  Value unitsOfGroup = constant(tile.group / stepsOfUnit), units = constant(panels.units);
  forLoop(constant(0), units, unitsOfGroup, [&](Value begin) {
    SmallVector<Value> result = addDecodedUnits(tile, zeros, begin, min(add(begin, unitsOfGroup), units));
    Value record = memory.at(tile.records, mul(begin, constant(stepsOfUnit * recordBytes(panels))), b.getI8Type());
    for (int64_t r = 0; r < rows; ++r) {
      Value scale = splatWord(b, loc, fieldOf(panels, record, r, 4 * blocks), f32, lanes);
      for (int64_t v = 0; v < vectors; ++v) {
        Value sum = memory.load(tile.sums, at(r, v), f32, lanes);
        memory.store(make<vector::FMAOp>(result[r * vectors + v], scale, sum), tile.sums, at(r, v), f32, lanes);
      }
    }
  });
}

/// Multiplies `count` rows by a panel, in tiles of as many rows as fit.
void QuantizedTileEmitter::emitDecodeRows(const BlockPanels &panels, int64_t group, Value count, Value panel,
                                          Value records, Value sums) {
  forLoop(constant(0), count, constant(config.decodeRows), [&](Value m) {
    Value rest = sub(count, m);
    std::function<void(int64_t)> emitRows = [&](int64_t most) {
      auto emitTile = [&] {
        emitDecodeTile({panels, group, most, panel,
                        memory.at(records, mul(m, constant(rowBytes(panels))), b.getI8Type()),
                        memory.at(sums, mul(m, constant(kRows)), b.getF32Type())});
      };
      if (most == 1)
        return emitTile();
      ifThen(less(constant(most / 2), rest), emitTile, [&] { emitRows(most / 2); });
    };
    emitRows(config.decodeRows);
  });
}

/// Unpacks steps begin … end - 1 of a panel: elements [step][8][32 rows][4]; scales f32 [block][32], each followed by
/// its minima where the format has them.
void QuantizedTileEmitter::unpackPanel(const BlockPanels &panels, Value panel, Value begin, Value end, Value unpacked,
                                       Value scales) {
  int64_t lanes = config.lanes, blocks = blocksOfStep(panels), stepsOfUnit = panels.unitDepth / kStep;
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  forLoop(begin, end, constant(1), [&](Value step) {
    Value index = sub(step, begin), unit = div(step, constant(stepsOfUnit)), ofUnit = rem(step, constant(stepsOfUnit));
    Value unitPointer = memory.at(panel, add(constant(panels.headBytes), mul(unit, constant(panels.unitBytes))), i8);
    Value from =
        memory.at(unitPointer, add(constant(panels.unitScaleBytes), mul(ofUnit, constant(panels.stepBytes()))), i8);
    Value to = memory.at(unpacked, mul(index, constant(kStep * kRows)), i8);
    for (int64_t v = 0; v < kRows / lanes; ++v) {
      int64_t byte = v * lanes / 16 * (panels.stepBytes() / 2) + v * lanes % 16 * 4;
      quantizedWeights.forWordsOfStep(panels, memory.at(from, constant(byte), i8), [&](int64_t word, Value elements) {
        memory.store(elements, to, constant(word * 4 * kRows + v * lanes * 4), i8, 4 * lanes);
      });
    }
    if (!panels.block)
      return;
    Value firstBlock = quantizedWeights.firstBlockOfStep(panels, ofUnit);
    for (int64_t block = 0; block < blocks; ++block) {
      Value target = mul(add(mul(index, constant(blocks)), constant(block)), constant(scaleRows(panels)));
      for (int64_t v = 0; v < kRows / lanes; ++v) {
        auto [scale, minimum] =
            weights.scalesOfBlock(panels, unitPointer, add(firstBlock, constant(block)), constant(v * lanes), lanes);
        memory.store(scale, scales, add(target, constant(v * lanes)), f32, lanes);
        if (minimum)
          memory.store(minimum, scales, add(target, constant(kRows + v * lanes)), f32, lanes);
      }
    }
  });
}

/// Adds the byte products of a block of a step to the sums `next` of a tile, `first` its first column.
void QuantizedTileEmitter::addUnpackedBlock(const QuantizedTile &tile, int64_t first, Value step, int64_t block,
                                            Value record, Value unpackedStep, SmallVector<Value> &next) {
  const BlockPanels &panels = tile.panels;
  int64_t lanes = config.lanes, rows = config.quantizedRows, vectors = config.quantizedVectors,
          blocks = blocksOfStep(panels);
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  Value zero = make<arith::ConstantOp>(b.getZeroAttr(VectorType::get({lanes}, i32)));
  SmallVector<Value> products;
  for (int64_t r = 0; r < rows; ++r)
    products.append(vectors,
                    panels.hasMinima ? zero : splatWord(b, loc, fieldOf(panels, record, r, 4 * block), i32, lanes));
  for (int64_t word = kWords / blocks * block; word < kWords / blocks * (block + 1); ++word) {
    SmallVector<Value> right;
    for (int64_t v = 0; v < vectors; ++v)
      right.push_back(memory.load(unpackedStep, constant(word * 4 * kRows + v * lanes * 4), i8, 4 * lanes));
    for (int64_t r = 0; r < rows; ++r) {
      Value left = quantizedWeights.splatWordOf(fieldOf(panels, record, r, 4 * blocks + 4), word);
      for (int64_t v = 0; v < vectors; ++v)
        products[r * vectors + v] =
            quantizedWeights.addByteProducts(products[r * vectors + v], right[v], left, panels.elementBits == 8);
    }
  }
  SmallVector<Value> blockScales(vectors), blockMinima(vectors);
  Value from = mul(add(mul(step, constant(blocks)), constant(block)), constant(scaleRows(panels)));
  for (int64_t v = 0; panels.block && v < vectors; ++v) {
    blockScales[v] = memory.load(tile.scales, add(from, constant(first + v * lanes)), f32, lanes);
    if (panels.hasMinima)
      blockMinima[v] = memory.load(tile.scales, add(from, constant(kRows + first + v * lanes)), f32, lanes);
  }
  for (int64_t r = 0; r < rows; ++r) {
    Value scale = tile.group == 1 ? splatWord(b, loc, fieldOf(panels, record, r, 4 * blocks), f32, lanes) : Value();
    Value activationSum =
        panels.hasMinima ? splatWord(b, loc, fieldOf(panels, record, r, 4 * block), f32, lanes) : Value();
    for (int64_t v = 0; v < vectors; ++v) {
      Value &total = next[r * vectors + v];
      total = addScaled(total, products[r * vectors + v], blockScales[v], blockMinima[v], activationSum, scale);
    }
  }
}

/// Returns the sums `initial` plus the products of steps [begin, end) by the columns of a tile from `first` on.
SmallVector<Value> QuantizedTileEmitter::addUnpackedSteps(const QuantizedTile &tile, int64_t first, Value begin,
                                                          Value end, ArrayRef<Value> initial) {
  const BlockPanels &panels = tile.panels;
  Type i8 = b.getI8Type();
  return forLoop(begin, end, constant(1), initial, [&](Value step, ValueRange running) {
    SmallVector<Value> next(running);
    if (first == 0)
      make<LLVM::Prefetch>(memory.at(tile.ahead, mul(step, tile.bytesAhead), i8), /*rw=*/0,
                           /*hint=*/2,
                           /*cache=*/1);
    Value record = memory.at(tile.records, mul(step, constant(recordBytes(panels))), i8);
    Value unpackedStep = memory.at(tile.unpacked, add(mul(step, constant(kStep * kRows)), constant(first * 4)), i8);
    for (int64_t block = 0; block < blocksOfStep(panels); ++block)
      addUnpackedBlock(tile, first, step, block, record, unpackedStep, next);
    return next;
  });
}

/// Loads the sums of a tile from column `first` on; zeros where they begin.
SmallVector<Value> QuantizedTileEmitter::loadSums(const QuantizedTile &tile, int64_t first, Value zero, Value begins) {
  SmallVector<Value> loaded;
  for (int64_t r = 0; r < config.quantizedRows; ++r)
    for (int64_t v = 0; v < config.quantizedVectors; ++v) {
      Value sum = memory.load(tile.sums, constant(r * kRows + first + v * config.lanes), b.getF32Type(), config.lanes);
      loaded.push_back(select(begins, zero, sum));
    }
  return loaded;
}

void QuantizedTileEmitter::storeSums(const QuantizedTile &tile, int64_t first, ArrayRef<Value> totals) {
  for (int64_t r = 0; r < config.quantizedRows; ++r)
    for (int64_t v = 0; v < config.quantizedVectors; ++v)
      memory.store(totals[r * config.quantizedVectors + v], tile.sums, constant(r * kRows + first + v * config.lanes),
                   b.getF32Type(), config.lanes);
}

/// Multiplies config.quantizedRows rows by an unpacked panel and adds them to sums [rows][32] f32.
void QuantizedTileEmitter::emitQuantizedTile(const QuantizedTile &tile) {
  const BlockPanels &panels = tile.panels;
  int64_t lanes = config.lanes, rows = config.quantizedRows, vectors = config.quantizedVectors,
          blocks = blocksOfStep(panels);
  Type f32 = b.getF32Type();
  for (int64_t first = 0; first < kRows; first += vectors * lanes) {
    Value zero = floatConstant(0.0, f32, lanes);
    if (tile.group == 1) {
      SmallVector<Value> initial = loadSums(tile, first, zero, tile.isFirst);
      storeSums(tile, first, addUnpackedSteps(tile, first, constant(0), tile.steps, initial));
      continue;
    }
    forLoop(constant(0), tile.steps, constant(tile.group), [&](Value begin) {
      SmallVector<Value> zeros(rows * vectors, zero);
      SmallVector<Value> sumsOfGroup =
          addUnpackedSteps(tile, first, begin, min(add(begin, constant(tile.group)), tile.steps), zeros);
      Value isBegin = equal(begin, constant(0));
      SmallVector<Value> totals = loadSums(tile, first, zero, make<arith::AndIOp>(tile.isFirst, isBegin));
      for (int64_t r = 0; r < rows; ++r) {
        Value record = memory.at(tile.records, mul(begin, constant(recordBytes(panels))), b.getI8Type());
        Value scale = splatWord(b, loc, fieldOf(panels, record, r, 4 * blocks), f32, lanes);
        for (int64_t v = 0; v < vectors; ++v)
          totals[r * vectors + v] = make<vector::FMAOp>(sumsOfGroup[r * vectors + v], scale, totals[r * vectors + v]);
      }
      storeSums(tile, first, totals);
    });
  }
}

} // namespace intarsia::cpu
