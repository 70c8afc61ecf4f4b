//===- IntegerLinearKernel.cpp - Linears of integers of 8 bits by matrix instructions of GPUs --------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Rows lie quantized in scratch (QuantizedRows.h), weights in panels (dialects/Rt/BlockPanels.h). Elements of weights
// become integers of 8 bits with a sign on their way to shared memory; of E2M1 twice their values. Sums of products are
// integers as long as all have the same scales, then they are added to sums in f32:
//
//   stage   rows of the input and of the weight, then f32 [step][row], scales of the input; [slot][column], scales of
//           the weight; and where this has minima sums of steps of the input and minima, in the same order
//   slot    k's with one scale of the weight: a step of 32, or half of one
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/QuantizedRows.h"
#include "lib/Target/GPU/TiledLinear.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
constexpr int64_t stepDepth = BlockPanels::stepDepth, stepsOfTile = QuantizedRows::tileDepth / stepDepth;
constexpr int64_t chunksOfTile = QuantizedRows::tileDepth / chunkBytes;
/// Bytes of a word of panels, and of a scale in shared memory.
constexpr int64_t wordBytes = 4, scaleBytes = 4;
/// The bits of 1.5 * 2^23. Units are its last bit: integers below 2^22 that are added to the bits are added to the
/// number. A tile's sums are below 64 * 128 * 128.
constexpr int64_t shiftBits = 0x4b400000;
constexpr double shiftValue = 12582912.0;

class IntegerLinearKernel final : public TiledLinear {
public:
  IntegerLinearKernel(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture,
                      const MatrixInstruction &instruction, RowRange range, const QuantizedRows &input)
      : TiledLinear(kernel, root, "integer linear", architecture, instruction, range, &input),
        panels(*panelTiles.panels), half(findMatrixInstruction(architecture, MatrixElement::I8, stepDepth / 2)) {
    areHalves = panels.block == stepDepth / 2;
    areTiles = panels.block % QuantizedRows::tileDepth == 0 && !panels.hasMinima &&
               nn::QuantizeOp(input.quantize).getFormat().getBlock() % QuantizedRows::tileDepth == 0;
    matrices.multiplyStage = [this](auto &tiles, Value stage, auto &sums) { multiplyStage(tiles, stage, sums); };
  }

private:
  using Unit = PanelTiles::Unit;

  MatrixTiles tilesFor(TileSize size) const override;

  // From memory to a stage.
  Factor weightFactor(const MatrixTiles &tiles, Value rows, Value firstRow, Value firstColumn) override;
  void loadInputScales(const Unit &unit, Value k, SmallVectorImpl<Value> &loaded);
  void storeWeight(const MatrixTiles &tiles, const Unit &unit, ArrayRef<Value> loaded, Value stage);
  /// Returns the elements of a word as integers with signs.
  Value decodeWord(Value bytes);

  // From a stage to sums.
  void multiplyStage(const MatrixTiles &tiles, Value stage, SmallVectorImpl<Value> &sums);
  /// Returns the elements of a step that this lane has of a fragment, in values as instructions take them.
  SmallVector<Value> loadIntegers(const MatrixTiles &tiles, Value tile, Value firstRow, int64_t step, bool isRight);
  /// Adds the products of a step, or of one of its halves if `part` is not -1.
  void multiplyIntegers(ArrayRef<Value> left, ArrayRef<Value> right, int64_t part, SmallVectorImpl<Value> &sums);
  /// Calls an instruction of AMD's.
  Value callMatrix(Value left, Value right, Value sums);
  /// Returns what the rows, or the columns, of this lane's sums of a fragment have in a list of floats.
  SmallVector<Value> ofRows(Value floats, Value firstRow);
  SmallVector<Value> ofColumns(Value floats, Value firstColumn);
  /// Adds to the sums of a fragment products by rows and columns, times integers if there are some.
  void addScaled(ArrayRef<Value> integers, ArrayRef<Value> rows, ArrayRef<Value> columns, MutableArrayRef<Value> sums);

