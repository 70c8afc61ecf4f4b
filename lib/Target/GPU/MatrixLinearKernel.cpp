//===- MatrixLinearKernel.cpp - Linears by matrix instructions of GPUs ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/QuantizedRows.h"
#include "lib/Target/GPU/TiledLinear.h"
#include "lib/Target/GPU/WindowReads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
/// Elements of a word of panels.
constexpr int64_t wordDepth = 4;

/// A linear whose operands are rounded to what matrix instructions multiply. An input that is quantized to floats, and
/// the weight beside it, are multiplied without the scales that rows of E4M3 and of NVFP4 have, which their sums get.
class MatrixLinearKernel final : public TiledLinear {
public:
  MatrixLinearKernel(rt::KernelOp kernel, ContractionOpInterface root, const Architecture &architecture,
                     const MatrixInstruction &instruction, RowRange range, const QuantizedRows *input)
      : TiledLinear(kernel, root, "matrix linear", architecture, instruction, range, input) {
    linear.scaled = [this](Value sums, Value row, Value column, int64_t width) {
      return scaled(sums, row, column, width);
    };
  }

private:
  using Unit = PanelTiles::Unit;

  MatrixTiles tilesFor(TileSize size) const override;
  Factor inputFactor(Value rows) override;
  Factor weightFactor(const MatrixTiles &tiles, Value rows, Value firstRow, Value firstColumn) override;
  Value scaled(Value sums, Value row, Value column, int64_t width);
  /// Returns elements of E4M3 as instructions take them.
  Value floats8(ArrayRef<Value> words);
  void storeUnit(const MatrixTiles &tiles, const Unit &unit, ArrayRef<Value> loaded, Value tile);
  /// True if elements are decoded two at a time by instructions for f16, with the same result.
  bool decodesInHalves();
  /// Returns the values of words as elements of the tile.
  Value decodeHalves(ArrayRef<Value> words, Value scale);
  /// Returns bytes `first` and `first + 1` of a word, each with one of `upper` above it.
  Value interleave(Value lower, Value upper, int32_t first);
  Value decodeFloats(ArrayRef<Value> words, Value scale, Value minimum);
  /// Returns the elements of a word as f32; those that are floats are elementFactor() times too small.
  Value decodeWord(Value bytes);
  Factor factorOf(Value matrix, Value rows, bool isRagged, std::function<Indices(Value row, Value k)> at);

  PanelEmitter weights{function};
  const BlockPanels panels = panelTiles.panels.value_or(BlockPanels{}); ///< of the weight, if it has some

  bool areE4M3() const { return input && input->values == QuantizedRows::Values::E4M3; }
};
} // namespace

Emitter makeMatrixLinearKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture,
                               const MatrixInstruction &instruction, RowRange rows, const QuantizedRows *input) {
  return std::make_unique<MatrixLinearKernel>(kernel, cast<ContractionOpInterface>(root), architecture, instruction,
                                              rows, input);
}

