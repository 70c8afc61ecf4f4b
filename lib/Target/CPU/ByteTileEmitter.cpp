//===- ByteTileEmitter.cpp - Register tiles of bytes that are added up before they are scaled ------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// sdot of AArch64 has signed factors: weights are made signed as they are loaded, and no offset is left. usdot takes
// them as they are.
//
// On x86-64 without vpdpbusd both factors are widened to 16 bits, the weight as it is loaded, and multiplied by
// pmaddwd: its sums are exact, and on Zen 3 it does 81 products a nanosecond. pmaddubsw, which needs the sign of the
// weight moved to the input, does 75, and f32 51.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/ByteTileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

Value ByteTileEmitter::fieldOf(Value pointer, int64_t offset, Type type) {
  return make<LLVM::LoadOp>(type, memory.at(pointer, constant(offset), b.getI8Type()), 4);
}

SmallVector<Value> ByteTileEmitter::begin(const ByteRowLayout &layout, ArrayRef<Value> starts) {
  if (layout.widens()) {
    Value zeros = make<arith::ConstantOp>(b.getZeroAttr(vectorOf(b.getI32Type(), config.lanes)));
    return SmallVector<Value>(2 * starts.size(), zeros);
  }
  SmallVector<Value> sums;
  for (Value start : starts)
    sums.append(columnVectors(), splat(start, config.lanes));
  return sums;
}

SmallVector<Value> ByteTileEmitter::addSteps(const ByteTile &tile, Value begin, Value end, int64_t first,
                                             ValueRange sums) {
  const ByteRowLayout &layout = tile.layout;
  Type i8 = b.getI8Type();
  return forLoop(begin, end, constant(1), sums, [&](Value step, ValueRange running) {
    SmallVector<Value> totals(running);
    Value ofStep = memory.at(tile.elements, mul(step, constant(layout.panels.stepBytes())), i8);
    Value offset = add(constant(layout.groups() * ByteRowLayout::groupHead),
                       mul(step, constant(BlockPanels::stepDepth * layout.valueBytes)));
    Value values = memory.at(tile.row, offset, i8);
    if (registerTiles.readsInOrder(tile.count) && !layout.widens()) {
      addStepInOrder(tile, ofStep, values, first, totals);
      return totals;
    }
    if (first == 0 && tile.next)
      make<LLVM::Prefetch>(memory.at(tile.next, mul(step, tile.bytesAhead), i8), /*rw=*/0, /*hint=*/2, /*cache=*/1);
    for (int64_t word = 0; word < BlockPanels::words; ++word)
      layout.widens() ? addWords(tile, ofStep, values, first, word, totals)
                      : addBytes(tile, ofStep, values, first, word, totals);
    return totals;
  });
}

SmallVector<Value> ByteTileEmitter::addWordsBetween(const ByteTile &tile, Value begin, Value end, int64_t first,
                                                    ValueRange sums) {
  const ByteRowLayout &layout = tile.layout;
  constexpr int64_t wordsOfStep = BlockPanels::words, wordBytes = 4, lineBytes = 64;
  Type i8 = b.getI8Type();
  return forLoop(begin, end, constant(1), sums, [&](Value word, ValueRange running) {
    SmallVector<Value> totals(running);
    Value ofPanel = add(tile.firstWord, word);
    Value from = add(mul(div(ofPanel, constant(wordsOfStep)), constant(layout.panels.stepBytes())),
                     mul(rem(ofPanel, constant(wordsOfStep)), constant(lineBytes)));
    Value elements = memory.at(tile.elements, from, i8);
    Value offset =
        add(constant(layout.groups() * ByteRowLayout::groupHead), mul(word, constant(wordBytes * layout.valueBytes)));
    Value values = memory.at(tile.row, offset, i8);
    layout.widens() ? addWords(tile, elements, values, first, 0, totals)
                    : addBytes(tile, elements, values, first, 0, totals);
    return totals;
  });
}

