//===- PanelTiles.cpp - Tiles of quantized weights ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Weights in panels (dialects/Rt/BlockPanels.h) on their way to shared memory. A thread has a step of a row: words of
// its lines, and scales, are loaded as they are stored some tiles before they are needed, and decoded then.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/QuantizedRows.h"
#include "lib/Target/GPU/TiledLinear.h"

#include "dialects/Nn/BlockFormats.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

static constexpr int64_t stepDepth = BlockPanels::stepDepth;
static constexpr int64_t chunkBytes = 16;
/// Bytes of a word of panels.
static constexpr int64_t wordBytes = 4;

static int64_t linesOf(const BlockPanels &panels) {
  return panels.elementBits == 8 ? BlockPanels::words : panels.elementBits;
}

Value TiledLinear::word(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(value)));
}

SmallVector<TiledLinear::Unit> TiledLinear::unitsOf(const MatrixTiles &tiles, int64_t rows, Value firstRow, Value end) {
  int64_t threads = tiles.warps() * architecture.warpSize;
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

SmallVector<TiledLinear::Unit> TiledLinear::unitsOfWeight(const MatrixTiles &tiles, const BlockPanels &panels,
                                                          Value firstColumn) {
  SmallVector<Unit> units = unitsOf(tiles, tiles.columns, firstColumn, constant(linear.features()));
  for (Unit &unit : units) {
    Value index = div(unit.ofMatrix, constant(BlockPanels::rows));
    unit.panel =
        memory.at(function.storage[root.getWeight()].pointer, mul(index, constant(panels.panelBytes())), b.getI8Type());
    Type type = panels.block ? b.getF32Type() : nn::scaleType(panels.scale, b.getContext());
    if (panels.headBytes)
      unit.head = memory.load(unit.panel, rem(unit.ofMatrix, constant(BlockPanels::rows)), type, 1);
  }
  return units;
}

void TiledLinear::loadUnit(const BlockPanels &panels, const Unit &unit, Value k, SmallVectorImpl<Value> &loaded) {
  Type i8 = b.getI8Type();
  // Behind the weight's last step the input has zeros.
  Value step = min(add(div(k, constant(stepDepth)), unit.step), constant(panels.steps() - 1));
  int64_t stepsOfUnit = panels.unitDepth / stepDepth;
  Value begin = add(constant(panels.headBytes), mul(div(step, constant(stepsOfUnit)), constant(panels.unitBytes)));
  Value unitBegin = memory.at(unit.panel, begin, i8), stepOfUnit = rem(step, constant(stepsOfUnit));
  Value inPanel = rem(unit.ofMatrix, constant(BlockPanels::rows));
  Value offset = add(constant(panels.unitScaleBytes), mul(stepOfUnit, constant(panels.stepBytes())));
  offset = add(offset, mul(div(inPanel, constant(BlockPanels::lineRows)), constant(panels.stepBytes() / 2)));
  offset = add(offset, mul(rem(inPanel, constant(BlockPanels::lineRows)), constant(wordBytes)));
  for (int64_t line = 0; line != linesOf(panels); ++line) {
    Value ofLine = add(offset, constant(line * wordBytes * BlockPanels::lineRows));
    loaded.push_back(LLVM::LoadOp::create(b, loc, b.getI32Type(), memory.at(unitBegin, ofLine, i8), wordBytes));
  }
  for (int64_t block = 0; panels.block && block != blocksOfUnit(panels); ++block) {
    Value inUnit = add(mul(stepOfUnit, constant(stepDepth)), constant(block * panels.block));
    llvm::append_range(loaded, weights.loadScalesOfBlock(panels, unitBegin, div(inUnit, constant(panels.block)),
                                                         inPanel, /*lanes=*/1));
  }
}

Value TiledLinear::unpackWord(const BlockPanels &panels, ArrayRef<Value> loaded, int64_t number) {
  if (panels.elementBits == 8)
    return loaded[size_t(number)];
  auto bits = [&](Value bytes, int64_t first, int64_t count) -> Value {
    Value shifted = first ? arith::ShRUIOp::create(b, loc, bytes, word(first)).getResult() : bytes;
    return arith::AndIOp::create(b, loc, shifted, bytesOf((1 << count) - 1));
  };
  Value low, high;
  if (int64_t lowWords = panels.lowLines())
    low = bits(loaded[size_t(number % lowWords)], 4 * (number / lowWords), 4);
  if (int64_t highBits = panels.highBits()) {
    int64_t wordsOfLine = 8 / highBits;
    high = bits(loaded[size_t(panels.lowLines() + number / wordsOfLine)], number % wordsOfLine * highBits, highBits);
  }
  if (!low || !high)
    return low ? low : high;
  return arith::OrIOp::create(b, loc, low, arith::ShLIOp::create(b, loc, high, word(panels.highBegin())));
}

std::pair<Value, Value> TiledLinear::scalesOfUnit(const BlockPanels &panels, const Unit &unit, ArrayRef<Value> loaded,
                                                  int64_t block, double factor) {
  Value scale, minimum;
  if (panels.block) {
    ArrayRef<Value> stored = loaded.drop_front(size_t(linesOf(panels)));
    size_t ofBlock = stored.size() / size_t(blocksOfUnit(panels));
    std::tie(scale, minimum) =
        weights.decodeScales(panels, stored.slice(size_t(block) * ofBlock, ofBlock), /*lanes=*/1);
  }
  auto scaleBy = [&](Value by) { scale = scale ? arith::MulFOp::create(b, loc, scale, by).getResult() : by; };
  if (unit.head)
    scaleBy(unit.head);
  if (factor != 1.0)
    scaleBy(floatConstant(factor, b.getF32Type(), 1));
  if (minimum && unit.head)
    minimum = arith::MulFOp::create(b, loc, minimum, unit.head);
  return {scale, minimum};
}

Value TiledLinear::scaledByRows(const QuantizedRows &input, const BlockPanels &panels, Value sums, Value row,
                                Value column, int64_t width) {
  Type f32 = b.getF32Type();
  Value panel = memory.at(function.storage[root.getWeight()].pointer,
                          mul(div(column, constant(BlockPanels::rows)), constant(panels.panelBytes())), b.getI8Type());
  Value ofColumns = memory.load(panel, rem(column, constant(BlockPanels::rows)), f32, width);
  Value ofRow = memory.load(function.kernelScratch(input.scalesBegin()), row, f32, 1);
  return arith::MulFOp::create(b, loc, arith::MulFOp::create(b, loc, sums, splat(ofRow, width)), ofColumns);
}

Value TiledLinear::chunkPointer(const MatrixTiles &tiles, Value tile, Value row, Value chunk) {
  Value position = add(mul(row, constant(tiles.chunks)), matrices.swizzled(row, chunk, tiles.chunks));
  return memory.at(tile, mul(position, constant(chunkBytes)), b.getI8Type());
}

} // namespace intarsia::gpu
