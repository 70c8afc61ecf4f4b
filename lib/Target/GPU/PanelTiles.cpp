//===- PanelTiles.cpp - Tiles of quantized weights ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/PanelTiles.h"

#include "dialects/Nn/BlockFormats.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

static constexpr int64_t stepDepth = BlockPanels::stepDepth;
/// Bytes of a word of panels.
static constexpr int64_t wordBytes = 4;

static int64_t linesOf(const BlockPanels &panels) {
  return panels.elementBits == 8 ? BlockPanels::words : panels.elementBits;
}

SmallVector<PanelTiles::Unit> PanelTiles::unitsOf(const MatrixTiles &tiles, int64_t rows, Value firstRow, Value end) {
  int64_t threads = tiles.warps() * function.architecture.warpSize;
  int64_t all = rows * (tiles.chunks * matrices.chunkElements() / stepDepth);
  SmallVector<Unit> units;
  // Neighbouring threads have neighbouring rows: what they read of a line of panels are neighbouring words.
  for (int64_t first = 0; first < all; first += threads) {
    // Threads that have none do what the first ones do.
    Value number = add(all < threads ? rem(function.thread, constant(all)) : function.thread, constant(first));
    Unit unit;
    unit.row = rem(number, constant(rows));
    unit.step = div(number, constant(rows));
    // Sums of rows behind the last one are not stored: any will do for them.
    unit.ofMatrix = min(add(firstRow, unit.row), sub(end, constant(1)));
    units.push_back(unit);
  }
  return units;
}

SmallVector<PanelTiles::Unit> PanelTiles::unitsOfWeight(const MatrixTiles &tiles, Value firstColumn) {
  SmallVector<Unit> units = unitsOf(tiles, tiles.columns, firstColumn, constant(features()));
  for (Unit &unit : units) {
    Value index = div(unit.ofMatrix, constant(BlockPanels::rows));
    unit.panel =
        memory.at(function.storage[root.getRight()].pointer, mul(index, constant(panels->panelBytes())), b.getI8Type());
    Type type = panels->block ? b.getF32Type() : nn::scaleType(panels->scale, b.getContext());
    if (panels->headBytes)
      unit.head = memory.load(unit.panel, rem(unit.ofMatrix, constant(BlockPanels::rows)), type, 1);
  }
  return units;
}

void PanelTiles::loadUnit(const Unit &unit, Value k, SmallVectorImpl<Value> &loaded) {
  Type i8 = b.getI8Type();
  // Behind the weight's last step the input has zeros.
  Value step = min(add(div(k, constant(stepDepth)), unit.step), constant(panels->steps() - 1));
  int64_t stepsOfUnit = panels->unitDepth / stepDepth;
  Value begin = add(constant(panels->headBytes), mul(div(step, constant(stepsOfUnit)), constant(panels->unitBytes)));
  Value unitBegin = memory.at(unit.panel, begin, i8), stepOfUnit = rem(step, constant(stepsOfUnit));
  Value inPanel = rem(unit.ofMatrix, constant(BlockPanels::rows));
  Value offset = add(constant(panels->unitScaleBytes), mul(stepOfUnit, constant(panels->stepBytes())));
  offset = add(offset, mul(div(inPanel, constant(BlockPanels::lineRows)), constant(panels->stepBytes() / 2)));
  offset = add(offset, mul(rem(inPanel, constant(BlockPanels::lineRows)), constant(wordBytes)));
  for (int64_t line = 0; line != linesOf(*panels); ++line) {
    Value ofLine = add(offset, constant(line * wordBytes * BlockPanels::lineRows));
    loaded.push_back(make<LLVM::LoadOp>(b.getI32Type(), memory.at(unitBegin, ofLine, i8), wordBytes));
  }
  for (int64_t block = 0; panels->block && block != blocksOfUnit(); ++block) {
    Value inUnit = add(mul(stepOfUnit, constant(stepDepth)), constant(block * panels->block));
    llvm::append_range(loaded, weights.loadScalesOfBlock(*panels, unitBegin, div(inUnit, constant(panels->block)),
                                                         inPanel, /*lanes=*/1));
  }
}