MatrixTiles MatrixLinearKernel::tilesFor(TileSize size) const {
  // Four warps each, where nothing else is said. Depth and stages: at least two blocks fit in the shared memory of a
  // multiprocessor.
  int64_t stages = architecture.asyncCopy == AsyncCopy::None || architecture.vendor == Vendor::Amd ? 2 : 4;
  bool isLarge = size == TileSize::Large;
  if (matrices.isWarpgroup()) {
    // Each warp has 16 rows of every 64, and all columns.
    assert(size != TileSize::Least && "warpgroups multiply 64 rows at least");
    return isLarge ? MatrixTiles{128, 128, 32, 128, /*chunks=*/4, /*stages=*/6}
                   : MatrixTiles{64, 64, 16, 64, /*chunks=*/4, /*stages=*/6};
  }
  if (isLarge && instruction.family == MatrixFamily::MultiplyAdds && architecture.vendor == Vendor::Nvidia) {
    // A lane has 8 x 8 sums: it reads 16 vectors of shared memory for 256 multiply-adds, and 12 for 128 if it has half.
    // Sums and vectors are 128 registers. ptxas (version 13.0) takes 254 in all where it may, and 168 leave room for
    // three blocks, which need no more instructions and no spills (docs/benchmarks-gpu-static.md).
    constexpr int64_t blocksOfRegisters = 3;
    MatrixTiles tiles = {128, 64, 64, 32, /*chunks=*/4, stages};
    tiles.blocksOfMultiprocessor =
        int32_t(std::min(blocksOfRegisters, architecture.sharedBytes / matrices.sharedBytesOf(tiles)));
    return tiles;
  }
  if (isLarge && instruction.family == MatrixFamily::MultiplyAdds)
    return {128, 64, 32, 32, /*chunks=*/4, stages}; // of 32 sums a lane, which leaves registers for more waves
  // RDNA has 256 registers a lane: eight warps leave room for loads that are on their way while a tile is multiplied.
  if (isLarge && architecture.vendor == Vendor::Amd && architecture.warpSize == 32)
    return {128, 128, 64, 32, /*chunks=*/4, stages};
  if (isLarge)
    return {128, 128, 64, 64, /*chunks=*/4, stages};
  MatrixTiles tiles = {64, 64, 32, 32, /*chunks=*/4, stages};
  if (size == TileSize::Least)
    tiles = {leastTileRows, 64, leastTileRows, 16, /*chunks=*/4, stages};
  // A tile of elements of 8 bits has twice as many.
  tiles.loadsAhead = multipliesFloats8(instruction) ? loadsOfFewRows / 2 : loadsOfFewRows;
  return tiles;
}

Factor MatrixLinearKernel::factorOf(Value matrix, Value rows, bool isRagged,
                                    std::function<Indices(Value row, Value k)> at) {
  Factor factor;
  factor.rows = rows;
  factor.isRagged = isRagged;
  factor.elements = [this, matrix, at](Value row, Value k, int64_t width) {
    return tensors.evaluate(matrix, at(row, k), width);
  };
  // What is widened only for its type is read as it is stored.
  Value stored = matrix;
  if (auto extend = stored.getDefiningOp<arith::ExtFOp>())
    stored = extend.getIn();
  std::optional<Storage> found = tensors.view(stored);
  // Panels have the type of what they are decoded to.
  if (found && found->dense && found->elementType == matrices.elementType() && !weights.panelsOf(stored))
    factor.address = matrices.addressOfRows(found->pointer, linear.depth());
  return factor;
}

Factor MatrixLinearKernel::inputFactor(Value rows) {
  if (auto conv = dyn_cast<nn::ConvOp>(root.getOperation())) {
    Factor factor;
    factor.rows = rows;
    factor.isRagged = true;
    factor.elements = [windows = WindowReads(function, tensors, conv)](Value row, Value k, int64_t width) mutable {
      return windows.elements(row, k, width);
    };
    return factor;
  }
  if (!input)
    return factorOf(root.getLeft(), rows, /*isRagged=*/true,
                    [&](Value row, Value k) { return linear.indicesAt(root.getLeft(), row, k); });
  Factor factor = TiledLinear::inputFactor(rows);
  if (areE4M3() && !multipliesFloats8(instruction))
    factor.elements = [this, rowAt = std::exchange(factor.address, nullptr)](Value row, Value k,
                                                                             int64_t width) -> Element {
      return memory.widenE4M3(memory.load(rowAt(row), k, b.getI8Type(), width), width);
    };
  return factor;
}

