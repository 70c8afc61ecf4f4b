//===- BlockScaledLinearKernel.cpp - Linears of E2M1 with scales that matrix instructions take --------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Rows lie quantized in scratch (QuantizedRows.h), weights in panels (dialects/Rt/BlockPanels.h). Elements of both stay
// in 4 bits; words of weights get the order of those of the input on their way to shared memory. Scales of blocks lie
// beside them as they are stored, and instructions multiply by them. Those of rows of NVFP4 are given to sums at the
// end:
//
//   stage   rows of the input and of the weight, a step of 32 elements in a chunk; then i8 [row][block], scales of the
//           input, and [column][block], of the weight
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/QuantizedRows.h"
#include "lib/Target/GPU/TiledLinear.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
constexpr int64_t tileDepth = QuantizedRows::tileDepthOfE2M1, stepDepth = BlockPanels::stepDepth;
constexpr int64_t chunksOfTile = tileDepth / stepDepth;
static_assert(chunkBytes * 2 == stepDepth, "a chunk holds a step");
/// Bytes of a word of panels, and of those scales that a lane passes to an instruction.
constexpr int64_t wordBytes = 4;

class BlockScaledLinearKernel final : public TiledLinear {
public:
  BlockScaledLinearKernel(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture,
                          const MatrixInstruction &instruction, RowRange range, const QuantizedRows &input)
      : TiledLinear(kernel, root, "block-scaled linear", architecture, instruction, range, &input), block(input.block) {
    matrices.multiplyStage = [this](auto &tiles, Value stage, auto &sums) { multiplyStage(tiles, stage, sums); };
    if (input.hasRowScales)
      linear.scaled = [this](Value sums, Value row, Value column, int64_t width) {
        return scaledByRows(sums, row, column, width);
      };
  }

private:
  using Unit = PanelTiles::Unit;

  MatrixTiles tilesFor(TileSize size) const override;

  // From memory to a stage.
  Factor weightFactor(const MatrixTiles &tiles, Value rows, Value firstRow, Value firstColumn) override;
  void storeWeight(const MatrixTiles &tiles, const Unit &unit, ArrayRef<Value> loaded, Value stage);
  /// Returns the rows of the input whose scales this thread copies, as units.
  SmallVector<Unit> scaleRows(const MatrixTiles &tiles, Value firstRow, Value end);
  /// Returns scales of blocks of a row of a tile.
  int64_t scalesOfRow() const { return tileDepth / block; }
  Type scalesType() { return vectorOf(b.getI32Type(), scalesOfRow() / wordBytes); }

  // From a stage to sums.
  void multiplyStage(const MatrixTiles &tiles, Value stage, SmallVectorImpl<Value> &sums);
  /// Returns what this lane passes to instructions as the scales of a step of a fragment.
  Value loadScalesOfStep(Value scales, Value firstRow, int64_t step);
  /// Adds the products of a step of two fragments.
  void multiplyStep(ArrayRef<Value> left, ArrayRef<Value> right, Value leftScales, Value rightScales, int64_t step,
                    MutableArrayRef<Value> sums);
  int64_t weightScales(const MatrixTiles &tiles) const { return scalesBegin(tiles) + tiles.rows * scalesOfRow(); }

  int64_t block; ///< elements that have a scale
};
} // namespace

Emitter makeBlockScaledLinearKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture,
                                    const MatrixInstruction &instruction, RowRange rows, const QuantizedRows &input) {
  return std::make_unique<BlockScaledLinearKernel>(kernel, cast<nn::LinearOp>(root), architecture, instruction, rows,
                                                   input);
}

MatrixTiles BlockScaledLinearKernel::tilesFor(TileSize size) const {
  // A tile has four times the elements of one of 16 bits. With 128 sums a lane ptxas 13.0 spills 20 bytes of NVFP4,
  // whose weights have two scales a step on their way.
  MatrixTiles tiles = quantizedTiles(size, chunksOfTile, isMma() ? 32 : 64, /*shorter=*/4);
  tiles.scaleBytes = (tiles.rows + tiles.columns) * scalesOfRow();
  return tiles;
}

//===-- From memory to a stage ----------------------------------------------------------------------------------===//