  // Offsets in a stage behind those of the input's scales.
  static int64_t weightScales(const MatrixTiles &tiles) {
    return scalesBegin(tiles) + scaleBytes * stepsOfTile * tiles.rows;
  }
  int64_t inputSums(const MatrixTiles &tiles) const {
    return weightScales(tiles) + scaleBytes * stepsOfTile * panelTiles.blocksOfUnit() * tiles.columns;
  }
  int64_t minima(const MatrixTiles &tiles) const { return inputSums(tiles) + scaleBytes * stepsOfTile * tiles.rows; }

  BlockPanels panels;
  const MatrixInstruction *half; ///< that multiplies half of a step; null if there is none
  bool areHalves;                ///< halves of a step have scales of their own
  bool areTiles;                 ///< whole tiles have one scale of each factor
};
} // namespace

Emitter makeIntegerLinearKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture,
                                const MatrixInstruction &instruction, RowRange rows, const QuantizedRows &input) {
  return std::make_unique<IntegerLinearKernel>(kernel, cast<nn::LinearOp>(root), architecture, instruction, rows,
                                               input);
}

MatrixTiles IntegerLinearKernel::tilesFor(TileSize size) const {
  // A lane has 64 sums of a large tile in f32 beside those in i32. Stages: at least two blocks of the small tile fit in
  // the shared memory of a multiprocessor.
  MatrixTiles tiles = quantizedTiles(size, chunksOfTile, architecture.warpSize == 64 ? 64 : 32, /*shorter=*/2);
  tiles.scaleBytes = (panels.hasMinima ? minima(tiles) + scaleBytes * stepsOfTile * tiles.columns : inputSums(tiles)) -
                     scalesBegin(tiles);
  return tiles;
}

//===-- From memory to a stage ----------------------------------------------------------------------------------===//

Factor IntegerLinearKernel::weightFactor(const MatrixTiles &tiles, Value rows, Value firstRow, Value firstColumn) {
  SmallVector<Unit> weights = panelTiles.unitsOfWeight(tiles, firstColumn);
  PanelTiles::Beside scales = {panelTiles.unitsOf(tiles, tiles.rows, firstRow, rows), 1 + size_t(panels.hasMinima),
                               nullptr, nullptr};
  scales.load = [this](const Unit &unit, Value k, SmallVectorImpl<Value> &loaded) { loadInputScales(unit, k, loaded); };
  scales.store = [this, tiles](const Unit &unit, ArrayRef<Value> loaded, Value stage) {
    Value number = add(mul(unit.step, constant(tiles.rows)), unit.row);
    memory.store(loaded[0], at(stage, scalesBegin(tiles)), number, b.getF32Type(), 1);
    if (panels.hasMinima)
      memory.store(loaded[1], at(stage, inputSums(tiles)), number, b.getF32Type(), 1);
  };
  auto store = [this, tiles](const Unit &unit, ArrayRef<Value> loaded, Value stage) {
    storeWeight(tiles, unit, loaded, stage);
  };
  return panelTiles.factor(weights, store, scales);
}

void IntegerLinearKernel::loadInputScales(const Unit &unit, Value k, SmallVectorImpl<Value> &loaded) {
  Value step = add(div(k, constant(stepDepth)), unit.step);
  Value number = add(mul(unit.ofMatrix, constant(input->steps())), step);
  loaded.push_back(memory.load(function.kernelScratch(input->scalesBegin()), number, b.getF32Type(), 1));
  if (panels.hasMinima)
    loaded.push_back(memory.load(function.kernelScratch(input->sumsBegin()), number, b.getF32Type(), 1));
}