Value MatrixLinearKernel::floats8(ArrayRef<Value> words) {
  SmallVector<Value> elements;
  for (Value each : words) {
    if (instruction.element == MatrixElement::E4M3FNUZ) {
      // The pattern of -0 is that of 0 there, and NaN has that of -0. What is added stays inside of each byte.
      auto both = [&](Value a, Value other) -> Value { return make<arith::AndIOp>(a, other); };
      auto sum = [&](Value a, int64_t other) -> Value { return make<arith::AddIOp>(a, bytesOf(other)); };
      Value magnitude = both(each, bytesOf(0x7f));
      Value isNumber = both(sum(magnitude, 0x7f), bytesOf(0x80)), isNan = both(sum(magnitude, 1), bytesOf(0x80));
      each = both(each, make<arith::OrIOp>(isNumber, bytesOf(0x7f)));
      // 0x80 less 0x80 >> 7 has all bits of the magnitude.
      Value ofNan = make<arith::SubIOp>(isNan, make<arith::ShRUIOp>(isNan, word(7)));
      each = both(each, make<arith::XOrIOp>(ofNan, bytesOf(0xff)));
      each = make<arith::OrIOp>(each, isNan);
    }
    elements.push_back(each);
  }
  return make<vector::FromElementsOp>(VectorType::get({int64_t(elements.size())}, b.getI32Type()), elements);
}

Value MatrixLinearKernel::scaled(Value sums, Value row, Value column, int64_t width) {
  if (!input || !input->hasRowScales)
    return sums;
  // Both factors were half of what they mean.
  if (instruction.element == MatrixElement::E4M3FNUZ)
    sums = make<arith::MulFOp>(sums, floatConstant(4.0, b.getF32Type(), width));
  return scaledByRows(sums, row, column, width);
}

Factor MatrixLinearKernel::weightFactor(const MatrixTiles &tiles, Value, Value, Value firstColumn) {
  // A tile's depth is a step of panels, but for elements of 32 bits.
  if (!panelTiles.panels || tiles.chunks * matrices.chunkElements() % BlockPanels::stepDepth != 0)
    return factorOf(root.getRight(), constant(linear.features()), linear.features() % tiles.columns != 0,
                    [](Value row, Value k) { return Indices{{row}, {k, true}}; });
  auto storeUnits = [this, tiles](const Unit &unit, ArrayRef<Value> loaded, Value tile) {
    storeUnit(tiles, unit, loaded, tile);
  };
  Factor factor = panelTiles.factor(panelTiles.unitsOfWeight(tiles, firstColumn), storeUnits);
  // Tiles of the weight follow those of the input.
  factor.store = [this, tiles, store = factor.store](ArrayRef<Value> loaded, Value stage) {
    store(loaded, at(stage, weightBegin(tiles)));
  };
  return factor;
}

Value MatrixLinearKernel::decodeWord(Value bytes) {
  Type f32 = b.getF32Type();
  SmallVector<Value> elements;
  for (int64_t i = 0; i != wordDepth; ++i) {
    Value shifted = i ? make<arith::ShRUIOp>(bytes, word(8 * i)).getResult() : bytes;
    elements.push_back(make<arith::AndIOp>(shifted, word(0xff)));
  }
  Value four = make<vector::FromElementsOp>(VectorType::get({wordDepth}, b.getI32Type()), elements);
  if (panels.floatFormat())
    return weights.decodeFloatElements(panels, four, wordDepth);
  // The bits of 2^23 + element: exact, and cheaper than a conversion, which few units of a multiprocessor do.
  Value bits = make<arith::OrIOp>(four, splat(word(0x4b000000), wordDepth));
  Value shifted = make<arith::BitcastOp>(vectorOf(f32, wordDepth), bits);
  return make<arith::SubFOp>(shifted, floatConstant(double(1 << 23) + double(panels.integerOffset), f32, wordDepth));
}

bool MatrixLinearKernel::decodesInHalves() {
  // Integers and scales are exact in f16, so that their product is rounded as the f32 is that they have otherwise.
  return matrices.elementType().isF16() && panels.block && panels.scale == nn::BlockScale::F16 &&
         !panels.floatFormat() && !panels.hasMinima && !panels.scaleBits && !panels.headBytes;
}