SmallVector<PanelTiles::Unit> BlockScaledLinearKernel::scaleRows(const MatrixTiles &tiles, Value firstRow, Value end) {
  int64_t threads = tiles.warps() * architecture.warpSize;
  SmallVector<Unit> units;
  for (int64_t first = 0; first < tiles.rows; first += threads) {
    Unit unit;
    // Threads that have no row do what the first ones do.
    unit.row = rem(add(function.thread, constant(first)), constant(tiles.rows));
    // Sums of rows behind the last one are not stored: any will do for them.
    unit.ofMatrix = min(add(firstRow, unit.row), sub(end, constant(1)));
    units.push_back(unit);
  }
  return units;
}

Factor BlockScaledLinearKernel::weightFactor(const MatrixTiles &tiles, Value rows, Value firstRow, Value firstColumn) {
  SmallVector<Unit> weights = panelTiles.unitsOfWeight(tiles, firstColumn);
  PanelTiles::Beside scales = {scaleRows(tiles, firstRow, rows), /*values=*/1, nullptr, nullptr};
  scales.load = [this](const Unit &unit, Value k, SmallVectorImpl<Value> &loaded) {
    Value number = add(mul(unit.ofMatrix, constant(input->blocks())), div(k, constant(block)));
    Value address = memory.at(function.kernelScratch(input->blocksBegin()), number, b.getI8Type());
    loaded.push_back(make<LLVM::LoadOp>(scalesType(), address, scalesOfRow()));
  };
  scales.store = [this, tiles](const Unit &unit, ArrayRef<Value> loaded, Value stage) {
    Value to = memory.at(at(stage, scalesBegin(tiles)), mul(unit.row, constant(scalesOfRow())), b.getI8Type());
    make<LLVM::StoreOp>(loaded.front(), to, scalesOfRow());
  };
  auto store = [this, tiles](const Unit &unit, ArrayRef<Value> loaded, Value stage) {
    storeWeight(tiles, unit, loaded, stage);
  };
  return panelTiles.factor(weights, store, scales);
}

void BlockScaledLinearKernel::storeWeight(const MatrixTiles &tiles, const Unit &unit, ArrayRef<Value> loaded,
                                          Value stage) {
  // A line has features 4 i + j in the low bits of byte j and 16 + 4 i + j in the high ones. A word of the input has
  // eight neighbouring features: the low bits of two lines, or the high ones.
  auto both = [&](Value a, int64_t each) -> Value { return make<arith::AndIOp>(a, bytesOf(each)); };
  Value four = word(4);
  SmallVector<Value> low, high;
  for (int64_t line = 0; line != wordBytes; line += 2) {
    Value first = loaded[size_t(line)], second = loaded[size_t(line + 1)];
    low.push_back(make<arith::OrIOp>(both(first, 0x0f), make<arith::ShLIOp>(both(second, 0x0f), four)));
    high.push_back(make<arith::OrIOp>(both(make<arith::ShRUIOp>(first, four), 0x0f), both(second, 0xf0)));
  }
  Value chunk = make<vector::FromElementsOp>(VectorType::get({wordBytes}, b.getI32Type()),
                                             ValueRange{low[0], low[1], high[0], high[1]});
  make<LLVM::StoreOp>(chunk, panelTiles.chunkPointer(tiles, at(stage, weightBegin(tiles)), unit.row, unit.step),
                      chunkBytes);
  // Behind the lines are the scales of one block, or of both.
  ArrayRef<Value> scales = loaded.drop_front(wordBytes);
  int64_t ofStep = stepDepth / block;
  Value to = memory.at(at(stage, weightScales(tiles)),
                       add(mul(unit.row, constant(scalesOfRow())), mul(unit.step, constant(ofStep))), b.getI8Type());
  Value stored = scales.front();
  if (ofStep == 2)
    stored = make<vector::FromElementsOp>(VectorType::get({2}, b.getI8Type()), scales);
  make<LLVM::StoreOp>(stored, to, ofStep);
}

//===-- From a stage to sums ------------------------------------------------------------------------------------===//