void IntegerLinearKernel::storeWeight(const MatrixTiles &tiles, const Unit &unit, ArrayRef<Value> loaded, Value stage) {
  constexpr int64_t wordsOfChunk = chunkBytes / wordBytes;
  for (int64_t chunk = 0; chunk != matrices.chunksOfStep(); ++chunk) {
    SmallVector<Value> words;
    for (int64_t i = 0; i != wordsOfChunk; ++i)
      words.push_back(decodeWord(panelTiles.unpackWord(loaded, chunk * wordsOfChunk + i)));
    Value bytes = make<vector::FromElementsOp>(VectorType::get({wordsOfChunk}, b.getI32Type()), words);
    Value ofRow = add(mul(unit.step, constant(matrices.chunksOfStep())), constant(chunk));
    make<LLVM::StoreOp>(bytes, panelTiles.chunkPointer(tiles, at(stage, weightBegin(tiles)), unit.row, ofRow),
                        chunkBytes);
  }
  double factor = kernel::scaleFactor(panels) * (panels.isE2M1 ? 0.5 : 1.0);
  for (int64_t block = 0; block != panelTiles.blocksOfUnit(); ++block) {
    auto [scale, minimum] = panelTiles.scalesOfUnit(unit, loaded, block, factor);
    Value slot = add(mul(unit.step, constant(panelTiles.blocksOfUnit())), constant(block));
    Value number = add(mul(slot, constant(tiles.columns)), unit.row);
    memory.store(scale, at(stage, weightScales(tiles)), number, b.getF32Type(), 1);
    if (minimum)
      memory.store(minimum, at(stage, minima(tiles)), number, b.getF32Type(), 1);
  }
}

/// Decodes the four bytes of a word at once: what is added or subtracted stays inside of each.
Value IntegerLinearKernel::decodeWord(Value bytes) {
  auto both = [&](Value a, Value other) -> Value { return make<arith::AndIOp>(a, other); };
  auto sum = [&](Value a, Value other) -> Value { return make<arith::AddIOp>(a, other); };
  auto shifted = [&](Value a, int64_t by) -> Value { return make<arith::ShRUIOp>(a, word(by)); };
  Value signs = bytesOf(0x80), offset;
  if (panels.isE2M1) {
    // Bits efm of a magnitude mean 0 … 3 and, with e, (2 + m) << (1 + f); twice the value: 0 1 2 3 4 6 8 12.
    Value magnitude = both(bytes, bytesOf(7)), e = both(shifted(bytes, 2), bytesOf(1));
    Value em = both(e, bytes), ef = both(e, shifted(bytes, 1)), efm = both(ef, bytes);
    Value twice = sum(ef, efm);
    Value value = sum(sum(magnitude, em), sum(twice, twice));
    // 128 plus or minus the value: minus where the sign is set.
    Value isNegative = both(shifted(bytes, 3), bytesOf(1));
    Value mask = make<arith::MulIOp>(isNegative, word(0xff)), negated = both(value, mask);
    offset = make<arith::SubIOp>(sum(signs, value), sum(negated, negated));
  } else if (panels.elementBits == 8 && panels.integerOffset == 128) {
    offset = bytes;
  } else {
    assert((panels.elementBits < 8 || panels.integerOffset == 0) && "integers fit in 8 bits with a sign");
    offset = make<arith::SubIOp>(make<arith::OrIOp>(bytes, signs), bytesOf(panels.integerOffset));
  }
  return make<arith::XOrIOp>(offset, signs);
}

//===-- From a stage to sums ------------------------------------------------------------------------------------===//

SmallVector<Value> IntegerLinearKernel::loadIntegers(const MatrixTiles &tiles, Value tile, Value firstRow, int64_t step,
                                                     bool isRight) {
  Value ofFragment = memory.at(tile, mul(firstRow, constant(QuantizedRows::tileDepth)), b.getI8Type());
  if (isMma())
    return matrices.loadFragment(tiles, ofFragment, 0, step, isRight);
  Type i32 = b.getI32Type();
  Value row = rem(function.lane, constant(fragmentRows)), group = div(function.lane, constant(fragmentRows));
  auto load = [&](Type type, Value byte, int64_t bytes) -> Value {
    Value inStep = div(byte, constant(chunkBytes));
    Value chunk = matrices.swizzled(row, add(constant(step * matrices.chunksOfStep()), inStep), tiles.chunks);
    Value position =
        add(mul(add(mul(row, constant(tiles.chunks)), chunk), constant(chunkBytes)), rem(byte, constant(chunkBytes)));
    return make<LLVM::LoadOp>(type, memory.at(ofFragment, position, b.getI8Type()), bytes);
  };
  auto halves = [&](int64_t words, Value byte) {
    SmallVector<Value> values;
    for (int64_t i = 0; i != 2; ++i)
      values.push_back(load(vectorOf(i32, words), add(byte, constant(i * stepDepth / 2)), words * wordBytes));
    return values;
  };
  switch (instruction.family) {
  case MatrixFamily::WmmaRdna3:
    // Both halves of the warp have all elements of a row.
    return halves(4, constant(0));
  case MatrixFamily::WmmaRdna4:
    return halves(2, mul(group, constant(8)));
  case MatrixFamily::Mfma:
    if (half)
      return halves(1, mul(group, constant(4)));
    return {load(b.getI64Type(), mul(group, constant(8)), 8)};
  case MatrixFamily::Mma:
  case MatrixFamily::Wgmma:
  case MatrixFamily::MultiplyAdds:
    break;
  }
  llvm_unreachable("no other families multiply integers");
}

