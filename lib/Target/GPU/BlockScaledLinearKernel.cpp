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
constexpr int64_t chunkBytes = 16, chunksOfTile = tileDepth / stepDepth;
static_assert(chunkBytes * 2 == stepDepth, "a chunk holds a step");
/// Bytes of a word of panels, and of those scales that a lane passes to an instruction.
constexpr int64_t wordBytes = 4;

class BlockScaledLinearKernel final : public TiledLinear {
public:
  BlockScaledLinearKernel(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture,
                          const MatrixInstruction &instruction, const QuantizedRows &input, RowRange range)
      : TiledLinear(kernel, root, architecture, instruction, range), input(input),
        panels(*weights.panelsOf(root.getWeight())) {
    matrices.multiplyStage = [this](auto &tiles, Value stage, auto &sums) { multiplyStage(tiles, stage, sums); };
    if (input.hasRowScales)
      linear.scaled = [this](Value sums, Value row, Value column, int64_t width) {
        return scaledByRows(this->input, panels, sums, row, column, width);
      };
  }

private:
  MatrixTiles tilesFor(TileSize size) const override;
  FailureOr<SmallVector<Value>> multiplyTile(const MatrixTiles &tiles, Value rows, Value firstRow, Value firstColumn,
                                             TileRange range) override;
  AffineExpr scratchBegin() override { return input.bytes(); }
  int64_t multipliedDepth() override { return input.paddedDepth(); }

  // From memory to a stage.
  Factor weightFactor(const MatrixTiles &tiles, Value rows, Value firstRow, Value firstColumn);
  void storeWeight(const MatrixTiles &tiles, const Unit &unit, ArrayRef<Value> loaded, Value stage);
  /// Returns the rows of the input whose scales this thread copies, as units.
  SmallVector<Unit> scaleRows(const MatrixTiles &tiles, Value firstRow, Value end);
  /// Returns scales of blocks of a row of a tile.
  int64_t scalesOfRow() const { return tileDepth / input.block; }
  Type scalesType() { return vectorOf(b.getI32Type(), scalesOfRow() / wordBytes); }

  // From a stage to sums.
  void multiplyStage(const MatrixTiles &tiles, Value stage, SmallVectorImpl<Value> &sums);
  /// Returns what this lane passes to instructions as the scales of a step of a fragment.
  Value loadScalesOfStep(Value scales, Value firstRow, int64_t step);
  /// Adds the products of a step of two fragments.
  void multiplyStep(ArrayRef<Value> left, ArrayRef<Value> right, Value leftScales, Value rightScales, int64_t step,
                    MutableArrayRef<Value> sums);
  bool isMma() const { return instruction.family == MatrixFamily::Mma; }
  Value at(Value pointer, int64_t bytes) { return memory.at(pointer, constant(bytes), b.getI8Type()); }
  static int64_t weightBegin(const MatrixTiles &tiles) { return tiles.rows * tiles.chunks * chunkBytes; }
  static int64_t inputScales(const MatrixTiles &tiles) {
    return (tiles.rows + tiles.columns) * tiles.chunks * chunkBytes;
  }
  int64_t weightScales(const MatrixTiles &tiles) const { return inputScales(tiles) + tiles.rows * scalesOfRow(); }

  QuantizedRows input;
  BlockPanels panels;
};
} // namespace

Emitter makeBlockScaledLinearKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture,
                                    const MatrixInstruction &instruction, const QuantizedRows &input, RowRange rows) {
  return std::make_unique<BlockScaledLinearKernel>(kernel, cast<nn::LinearOp>(root), architecture, instruction, input,
                                                   rows);
}

MatrixTiles BlockScaledLinearKernel::tilesFor(TileSize size) const {
  // A tile has four times the elements of one of 16 bits, in as many bytes.
  int64_t stages = architecture.vendor == Vendor::Amd ? 2 : 3;
  MatrixTiles tiles = {64, 64, 32, 32, chunksOfTile, stages};
  if (size == TileSize::Least)
    tiles = {leastTileRows, 64, leastTileRows, 16, chunksOfTile, stages};
  else if (size == TileSize::Large)
    // With 128 sums a lane ptxas 13.0 spills 20 bytes of NVFP4, whose weights have two scales a step on their way.
    tiles = {128, 128, 64, isMma() ? 32 : 64, chunksOfTile, stages};
  tiles.loadsAhead = size == TileSize::Large ? 1 : loadsOfFewRows / 4;
  tiles.scaleBytes = (tiles.rows + tiles.columns) * scalesOfRow();
  return tiles;
}

FailureOr<SmallVector<Value>> BlockScaledLinearKernel::multiplyTile(const MatrixTiles &tiles, Value rows,
                                                                    Value firstRow, Value firstColumn,
                                                                    TileRange range) {
  Factor left;
  left.rows = rows;
  left.isRagged = true;
  Value values = function.kernelScratch(number(0));
  left.address = [this, values](Value row) {
    return memory.at(values, mul(row, constant(input.rowBytes())), b.getI8Type());
  };
  return matrices.multiply(tiles, left, weightFactor(tiles, rows, firstRow, firstColumn), firstRow, firstColumn,
                           constant(input.paddedDepth()), range);
}

//===-- From memory to a stage ----------------------------------------------------------------------------------===//

