//===- StreamedLinear.h - Linears whose blocks share the last wave of tiles -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Stream-K (Osama et al., arXiv 2301.03598). As many blocks as multiprocessors compute whole waves of tiles. The depths
// of the tiles that are left follow each other, and each block gets an equal share of their steps, which begins and
// ends anywhere in a tile. If a share would be too short, fewer blocks get one. Sums of a part of a depth go to
// scratch, and a second launch adds up those of a tile in the order of its blocks, so that results are always the same.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_STREAMEDLINEAR_H
#define INTARSIA_LIB_TARGET_GPU_STREAMEDLINEAR_H

#include "lib/Target/GPU/TiledLinear.h"

namespace intarsia::gpu {

/// A linear by persistent blocks, as many as multiprocessors, which may share tiles.
class StreamedLinear : public LoopEmitter {
public:
  using Product = TiledLinear::Product;
  using Stream = TiledLinear::Stream;
  using TileOfProduct = TiledLinear::TileOfProduct;

  explicit StreamedLinear(TiledLinear &tiled)
      : LoopEmitter(tiled.function), architecture(tiled.architecture), function(tiled.function), memory(tiled.function),
        tiled(tiled) {}

  /// What a block of a stream computes.
  struct ShareOfBlock {
    mlir::Value waves;      ///< tiles of whole waves
    mlir::Value parts;      ///< of the tiles that are left
    mlir::Value begin, end; ///< steps of these
  };

  std::optional<Stream> streamOf(const Product &product, RowRange rows);
  ShareOfBlock shareOfBlock(const Product &product);
  /// Returns one of the tiles and parts of this block, in their order, by the function that says where the tile with a
  /// number is.
  TileOfProduct tileOfShare(const Product &product, const ShareOfBlock &share, mlir::Value item,
                            llvm::function_ref<TileOfProduct(mlir::Value number)> tileAt);
  /// Says on the function how much scratch it uses for sums of parts, and why it shares tiles.
  void reserveParts(const Product &product);
  /// Emits the function that adds up parts.
  mlir::LogicalResult emitSumOfStream(const Product &product,
                                      llvm::function_ref<TileOfProduct(mlir::Value number)> tileAt);

private:
  /// Times of a number of rows of tiles.
  struct Times {
    double streamed, otherwise; ///< in microseconds
  };
  /// Returns the fewest steps of a share.
  int64_t leastSteps(const MatrixTiles &tiles) const;
  Times timesOf(const Product &product, int64_t rowTiles);
  /// Returns the number of an element in the scratch of parts. Parts count on from block to block and from tile to
  /// tile: no two have the same sum of both numbers.
  mlir::Value elementOfPart(const Product &product, mlir::Value part, mlir::Value row, mlir::Value column);

  const Architecture &architecture;
  FunctionEmitter &function;
  MemoryEmitter memory;
  TiledLinear &tiled;
};

} // namespace intarsia::gpu

#endif