Value IntegerLinearKernel::callMatrix(Value left, Value right, Value sums) {
  SmallVector<Value> arguments = {left, right, sums};
  auto flag = [&](bool value) -> Value { return make<arith::ConstantOp>(b.getBoolAttr(value)); };
  if (instruction.family == MatrixFamily::Mfma)
    arguments.append(3, word(0));
  else // Both factors have signs, and sums wrap.
    arguments = {flag(true), left, flag(true), right, sums, flag(false)};
  return matrices.callIntrinsic((instruction.intrinsic + instruction.overload).str(), sums.getType(), arguments);
}

void IntegerLinearKernel::multiplyIntegers(ArrayRef<Value> left, ArrayRef<Value> right, int64_t part,
                                           SmallVectorImpl<Value> &sums) {
  bool isWhole = part < 0;
  if (isMma() && isWhole)
    return matrices.multiplyHalves(instruction.intrinsic, left, right, sums);
  if (isMma())
    return matrices.multiplyHalves(half->intrinsic, left.slice(2 * size_t(part), 2),
                                   {right[size_t(part)], right[size_t(part) + 2]}, sums);
  if (!isWhole && left.size() == 1) {
    // Instructions of CDNA 3 take whole steps: lanes with the other half of one factor have zeros.
    Value isPart = equal(div(function.lane, constant(2 * fragmentRows)), constant(part));
    Value masked = select(isPart, right[0], constant(0));
    sums[0] = callMatrix(left[0], masked, sums[0]);
    return;
  }
  for (auto [i, values] : llvm::enumerate(llvm::zip_equal(left, right)))
    if (isWhole || int64_t(i) == part)
      sums[0] = callMatrix(std::get<0>(values), std::get<1>(values), sums[0]);
}

SmallVector<Value> IntegerLinearKernel::ofRows(Value floats, Value firstRow) {
  Type f32 = b.getF32Type();
  auto load = [&](Value row, int64_t count) { return memory.load(floats, add(firstRow, row), f32, count); };
  if (isMma()) {
    Value row = div(function.lane, constant(4));
    return {load(row, 1), load(add(row, constant(8)), 1)};
  }
  Value group = div(function.lane, constant(fragmentRows));
  int64_t ofLane = fragmentRows * fragmentRows / architecture.warpSize;
  if (instruction.family != MatrixFamily::WmmaRdna3)
    return {load(mul(group, constant(ofLane)), ofLane)};
  SmallVector<Value> each;
  for (int64_t i = 0; i != ofLane; ++i)
    each.push_back(load(add(group, constant(2 * i)), 1));
  return {make<vector::FromElementsOp>(VectorType::get({ofLane}, f32), each)};
}

SmallVector<Value> IntegerLinearKernel::ofColumns(Value floats, Value firstColumn) {
  Type f32 = b.getF32Type();
  if (!isMma()) {
    Value one = memory.load(floats, add(firstColumn, rem(function.lane, constant(fragmentRows))), f32, 1);
    return {splat(one, fragmentRows * fragmentRows / architecture.warpSize)};
  }
  SmallVector<Value> columns;
  for (int64_t i = 0; i != 4; ++i) {
    Value column = add(mul(rem(function.lane, constant(4)), constant(2)), constant(i / 2 * 8 + i % 2));
    columns.push_back(memory.load(floats, add(firstColumn, column), f32, 1));
  }
  return columns;
}