Value MatrixLinearKernel::interleave(Value lower, Value upper, int32_t first) {
  if (architecture.vendor == Vendor::Amd) {
    // Bytes 0 to 3 are those of the second operand (CDNA 3 ISA, "V_PERM_B32"). LLVM finds this instruction for few
    // shuffles.
    Value selector = word(0x04000400 + first + ((first + 1) << 16));
    return matrices.callIntrinsic("llvm.amdgcn.perm", b.getI32Type(), {upper, lower, selector});
  }
  Type bytes = VectorType::get({wordDepth}, b.getI8Type());
  auto asBytes = [&](Value value) -> Value { return make<LLVM::BitcastOp>(bytes, value); };
  return LLVM::ShuffleVectorOp::create(b, loc, asBytes(lower), asBytes(upper), {first, 4, first + 1, 4});
}

Value MatrixLinearKernel::decodeHalves(ArrayRef<Value> words, Value scale) {
  // A byte below this one is an f16: 1024 more than the byte.
  constexpr int64_t upperByte = 0x64, base = 1024;
  Type f16 = b.getF16Type(), pair = VectorType::get({2}, f16);
  Value offset = floatConstant(double(base + panels.integerOffset), f16, 2);
  Value factor = splat(make<arith::TruncFOp>(f16, scale), 2);
  SmallVector<Value> elements;
  for (Value word : words)
    for (int32_t first : {0, 2}) {
      Value value = make<LLVM::BitcastOp>(pair, interleave(word, bytesOf(upperByte), first));
      value = make<arith::MulFOp>(make<arith::SubFOp>(value, offset), factor);
      for (int64_t i : {0, 1})
        elements.push_back(make<vector::ExtractOp>(value, i));
    }
  return make<vector::FromElementsOp>(VectorType::get({int64_t(elements.size())}, f16), elements);
}

Value MatrixLinearKernel::decodeFloats(ArrayRef<Value> words, Value scale, Value minimum) {
  SmallVector<Value> elements;
  for (Value word : words) {
    Value values = make<arith::MulFOp>(decodeWord(word), splat(scale, wordDepth));
    if (minimum)
      values = make<arith::AddFOp>(values, splat(minimum, wordDepth));
    for (int64_t i = 0; i != wordDepth; ++i)
      elements.push_back(make<vector::ExtractOp>(values, i));
  }
  Value wide = make<vector::FromElementsOp>(VectorType::get({matrices.chunkElements()}, b.getF32Type()), elements);
  return make<arith::TruncFOp>(vectorOf(matrices.elementType(), matrices.chunkElements()), wide);
}

void MatrixLinearKernel::storeUnit(const MatrixTiles &tiles, const Unit &unit, ArrayRef<Value> loaded, Value tile) {
  double factor = kernel::scaleFactor(panels) * kernel::elementFactor(panels);
  SmallVector<std::pair<Value, Value>> scales;
  // Sums get what holds for a whole row.
  Unit ofBlocks = unit;
  if (input)
    ofBlocks.head = Value();
  for (int64_t block = 0; block != panelTiles.blocksOfUnit(); ++block)
    scales.push_back(areE4M3() ? std::pair(floatConstant(factor, b.getF32Type(), 1), Value())
                               : panelTiles.scalesOfUnit(ofBlocks, loaded, block, factor));
  int64_t wordsOfChunk = matrices.chunkElements() / wordDepth, chunksOfUnit = BlockPanels::words / wordsOfChunk;
  for (int64_t chunk = 0; chunk != chunksOfUnit; ++chunk) {
    auto [scale, minimum] = scales[size_t(chunk * panelTiles.blocksOfUnit() / chunksOfUnit)];
    SmallVector<Value> words;
    for (int64_t i = 0; i != wordsOfChunk; ++i)
      words.push_back(panelTiles.unpackWord(loaded, chunk * wordsOfChunk + i));
    Value narrow = multipliesFloats8(instruction) ? floats8(words)
                   : decodesInHalves()            ? decodeHalves(words, scale)
                                                  : decodeFloats(words, scale, minimum);
    Value ofRow = add(mul(unit.step, constant(chunksOfUnit)), constant(chunk));
    make<LLVM::StoreOp>(narrow, panelTiles.chunkPointer(tiles, tile, unit.row, ofRow), 16);
  }
}

} // namespace intarsia::gpu