SmallVector<Value> ByteTileEmitter::finish(const ByteRowLayout &layout, ArrayRef<Value> starts, ArrayRef<Value> sums) {
  if (!layout.widens())
    return SmallVector<Value>(sums);
  // Both sums of a column are neighbours. Shuffles within 128 bits are cheap: columns are put in order after the
  // addition.
  int64_t lanes = config.lanes;
  SmallVector<int64_t> even, odd, order(lanes);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    int64_t from = lane / 4 * 4 + lane % 2 * 2 + (lane % 4 >= 2 ? lanes : 0);
    even.push_back(from);
    odd.push_back(from + 1);
    order[from / 2] = lane;
  }
  SmallVector<Value> totals;
  for (auto [r, start] : llvm::enumerate(starts)) {
    auto shuffled = [&](Value x, Value y, ArrayRef<int64_t> mask) -> Value {
      return make<vector::ShuffleOp>(x, y, mask);
    };
    Value first = shuffled(sums[2 * r], sums[2 * r + 1], even), second = shuffled(sums[2 * r], sums[2 * r + 1], odd);
    Value sum = make<arith::AddIOp>(first, second);
    totals.push_back(make<arith::AddIOp>(splat(start, lanes), shuffled(sum, sum, order)));
  }
  return totals;
}

/// Returns the byte of a step where a word of a column lies.
static int64_t byteOf(const BlockPanels &panels, int64_t column, int64_t word) {
  return column / BlockPanels::lineRows * (panels.stepBytes() / 2) + column % BlockPanels::lineRows * 4 + 64 * word;
}

/// Adds the products of a step, line by line in the order of addresses.
void ByteTileEmitter::addStepInOrder(const ByteTile &tile, Value elements, Value values, int64_t first,
                                     MutableArrayRef<Value> totals) {
  int64_t vectors = columnVectors();
  for (int64_t v = 0; v < vectors; ++v)
    for (int64_t word = 0; word < BlockPanels::words; ++word) {
      int64_t byte = byteOf(tile.layout.panels, first + v * config.lanes, word);
      Value from = memory.at(elements, constant(byte), b.getI8Type());
      if (word == 0)
        registerTiles.prefetchNextPage(from);
      Value right = memory.load(from, constant(0), b.getI8Type(), 4 * config.lanes);
      right.getDefiningOp<LLVM::LoadOp>().setVolatile_(true); // LLVM would load columns by turns
      for (int64_t i = v; i < int64_t(totals.size()); i += vectors) {
        Value row = memory.at(values, constant(i / vectors * tile.rowStride), b.getI8Type());
        totals[i] = quantizedWeights.addByteProducts(totals[i], right, quantizedWeights.splatWordOf(row, word),
                                                     /*elementsAre8Bits=*/true);
      }
    }
}

void ByteTileEmitter::addBytes(const ByteTile &tile, Value elements, Value values, int64_t first, int64_t word,
                               MutableArrayRef<Value> totals) {
  int64_t lanes = config.lanes, vectors = columnVectors();
  SmallVector<Value> right;
  for (int64_t v = 0; v < vectors; ++v) {
    int64_t byte = byteOf(tile.layout.panels, first + v * lanes, word);
    right.push_back(memory.load(elements, constant(byte), b.getI8Type(), 4 * lanes));
  }
  for (auto [i, total] : llvm::enumerate(totals)) {
    Value row = memory.at(values, constant(i / vectors * tile.rowStride), b.getI8Type());
    Value left = quantizedWeights.splatWordOf(row, word);
    total = quantizedWeights.addByteProducts(total, right[i % vectors], left, /*elementsAre8Bits=*/true);
  }
}

/// Adds the products of a word to two vectors of sums for each row: neighbouring lanes are of one column.
void ByteTileEmitter::addWords(const ByteTile &tile, Value elements, Value values, int64_t first, int64_t word,
                               MutableArrayRef<Value> totals) {
  int64_t width = 2 * config.lanes;
  VectorType words = VectorType::get({width}, b.getI16Type());
  SmallVector<Value> right;
  for (int64_t half = 0; half < 2; ++half) {
    int64_t byte = byteOf(tile.layout.panels, first, word) + half * width;
    Value bytes = memory.load(elements, constant(byte), b.getI8Type(), width);
    right.push_back(make<arith::ExtUIOp>(words, bytes));
  }
  for (auto [i, total] : llvm::enumerate(totals)) {
    Value at = memory.at(values, constant(i / 2 * tile.rowStride + 8 * word), b.getI8Type());
    Value left = splat(make<LLVM::LoadOp>(b.getI64Type(), at, 8), width / 4);
    total = quantizedWeights.addWordProducts(total, right[i % 2], make<vector::BitCastOp>(words, left));
  }
}

} // namespace intarsia::cpu