void IntegerLinearKernel::addScaled(ArrayRef<Value> integers, ArrayRef<Value> rows, ArrayRef<Value> columns,
                                    MutableArrayRef<Value> sums) {
  Type f32 = b.getF32Type();
  for (auto [i, sum] : llvm::enumerate(sums)) {
    Value row = rows[isMma() ? i % 4 / 2 : 0], column = columns[isMma() ? i / 4 * 2 + i % 2 : 0];
    if (!integers.empty()) {
      Value product;
      if (isMma())
        product = make<arith::SubFOp>(make<arith::BitcastOp>(f32, integers[i]), floatConstant(shiftValue, f32, 1));
      else
        product = make<arith::SIToFPOp>(sum.getType(), integers[i]);
      row = make<arith::MulFOp>(product, row);
    }
    sum = make<math::FmaOp>(row, column, sum);
  }
}

void IntegerLinearKernel::multiplyStage(const MatrixTiles &tiles, Value stage, SmallVectorImpl<Value> &sums) {
  int64_t rows = tiles.warpRows / fragmentRows, columns = tiles.warpColumns / fragmentRows;
  int64_t steps = areTiles ? stepsOfTile : 1; // whose products are added as integers
  // NVIDIA's conversions from integers are slow: sums begin with a float's bits. AMD's begin with zeros for nothing.
  int64_t ofLane = fragmentRows * fragmentRows / architecture.warpSize;
  Value zero = isMma() ? word(shiftBits) : splat(word(0), ofLane);
  auto floats = [&](int64_t begin, int64_t number) { return at(stage, begin + scaleBytes * number); };
  using Fragments = SmallVector<SmallVector<Value>>;
  for (int64_t first = 0; first != stepsOfTile; first += steps) {
    SmallVector<Fragments> lefts, rights;
    auto load = [&](SmallVector<Fragments> &fragments, Value firstRow, int64_t begin, bool isRight) {
      Fragments ofSteps;
      for (int64_t step = first; step != first + steps; ++step)
        ofSteps.push_back(loadIntegers(tiles, at(stage, begin), firstRow, step, isRight));
      fragments.push_back(ofSteps);
    };
    Fragments rowScales;
    for (int64_t i = 0; i != rows; ++i) {
      load(lefts, matrices.rowOfFragment(tiles, i), 0, /*isRight=*/false);
      rowScales.push_back(ofRows(floats(scalesBegin(tiles), first * tiles.rows), matrices.rowOfFragment(tiles, i)));
    }
    for (int64_t j = 0; j != columns; ++j)
      load(rights, matrices.columnOfFragment(tiles, j), weightBegin(tiles), /*isRight=*/true);
    auto sumsOf = [&](int64_t i, int64_t j) {
      return MutableArrayRef(sums).slice(size_t((i * columns + j) * matrices.valuesOfTile()),
                                         size_t(matrices.valuesOfTile()));
    };
    for (int64_t slot = 0; slot != panelTiles.blocksOfUnit(); ++slot)
      for (int64_t j = 0; j != columns; ++j) {
        int64_t number = (first * panelTiles.blocksOfUnit() + slot) * tiles.columns;
        SmallVector<Value> scales = ofColumns(floats(weightScales(tiles), number), matrices.columnOfFragment(tiles, j));
        for (int64_t i = 0; i != rows; ++i) {
          SmallVector<Value> integers(size_t(matrices.valuesOfTile()), zero);
          for (size_t step = 0; step != size_t(steps); ++step)
            multiplyIntegers(lefts[size_t(i)][step], rights[size_t(j)][step], areHalves ? slot : -1, integers);
          addScaled(integers, rowScales[size_t(i)], scales, sumsOf(i, j));
        }
      }
    for (int64_t j = 0; panels.hasMinima && j != columns; ++j)
      for (int64_t i = 0; i != rows; ++i)
        addScaled({}, ofRows(floats(inputSums(tiles), first * tiles.rows), matrices.rowOfFragment(tiles, i)),
                  ofColumns(floats(minima(tiles), first * tiles.columns), matrices.columnOfFragment(tiles, j)),
                  sumsOf(i, j));
  }
}

} // namespace intarsia::gpu
