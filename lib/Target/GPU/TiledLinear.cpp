//===- TiledLinear.cpp - Linears by tiles of matrix instructions ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/TiledLinear.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

/// The most parts: sums of each are written and read once more.
static constexpr int64_t mostParts = 16;
/// Blocks of a multiprocessor that wait in turns for what they load: from one to four of them, products of 16 to 64
/// rows by six weights in INT4 (256 to 32,000 features, depths of 2,048 to 5,632) become 2.4 to 6 times faster on an
/// H200, and not faster with more.
static constexpr int64_t blocksOfFewTiles = 4;
/// Threads of a block that adds up parts, and elements that one takes: 16 bytes.
static constexpr int64_t threadsOfSum = 256, widestVector = 4;

/// Returns an expression that is 1 for numbers of rows in a range, else 0.
static AffineExpr isIn(AffineExpr rows, RowRange range) {
  AffineExpr result = isAtMost(rows, range.most);
  if (range.most == RowRange().most)
    result = getAffineConstantExpr(1, rows.getContext());
  return range.above == 0 ? result : result - isAtMost(rows, range.above);
}

void TiledLinear::chooseShape(KernelShape &shape) {
  shape.state("kernel", name);
  shape.state("instruction", nameOf(instruction));
  // Large tiles read less memory for each sum, but they must be enough for most multiprocessors to have one.
  MatrixTiles large = tilesFor(TileSize::Large), small = tilesFor(TileSize::Small);
  int64_t columnTiles = llvm::divideCeil(linear.features(), large.columns);
  int64_t rowTiles = llvm::divideCeil(architecture.multiprocessors / 2, columnTiles);
  int64_t mostOfSmall = std::max(small.rows, (rowTiles - 1) * large.rows);
  RowRange ranges[] = {{0, leastTileRows}, {leastTileRows, mostOfSmall}, {mostOfSmall}};
  static constexpr StringLiteral names[] = {"least", "small", "large"};
  for (TileSize size : {TileSize::Least, TileSize::Small, TileSize::Large}) {
    RowRange rows = {std::max(rowRange.above, ranges[int(size)].above),
                     std::min(rowRange.most, ranges[int(size)].most)};
    if (rows.above >= rows.most || isIn(linear.rowsOfLinear(), rows) == number(0))
      continue;
    SizedTiles sized = {size, rows, tilesFor(size), 1};
    shape.part(names[int(size)], [&](KernelShape &part) {
      part.state("rows_above", rows.above);
      if (rows.most != RowRange().most)
        part.state("rows_most", rows.most);
      matrices.chooseTiles(part, sized.tiles, bytesBeside);
      if (size == TileSize::Large)
        return;
      sized.parts = bestParts(sized.tiles);
      part.choose("depth_parts", sized.parts, {1, mostParts});
    });
    sizes.push_back(sized);
  }
}

LogicalResult TiledLinear::run() {
  return success(llvm::all_of(sizes, [&](const SizedTiles &sized) { return succeeded(emitTiles(sized)); }));
}

MatrixTiles TiledLinear::quantizedTiles(TileSize size, int64_t chunks, int64_t columnsOfLarge, int64_t shorter) const {
  int64_t stages = architecture.vendor == Vendor::Amd ? 2 : 3;
  MatrixTiles tiles = {64, 64, 32, 32, chunks, stages};
  if (size == TileSize::Least)
    tiles = {leastTileRows, 64, leastTileRows, 16, chunks, stages};
  else if (size == TileSize::Large)
    tiles = {128, 128, 64, columnsOfLarge, chunks, stages};
  tiles.loadsAhead = size == TileSize::Large ? 1 : loadsOfFewRows / shorter;
  return tiles;
}

Factor TiledLinear::inputFactor(Value rows) {
  Factor factor;
  factor.rows = rows;
  factor.isRagged = true;
  Value values = function.kernelScratch(number(0));
  factor.address = [this, values](Value row) {
    return memory.at(values, mul(row, constant(input->rowBytes())), b.getI8Type());
  };
  return factor;
}

Value TiledLinear::scaledByRows(Value sums, Value row, Value column, int64_t width) {
  Value ofColumns = panelTiles.scalesOfColumns(column, width);
  Value ofRow = memory.load(function.kernelScratch(input->scalesBegin()), row, b.getF32Type(), 1);
  return make<arith::MulFOp>(make<arith::MulFOp>(sums, splat(ofRow, width)), ofColumns);
}

