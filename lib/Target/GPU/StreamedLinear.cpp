//===- StreamedLinear.cpp - Linears whose blocks share the last wave of tiles ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/StreamedLinear.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace intarsia::gpu {

/// The most whole waves in front of tiles that blocks share: behind five the last wave is at most a sixth of the time,
/// of which the sum over parts takes some.
static constexpr int64_t mostWholeWaves = 4;
/// What sharing has to save: the median error of the formula for linears in bf16 on devices that it was fitted to
/// (catalogue/efficiency/gpu-kernels.yaml) is 4 to 8 %.
static constexpr double leastSaving = 0.05;
/// Threads of a block that adds up parts, and elements that one takes: 16 bytes.
static constexpr int64_t threadsOfSum = 256, widestVector = 4;

int64_t StreamedLinear::leastSteps(const MatrixTiles &tiles) const {
  return llvm::divideCeil(leastDepthOfPart, tiles.chunks * tiled.matrices.chunkElements());
}

StreamedLinear::Times StreamedLinear::timesOf(const Product &product, int64_t rowTiles) {
  const MatrixTiles &tiles = product.tiles;
  int64_t blocks = architecture.multiprocessors, steps = tiled.depthTiles(tiles);
  int64_t all = rowTiles * product.columnTiles, waves = all / blocks, rest = all % blocks;
  auto timeOf = [&](int64_t tilesOfBlock, int64_t stepsOfBlock, int64_t partials) {
    double depth = double(stepsOfBlock * tiles.chunks * tiled.matrices.chunkElements());
    return tiled.microseconds(rowTiles * tiles.rows, {double(tiles.rows), double(tiles.columns), double(tilesOfBlock),
                                                      depth, double(partials)});
  };
  int64_t parts = 1, stepsOfPart = steps;
  if (std::optional<TiledLinear::Split> split =
          product.split ? tiled.splitOf(tiles, product.split->most, tiled.number(rowTiles)) : std::nullopt) {
    parts = cast<AffineConstantExpr>(split->parts).getValue();
    stepsOfPart = cast<AffineConstantExpr>(split->tilesOfPart).getValue();
  }
  int64_t wavesOfParts = llvm::divideCeil(all * parts, blocks);
  Times times;
  times.otherwise = timeOf(wavesOfParts, wavesOfParts * stepsOfPart, parts > 1 ? all * parts : 0);
  int64_t share = std::max<int64_t>(llvm::divideCeil(rest * steps, blocks), leastSteps(tiles)), partials = 0;
  if (rest == 0) {
    times.streamed = times.otherwise;
    return times;
  }
  for (int64_t tile = 0; tile != rest; ++tile) {
    int64_t first = tile * steps / share, last = ((tile + 1) * steps - 1) / share;
    partials += last == first ? 0 : last - first + 1;
  }
  // A share that does not divide a tile's depth ends in one tile and begins in the one before.
  int64_t tilesOfShare = steps % share == 0 ? 1 : 1 + llvm::divideCeil(share, steps);
  times.streamed = timeOf(waves + tilesOfShare, waves * steps + std::min(share, rest * steps), partials);
  return times;
}

std::optional<StreamedLinear::Stream> StreamedLinear::streamOf(const Product &product, RowRange rows) {
  const MatrixTiles &tiles = product.tiles;
  int64_t blocks = architecture.multiprocessors, steps = tiled.depthTiles(tiles);
  AffineExpr isUsed = tiled.number(0);
  std::string why;
  std::optional<int64_t> begin;
  // Numbers of rows of tiles for which sharing is faster are few ranges: the rest of a wave grows from one to the next.
  int64_t last = (mostWholeWaves + 1) * blocks / product.columnTiles;
  if (rows.most < last * tiles.rows)
    last = int64_t(llvm::divideCeil(rows.most, tiles.rows));
  for (int64_t rowTiles = rows.above / tiles.rows + 1; rowTiles <= last + 1; ++rowTiles) {
    Times times = timesOf(product, rowTiles);
    bool isFaster = rowTiles <= last && times.streamed < (1 - leastSaving) * times.otherwise;
    if (isFaster && !begin) {
      begin = rowTiles;
      why += llvm::formatv("{0}{1} rows of tiles: {2:f1} us, {3:f1} otherwise", why.empty() ? "" : "; ", rowTiles,
                           times.streamed, times.otherwise);
    } else if (!isFaster && begin) {
      AffineExpr ofRange = isAtMost(product.rowTiles, rowTiles - 1);
      isUsed = isUsed + (*begin > 1 ? ofRange - isAtMost(product.rowTiles, *begin - 1) : ofRange);
      begin.reset();
    }
  }
  if (isUsed == tiled.number(0))
    return std::nullopt;
  AffineExpr all = product.rowTiles * product.columnTiles, rest = all % blocks;
  AffineExpr share = (rest * steps).ceilDiv(blocks), least = tiled.number(leastSteps(tiles));
  share = share + isAtMost(share, leastSteps(tiles) - 1) * (least - share);
  return Stream{all.floorDiv(blocks), rest, share, isUsed, why};
}