Value BlockScaledLinearKernel::loadScalesOfStep(Value scales, Value firstRow, int64_t step) {
  Type i8 = b.getI8Type(), i32 = b.getI32Type();
  int64_t ofStep = instruction.k / block;
  if (!isMma()) {
    // A lane has a block of a row, and its scale (CDNA 4 ISA, "V_MFMA_SCALE_F32_16X16X128_F8F6F4").
    Value row = add(firstRow, rem(function.lane, constant(fragmentRows)));
    Value inRow = add(div(function.lane, constant(fragmentRows)), constant(step * ofStep));
    Value scale = memory.load(scales, add(mul(row, constant(scalesOfRow())), inRow), i8, 1);
    return make<arith::ExtUIOp>(i32, scale);
  }
  // Of four lanes the first one has the scales of a row, and the second those of the row 8 behind it (PTX ISA, "Block
  // scaling for mma.sync"). A word has those of one step or of two.
  Value row = add(add(firstRow, div(function.lane, constant(4))), mul(rem(function.lane, constant(2)), constant(8)));
  Value inRow = constant(step * ofStep / wordBytes * wordBytes);
  return memory.load(memory.at(scales, add(mul(row, constant(scalesOfRow())), inRow), i8), constant(0), i32, 1);
}

void BlockScaledLinearKernel::multiplyStep(ArrayRef<Value> left, ArrayRef<Value> right, Value leftScales,
                                           Value rightScales, int64_t step, MutableArrayRef<Value> sums) {
  std::string name = (instruction.intrinsic + instruction.overload).str();
  if (!isMma()) {
    // Both factors are E2M1, and scales are in the first bytes.
    Value format = word(4), first = word(0);
    sums[0] = matrices.callIntrinsic(
        name, sums[0].getType(), {left[0], right[0], sums[0], format, format, first, leftScales, first, rightScales});
    return;
  }
  auto selector = [&](int64_t value) -> Value { return make<arith::ConstantOp>(b.getI16IntegerAttr(int16_t(value))); };
  Value byte = selector(step * instruction.k / block % wordBytes);
  // Two lanes of four have the scales of the columns.
  matrices.multiplyHalves(name, left, right, sums, [&](int64_t half, SmallVectorImpl<Value> &arguments) {
    arguments.append({leftScales, byte, selector(0), rightScales, byte, selector(half)});
  });
}

void BlockScaledLinearKernel::multiplyStage(const MatrixTiles &tiles, Value stage, SmallVectorImpl<Value> &sums) {
  int64_t rowBytes = tiles.chunks * chunkBytes;
  auto tileAt = [&](int64_t begin, Value row) {
    return memory.at(at(stage, begin), mul(row, constant(rowBytes)), b.getI8Type());
  };
  int64_t rows = tiles.warpRows / fragmentRows, columns = tiles.warpColumns / fragmentRows;
  Value left = tileAt(0, matrices.rowOfFragment(tiles, 0)),
        right = tileAt(weightBegin(tiles), matrices.columnOfFragment(tiles, 0));
  for (int64_t step = 0; step != tiles.chunks / matrices.chunksOfStep(); ++step) {
    SmallVector<SmallVector<Value>> lefts, rights;
    SmallVector<Value> leftScales, rightScales;
    for (int64_t i = 0; i != rows; ++i) {
      lefts.push_back(matrices.loadFragment(tiles, left, i * fragmentRows, step, /*isRight=*/false));
      leftScales.push_back(loadScalesOfStep(at(stage, scalesBegin(tiles)), matrices.rowOfFragment(tiles, i), step));
    }
    for (int64_t j = 0; j != columns; ++j) {
      rights.push_back(matrices.loadFragment(tiles, right, j * fragmentRows, step, /*isRight=*/true));
      rightScales.push_back(
          loadScalesOfStep(at(stage, weightScales(tiles)), matrices.columnOfFragment(tiles, j), step));
    }
    for (int64_t i = 0; i != rows; ++i)
      for (int64_t j = 0; j != columns; ++j)
        multiplyStep(lefts[size_t(i)], rights[size_t(j)], leftScales[size_t(i)], rightScales[size_t(j)], step,
                     MutableArrayRef(sums).slice(size_t((i * columns + j) * matrices.valuesOfTile()),
                                                 size_t(matrices.valuesOfTile())));
  }
}

} // namespace intarsia::gpu