GpuKernelShape TiledLinear::shapeOf(int64_t rows) {
  GpuKernelShape shape;
  shape.rows = double(rows);
  shape.columns = double(linear.features());
  shape.depth = double(linear.depth());
  shape.inputBytes = 16.0 / double(matrices.chunkElements());
  shape.weightBytes = double(getElementTypeOrSelf(root.getRight()).getIntOrFloatBitWidth()) / 8;
  if (const std::optional<BlockPanels> &panels = panelTiles.panels)
    shape.weightBytes = double(panels->panelBytes()) / double(BlockPanels::rows * linear.depth());
  shape.outputBytes = 4;
  return shape;
}

/// Returns the catalogue's name of what an instruction multiplies.
static StringRef catalogueType(const MatrixInstruction &instruction) {
  bool hasHalves = instruction.element == MatrixElement::F16 || instruction.element == MatrixElement::BF16;
  return instruction.element == MatrixElement::I8 ? "int8"
         : multipliesFloats8(instruction)         ? "fp8"
         : multipliesE2M1(instruction)            ? "fp4"
         : hasHalves                              ? "bf16"
                                                  : "f32";
}

/// Returns times of kernels: the catalogue is part of the program, and has a device for each architecture.
static GpuCosts costsOf(const Architecture &architecture) {
  return llvm::cantFail(GpuCosts::create(*llvm::cantFail(findDevice(architecture.device))));
}

double TiledLinear::microseconds(int64_t rows, const GpuShare &share) {
  return costsOf(architecture).sharedUs(shapeOf(rows), catalogueType(instruction), share);
}

/// Returns into how many parts the depth of products of one row of tiles is best split: so many that each
/// multiprocessor has as many blocks as fit, but no more than `blocksOfFewTiles`.
int64_t TiledLinear::bestParts(const MatrixTiles &tiles) {
  int64_t columnTiles = llvm::divideCeil(linear.features(), tiles.columns);
  int64_t most = std::clamp<int64_t>(linear.depth() / leastDepthOfPart, 1, mostParts);
  int64_t blocks = std::clamp<int64_t>(architecture.sharedBytes / matrices.sharedBytesOf(tiles), 1, blocksOfFewTiles);
  return std::clamp<int64_t>(blocks * architecture.multiprocessors / columnTiles, 1, most);
}

std::optional<TiledLinear::Split> TiledLinear::splitOf(const MatrixTiles &tiles, int64_t most, AffineExpr rowTiles) {
  if (most == 1)
    return std::nullopt;
  // As many blocks in all where there are more rows of tiles. Divisors are at least 1.
  AffineExpr share = number(most).floorDiv(rowTiles + isAtMost(rowTiles, 0)), wanted = share + isAtMost(share, 0);
  AffineExpr all = number(depthTiles(tiles));
  Split split;
  split.most = most;
  split.tilesOfPart = all.ceilDiv(wanted);
  split.parts = all.ceilDiv(split.tilesOfPart);
  split.isUsed = number(1) - isAtMost(split.parts, 1);
  if (split.isUsed == number(0))
    return std::nullopt;
  return split;
}

Value TiledLinear::elementOfPart(Value part, Value row, Value column) {
  Value rows = linear.rows();
  return add(mul(add(mul(part, rows), row), constant(linear.features())), column);
}

LogicalResult TiledLinear::emitTiles(const SizedTiles &sized) {
  const MatrixTiles &tiles = sized.tiles;
  AffineExpr isUsed = isIn(linear.rowsOfLinear(), sized.rows), rowTiles = linear.rowsOfLinear().ceilDiv(tiles.rows);
  Product product = {tiles,
                     rowTiles,
                     int64_t(llvm::divideCeil(linear.features(), tiles.columns)),
                     isUsed,
                     splitOf(tiles, sized.parts, rowTiles),
                     std::nullopt};
  if (std::optional<Stream> stream = streamOf(product, sized.rows)) {
    Product streamed = product;
    streamed.split = std::nullopt;
    streamed.isUsed = isUsed * stream->isUsed;
    streamed.stream = std::move(stream);
    if (failed(emitProduct(streamed)))
      return failure();
    product.isUsed = product.isUsed - streamed.isUsed;
    if (product.isUsed == number(0))
      return success(); // the number of rows is known
  }
  if (product.split)
    product.split->isUsed = product.split->isUsed * product.isUsed;
  if (failed(emitProduct(product)))
    return failure();
  return product.split ? emitSumOfParts(*product.split) : success();
}

