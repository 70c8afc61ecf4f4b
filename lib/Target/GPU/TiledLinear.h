//===- TiledLinear.h - Linears by tiles of matrix instructions --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_TILEDLINEAR_H
#define INTARSIA_LIB_TARGET_GPU_TILEDLINEAR_H

#include "lib/Target/GPU/LinearResults.h"
#include "lib/Target/GPU/MatrixEmitter.h"

namespace intarsia::gpu {

struct QuantizedRows;

/// Rows of the least tiles: what one instruction multiplies, but for those of four warps.
inline constexpr int64_t leastTileRows = 16;

/// Tiles of weights that are loaded ahead where rows are few, so that reading weights takes the time: a multiprocessor
/// needs 10 to 40 KB on their way to use its share of the memory's bandwidth (latency times bandwidth: 0.6 us at 2 to 8
/// TB/s of 100 to 150 multiprocessors), and a block's tile of 4 bits has 1 to 2 KB.
inline constexpr int64_t loadsOfFewRows = 4;

/// A linear by matrix instructions, and the elementwise ops behind it: a block computes a tile. What is multiplied is
/// what derived classes say.
class TiledLinear : public LinearResults<MatrixEmitter> {
public:
  TiledLinear(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture,
              const MatrixInstruction &instruction, RowRange rowRange)
      : LinearResults(root, kernel, architecture, instruction), rowRange(rowRange) {}

protected:
  /// Sizes of tiles: of leastTileRows, of a few times as many, and such as read little memory for each sum.
  enum class TileSize { Least, Small, Large };
  virtual MatrixTiles tilesFor(TileSize size) const = 0;
  /// Emits the product of this block.
  virtual mlir::FailureOr<llvm::SmallVector<mlir::Value>> multiplyTile(const MatrixTiles &tiles, mlir::Value rows,
                                                                       mlir::Value firstRow, mlir::Value firstColumn,
                                                                       TileRange range) = 0;
  /// How blocks share the depth of a product of few tiles.
  struct Split {
    mlir::AffineExpr parts, tilesOfPart; ///< of the depth
    mlir::AffineExpr isUsed;             ///< 1 if there are several parts, else 0
  };
  /// A product, for some of the numbers of rows.
  struct Product {
    MatrixTiles tiles;
    mlir::AffineExpr rowTiles;
    int64_t columnTiles;
    mlir::AffineExpr isUsed;    ///< 1 for those numbers of rows, else 0
    std::optional<Split> split; ///< nothing if it is not split, whatever the number of rows is

    /// Returns the tiles of all parts; none for other numbers of rows.
    mlir::AffineExpr tileCount() const {
      mlir::AffineExpr all = rowTiles * columnTiles;
      return (split ? all * split->parts : all) * isUsed;
    }
  };
  /// A tile of a part of a product.
  struct TileOfProduct {
    mlir::Value firstRow, firstColumn, part;
    TileRange range;
  };
  /// Emits the function that computes a product, or its parts. Here a block computes a tile.
  virtual mlir::LogicalResult emitProduct(const Product &product);
  /// Begins the function of a product.
  void beginProduct(const Product &product, int64_t threads, mlir::AffineExpr blocks,
                    llvm::ArrayRef<TensorMapShape> tensorMaps = {});
  TileOfProduct tileOf(const Product &product, mlir::Value rowTile, mlir::Value columnTile, mlir::Value part);
  /// Stores the results of a tile, or the sums of its part; by way of a window of the warp, or the memory of the tiles.
  mlir::LogicalResult storeTile(const Product &product, const TileOfProduct &tile, llvm::ArrayRef<mlir::Value> sums,
                                std::optional<SumsWindow> window = std::nullopt);
  /// Returns tiles along the depth.
  int64_t depthTiles(const MatrixTiles &tiles) {
    return llvm::divideCeil(multipliedDepth(), tiles.chunks * chunkElements());
  }
  /// Returns what is multiplied along the depth, with zeros behind its end.
  virtual int64_t multipliedDepth() { return depth(); }
  /// Returns where scratch of the kernel begins that no launch before this one writes.
  virtual mlir::AffineExpr scratchBegin() { return number(0); }

  // Tiles of weights in panels (PanelTiles.cpp).
  /// What a thread copies of each tile: a step of 32 elements of a row.
  struct Unit {
    mlir::Value row, step;   ///< in the tile
    mlir::Value ofMatrix;    ///< row of the matrix
    mlir::Value panel, head; ///< of the weight; the scale in the head is null if there is none
  };
  /// Returns the units of a thread of a tile of rows, of which those below `end` are computed.
  llvm::SmallVector<Unit> unitsOf(const MatrixTiles &tiles, int64_t rows, mlir::Value firstRow, mlir::Value end);
  llvm::SmallVector<Unit> unitsOfWeight(const MatrixTiles &tiles, const BlockPanels &panels, mlir::Value firstColumn);
  /// Appends what is stored of a unit of the tile at `k`: lines, then scales of its blocks.
  void loadUnit(const BlockPanels &panels, const Unit &unit, mlir::Value k, llvm::SmallVectorImpl<mlir::Value> &loaded);
  /// Returns the four elements of a word as they are stored: unsigned, in bytes.
  mlir::Value unpackWord(const BlockPanels &panels, llvm::ArrayRef<mlir::Value> loaded, int64_t number);
  /// Returns what the elements of a block of the unit are multiplied by, `factor` included, and what is added then, or
  /// null.
  std::pair<mlir::Value, mlir::Value> scalesOfUnit(const BlockPanels &panels, const Unit &unit,
                                                   llvm::ArrayRef<mlir::Value> loaded, int64_t block, double factor);
  /// Returns sums by the scale of their row of the input, and by those that their columns have in the heads of panels.
  mlir::Value scaledByRows(const QuantizedRows &input, const BlockPanels &panels, mlir::Value sums, mlir::Value row,
                           mlir::Value column, int64_t width);
  /// Returns the blocks of a unit: two where they are shorter than a step.
  static int64_t blocksOfUnit(const BlockPanels &panels) {
    return panels.block && panels.block < BlockPanels::stepDepth ? BlockPanels::stepDepth / panels.block : 1;
  }
  /// Returns where a chunk of a row lies in a tile.
  mlir::Value chunkPointer(const MatrixTiles &tiles, mlir::Value tile, mlir::Value row, mlir::Value chunk);

  mlir::Value word(int64_t value); ///< i32
  /// Returns i32 with the same value in each byte.
  mlir::Value bytesOf(int64_t each) { return word(int64_t(uint32_t(each) * 0x01010101u)); }

  mlir::AffineExpr number(int64_t value) { return mlir::getAffineConstantExpr(value, b.getContext()); }

private:
  mlir::LogicalResult run() override;
  /// Emits the functions for some of the numbers of rows that the emitter is for. The depth of products of few tiles
  /// may be split.
  mlir::LogicalResult emitTiles(TileSize tileSize, RowRange rowsOfSize);
  /// Returns how the product is split; nothing if it is not, whatever the number of rows is.
  std::optional<Split> splitOf(const MatrixTiles &tiles);
  int64_t bestParts(const MatrixTiles &tiles);
  /// Emits the function that adds up the parts of sums.
  mlir::LogicalResult emitSumOfParts(const Split &split);
  /// Returns where parts of sums are in scratch, and the number of an element there.
  mlir::Value partials() { return kernelScratch(scratchBegin()); }
  mlir::Value elementOfPart(mlir::Value part, mlir::Value row, mlir::Value column);

  RowRange rowRange;
};

} // namespace intarsia::gpu

#endif