StreamedLinear::ShareOfBlock StreamedLinear::shareOfBlock(const Product &product) {
  const Stream &stream = *product.stream;
  Value steps = constant(tiled.depthTiles(product.tiles)), share = function.size(stream.stepsOfBlock);
  Value all = mul(function.size(stream.restTiles), steps), begin = min(mul(function.block, share), all);
  Value end = min(add(begin, share), all);
  return {function.size(stream.wholeWaves), sub(ceilDiv(end, steps), div(begin, steps)), begin, end};
}

StreamedLinear::TileOfProduct StreamedLinear::tileOfShare(const Product &product, const ShareOfBlock &share, Value item,
                                                          function_ref<TileOfProduct(Value number)> tileAt) {
  Value blocks = constant(architecture.multiprocessors), steps = constant(tiled.depthTiles(product.tiles));
  Value isWhole = less(item, share.waves);
  auto choose = [&](Value ofWhole, Value ofPart) -> Value { return select(isWhole, ofWhole, ofPart); };
  Value rest = add(div(share.begin, steps), sub(item, share.waves)), first = mul(rest, steps);
  Value number = choose(add(function.block, mul(item, blocks)), add(mul(share.waves, blocks), rest));
  TileOfProduct tile = tileAt(number);
  tile.range.begin = choose(constant(0), sub(max(share.begin, first), first));
  tile.range.end = choose(steps, min(sub(share.end, first), steps));
  tile.isPart = less(sub(tile.range.end, tile.range.begin), steps);
  Value part = add(function.block, rest);
  tile.elementOfPart = [this, &product, tile, part](Value row, Value column) {
    return elementOfPart(product, part, sub(row, tile.firstRow), sub(column, tile.firstColumn));
  };
  return tile;
}

Value StreamedLinear::elementOfPart(const Product &product, Value part, Value row, Value column) {
  Value ofRow = add(mul(part, constant(product.tiles.rows)), row);
  return add(mul(ofRow, constant(product.tiles.columns)), column);
}

void StreamedLinear::reserveParts(const Product &product) {
  AffineExpr parts = product.stream->restTiles + architecture.multiprocessors;
  function.setLaunchScratch(product.isUsed * parts * (product.tiles.rows * product.tiles.columns * 4));
  function.operation->setAttr(whyAttribute, b.getStringAttr(product.stream->why));
}

LogicalResult StreamedLinear::emitSumOfStream(const Product &product,
                                              function_ref<TileOfProduct(Value number)> tileAt) {
  const MatrixTiles &tiles = product.tiles;
  const Stream &stream = *product.stream;
  int64_t width = tiled.linear.features() % widestVector == 0 ? widestVector : 1;
  int64_t vectorsOfRow = tiles.columns / width, blocksOfTile = tiles.rows * vectorsOfRow / threadsOfSum;
  function.beginLaunch(threadsOfSum, stream.restTiles * blocksOfTile * product.isUsed);
  Value rest = div(function.block, constant(blocksOfTile)), steps = constant(tiled.depthTiles(tiles));
  TileOfProduct tile = tileAt(add(mul(function.size(stream.wholeWaves), constant(architecture.multiprocessors)), rest));
  Value vector = add(mul(rem(function.block, constant(blocksOfTile)), constant(threadsOfSum)), function.thread);
  Value rowOfTile = div(vector, constant(vectorsOfRow));
  Value row = add(tile.firstRow, rowOfTile);
  Value column = add(tile.firstColumn, mul(rem(vector, constant(vectorsOfRow)), constant(width)));
  // The blocks that have the tile's first step, and its last one.
  Value share = function.size(stream.stepsOfBlock), begin = mul(rest, steps);
  Value first = div(begin, share), last = div(sub(add(begin, steps), constant(1)), share);
  auto sums = [&](Value at, int64_t count) -> Value {
    auto load = [&](Value number) {
      Value element = elementOfPart(product, add(number, rest), rowOfTile, sub(at, tile.firstColumn));
      return memory.load(tiled.partials(), element, b.getF32Type(), count);
    };
    return forLoop(
        add(first, constant(1)), add(last, constant(1)), constant(1), load(first),
        [&](Value number, ValueRange sum) { return SmallVector<Value>{make<arith::AddFOp>(sum[0], load(number))}; })[0];
  };
  Value rows = tiled.linear.rows();
  Value isInside = make<arith::AndIOp>(less(row, rows), less(column, constant(tiled.linear.features())));
  // A tile that one block has is stored by that one.
  isInside = make<arith::AndIOp>(isInside, less(first, last));
  LogicalResult emitted = function.alone(
      [&] { return ifThen(isInside, [&] { return tiled.linear.storeResults(row, column, width, sums); }); });
  if (failed(emitted))
    return failure();
  function.endLaunch();
  return success();
}

} // namespace intarsia::gpu