void TiledLinear::beginProduct(const Product &product, int64_t threads, AffineExpr blocks,
                               ArrayRef<TensorMapShape> tensorMaps) {
  function.beginLaunch(threads, blocks, tensorMaps);
  if (const std::optional<Split> &split = product.split)
    function.setLaunchScratch(split->isUsed * split->parts * linear.rowsOfLinear() * (linear.features() * 4));
}

TiledLinear::TileOfProduct TiledLinear::tileOf(const Product &product, Value rowTile, Value columnTile, Value part) {
  TileOfProduct tile = {mul(rowTile, constant(product.tiles.rows)),
                        mul(columnTile, constant(product.tiles.columns)),
                        part,
                        TileRange(),
                        Value(),
                        nullptr};
  if (const std::optional<Split> &split = product.split) {
    tile.range.begin = mul(part, function.size(split->tilesOfPart));
    tile.range.end = min(add(tile.range.begin, function.size(split->tilesOfPart)), constant(depthTiles(product.tiles)));
  }
  return tile;
}

LogicalResult TiledLinear::storeTile(const Product &product, const TileOfProduct &tile, ArrayRef<Value> sums,
                                     std::optional<SumsWindow> window) {
  Value rows = linear.rows();
  auto storePart = [&](Value row, Value column, int64_t width, const SumsFn &read) -> LogicalResult {
    auto store = [&] { return linear.storeResults(row, column, width, read); };
    if (!product.split && !product.stream)
      return store();
    return ifThen(
        product.split ? less(constant(1), function.size(product.split->parts)) : tile.isPart,
        [&]() -> LogicalResult {
          Value element = product.split ? elementOfPart(tile.part, row, column) : tile.elementOfPart(row, column);
          memory.store(read(column, width), partials(), element, b.getF32Type(), width);
          return success();
        },
        store);
  };
  return matrices.storeSums(product.tiles, sums, tile.firstRow, tile.firstColumn, rows, constant(linear.features()),
                            storePart, window);
}

LogicalResult TiledLinear::emitProduct(const Product &product) {
  beginProduct(product, product.tiles.warps() * architecture.warpSize, product.tileCount());
  if (int32_t blocks = product.tiles.blocksOfMultiprocessor)
    function.planRegistersFor(blocks);
  Value rows = linear.rows();
  Value parts = product.split ? function.size(product.split->parts) : constant(1), number = div(function.block, parts);
  Value columnTiles = constant(product.columnTiles);
  TileOfProduct tile = tileOf(product, div(number, columnTiles), rem(number, columnTiles), rem(function.block, parts));
  LogicalResult emitted = function.alone([&]() -> LogicalResult {
    FailureOr<SmallVector<Value>> sums = matrices.multiply(
        product.tiles, inputFactor(rows), weightFactor(product.tiles, rows, tile.firstRow, tile.firstColumn),
        tile.firstRow, tile.firstColumn, constant(multipliedDepth()), tile.range);
    return failed(sums) ? failure() : storeTile(product, tile, *sums);
  });
  if (failed(emitted))
    return failure();
  function.endLaunch();
  return success();
}

LogicalResult TiledLinear::emitSumOfParts(const Split &split) {
  int64_t width = linear.features() % widestVector == 0 ? widestVector : 1;
  AffineExpr vectors = linear.rowsOfLinear() * (linear.features() / width);
  function.beginLaunch(threadsOfSum, vectors.ceilDiv(threadsOfSum) * split.isUsed);
  Value number = add(mul(function.block, constant(threadsOfSum)), function.thread);
  Value row = div(number, constant(linear.features() / width)),
        column = mul(rem(number, constant(linear.features() / width)), constant(width));
  auto sums = [&](Value at, int64_t count) -> Value {
    // Parts are added in their order, so that results are always the same.
    auto load = [&](Value part) {
      return memory.load(partials(), elementOfPart(part, row, at), b.getF32Type(), count);
    };
    return forLoop(
        constant(1), function.size(split.parts), constant(1), load(constant(0)),
        [&](Value part, ValueRange sum) { return SmallVector<Value>{make<arith::AddFOp>(sum[0], load(part))}; })[0];
  };
  LogicalResult emitted = function.alone([&] {
    return ifThen(less(number, function.size(vectors)), [&] { return linear.storeResults(row, column, width, sums); });
  });
  if (failed(emitted))
    return failure();
  function.endLaunch();
  return success();
}

} // namespace intarsia::gpu