Value PanelTiles::unpackWord(ArrayRef<Value> loaded, int64_t number) {
  if (panels->elementBits == 8)
    return loaded[size_t(number)];
  auto bits = [&](Value bytes, int64_t first, int64_t count) -> Value {
    Value shifted = first ? make<arith::ShRUIOp>(bytes, word(first)).getResult() : bytes;
    return make<arith::AndIOp>(shifted, bytesOf((1 << count) - 1));
  };
  Value low, high;
  if (int64_t lowWords = panels->lowLines())
    low = bits(loaded[size_t(number % lowWords)], 4 * (number / lowWords), 4);
  if (int64_t highBits = panels->highBits()) {
    int64_t wordsOfLine = 8 / highBits;
    high = bits(loaded[size_t(panels->lowLines() + number / wordsOfLine)], number % wordsOfLine * highBits, highBits);
  }
  if (!low || !high)
    return low ? low : high;
  return make<arith::OrIOp>(low, make<arith::ShLIOp>(high, word(panels->highBegin())));
}

std::pair<Value, Value> PanelTiles::scalesOfUnit(const Unit &unit, ArrayRef<Value> loaded, int64_t block,
                                                 double factor) {
  Value scale, minimum;
  if (panels->block) {
    ArrayRef<Value> stored = loaded.drop_front(size_t(linesOf(*panels)));
    size_t ofBlock = stored.size() / size_t(blocksOfUnit());
    std::tie(scale, minimum) =
        weights.decodeScales(*panels, stored.slice(size_t(block) * ofBlock, ofBlock), /*lanes=*/1);
  }
  auto scaleBy = [&](Value by) { scale = scale ? make<arith::MulFOp>(scale, by).getResult() : by; };
  if (unit.head)
    scaleBy(unit.head);
  if (factor != 1.0)
    scaleBy(floatConstant(factor, b.getF32Type(), 1));
  if (minimum && unit.head)
    minimum = make<arith::MulFOp>(minimum, unit.head);
  return {scale, minimum};
}

Value PanelTiles::scalesOfColumns(Value column, int64_t width) {
  Value panel = memory.at(function.storage[root.getRight()].pointer,
                          mul(div(column, constant(BlockPanels::rows)), constant(panels->panelBytes())), b.getI8Type());
  return memory.load(panel, rem(column, constant(BlockPanels::rows)), b.getF32Type(), width);
}

Factor PanelTiles::factor(ArrayRef<Unit> units, Store store, const Beside &beside) {
  Factor factor;
  factor.rows = constant(features());
  factor.load = [this, units = SmallVector<Unit>(units), beside](Value k) {
    SmallVector<Value> loaded;
    for (const Unit &unit : units)
      loadUnit(unit, k, loaded);
    for (const Unit &unit : beside.units)
      beside.load(unit, k, loaded);
    return loaded;
  };
  factor.store = [units = SmallVector<Unit>(units), store, beside](ArrayRef<Value> loaded, Value stage) {
    size_t ofUnit = (loaded.size() - beside.units.size() * beside.values) / units.size();
    for (const Unit &unit : units) {
      store(unit, loaded.take_front(ofUnit), stage);
      loaded = loaded.drop_front(ofUnit);
    }
    for (const Unit &unit : beside.units) {
      beside.store(unit, loaded.take_front(beside.values), stage);
      loaded = loaded.drop_front(beside.values);
    }
  };
  return factor;
}

Value PanelTiles::chunkPointer(const MatrixTiles &tiles, Value tile, Value row, Value chunk) {
  Value position = add(mul(row, constant(tiles.chunks)), matrices.swizzled(row, chunk, tiles.chunks));
  return memory.at(tile, mul(position, constant(chunkBytes)), b.getI8Type());
}

} // namespace intarsia::gpu