SmallVector<TiledLinear::Unit> BlockScaledLinearKernel::scaleRows(const MatrixTiles &tiles, Value firstRow, Value end) {
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
  SmallVector<Unit> weights = unitsOfWeight(tiles, panels, firstColumn), inputs = scaleRows(tiles, firstRow, rows);
  Factor factor;
  factor.rows = constant(linear.features());
  factor.load = [this, weights, inputs](Value k) {
    SmallVector<Value> loaded;
    for (const Unit &unit : weights)
      loadUnit(panels, unit, k, loaded);
    for (const Unit &unit : inputs) {
      Value number = add(mul(unit.ofMatrix, constant(input.blocks())), div(k, constant(input.block)));
      Value address = memory.at(function.kernelScratch(input.blocksBegin()), number, b.getI8Type());
      loaded.push_back(LLVM::LoadOp::create(b, loc, scalesType(), address, scalesOfRow()));
    }
    return loaded;
  };
  factor.store = [this, tiles, weights, inputs](ArrayRef<Value> loaded, Value stage) {
    size_t ofWeight = (loaded.size() - inputs.size()) / weights.size();
    for (const Unit &unit : weights) {
      storeWeight(tiles, unit, loaded.take_front(ofWeight), stage);
      loaded = loaded.drop_front(ofWeight);
    }
    for (const Unit &unit : inputs) {
      Value to = memory.at(at(stage, inputScales(tiles)), mul(unit.row, constant(scalesOfRow())), b.getI8Type());
      LLVM::StoreOp::create(b, loc, loaded.front(), to, scalesOfRow());
      loaded = loaded.drop_front();
    }
  };
  return factor;
}

void BlockScaledLinearKernel::storeWeight(const MatrixTiles &tiles, const Unit &unit, ArrayRef<Value> loaded,
                                          Value stage) {
  // A line has features 4 i + j in the low bits of byte j and 16 + 4 i + j in the high ones. A word of the input has
  // eight neighbouring features: the low bits of two lines, or the high ones.
  auto both = [&](Value a, int64_t each) -> Value { return arith::AndIOp::create(b, loc, a, bytesOf(each)); };
  Value four = word(4);
  SmallVector<Value> low, high;
  for (int64_t line = 0; line != wordBytes; line += 2) {
    Value first = loaded[size_t(line)], second = loaded[size_t(line + 1)];
    low.push_back(
        arith::OrIOp::create(b, loc, both(first, 0x0f), arith::ShLIOp::create(b, loc, both(second, 0x0f), four)));
    high.push_back(
        arith::OrIOp::create(b, loc, both(arith::ShRUIOp::create(b, loc, first, four), 0x0f), both(second, 0xf0)));
  }
  Value chunk = vector::FromElementsOp::create(b, loc, VectorType::get({wordBytes}, b.getI32Type()),
                                               ValueRange{low[0], low[1], high[0], high[1]});
  LLVM::StoreOp::create(b, loc, chunk, chunkPointer(tiles, at(stage, weightBegin(tiles)), unit.row, unit.step),
                        chunkBytes);
  // Behind the lines are the scales of one block, or of both.
  ArrayRef<Value> scales = loaded.drop_front(wordBytes);
  int64_t ofStep = stepDepth / input.block;
  Value to = memory.at(at(stage, weightScales(tiles)),
                       add(mul(unit.row, constant(scalesOfRow())), mul(unit.step, constant(ofStep))), b.getI8Type());
  Value stored = scales.front();
  if (ofStep == 2)
    stored = vector::FromElementsOp::create(b, loc, VectorType::get({2}, b.getI8Type()), scales);
  LLVM::StoreOp::create(b, loc, stored, to, ofStep);
}

//===-- From a stage to sums ------------------------------------------------------------------------------------===//

Value BlockScaledLinearKernel::loadScalesOfStep(Value scales, Value firstRow, int64_t step) {
  Type i8 = b.getI8Type(), i32 = b.getI32Type();
  int64_t ofStep = instruction.k / input.block;
  if (!isMma()) {
    // A lane has a block of a row, and its scale (CDNA 4 ISA, "V_MFMA_SCALE_F32_16X16X128_F8F6F4").
    Value row = add(firstRow, rem(function.lane, constant(fragmentRows)));
    Value inRow = add(div(function.lane, constant(fragmentRows)), constant(step * ofStep));
    Value scale = memory.load(scales, add(mul(row, constant(scalesOfRow())), inRow), i8, 1);
    return arith::ExtUIOp::create(b, loc, i32, scale);
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
  auto selector = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI16IntegerAttr(int16_t(value)));
  };
  Value byte = selector(step * instruction.k / input.block % wordBytes);
  Type result = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, b.getF32Type()));
  // The 16 rows of the right fragment are columns of two instructions, whose scales two lanes of four have.
  for (int64_t half = 0; half != 2; ++half) {
    MutableArrayRef<Value> four = sums.slice(size_t(4 * half), 4);
    SmallVector<Value> arguments(left);
    arguments.append({right[size_t(2 * half)], right[size_t(2 * half + 1)]});
    arguments.append(four.begin(), four.end());
    arguments.append({leftScales, byte, selector(0), rightScales, byte, selector(half)});
    Value product = matrices.callIntrinsic(name, result, arguments);
    for (auto [i, sum] : llvm::enumerate(four))
      sum = LLVM::ExtractValueOp::create(b, loc, product, int64_t(i));
  }
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
      leftScales.push_back(loadScalesOfStep(at(stage, inputScales(tiles)), matrices.rowOfFragment(tiles, i), step));
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
