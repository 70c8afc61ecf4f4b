//===- TiledLinear.h - Linears by tiles of matrix instructions --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_TILEDLINEAR_H
#define INTARSIA_LIB_TARGET_GPU_TILEDLINEAR_H

#include "intarsia/Cost/GpuKernels.h"
#include "lib/Target/GPU/KernelEmitter.h"
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

/// The least depth of a part of sums: shorter ones mostly fill and drain the pipeline of tiles, whose time is that of a
/// depth of 90 to 190 in kernels that were measured (`prologue` of catalogue/efficiency/gpu-kernels.yaml).
inline constexpr int64_t leastDepthOfPart = 256;

/// A linear by matrix instructions, and the elementwise ops behind it: a block computes a tile. What is multiplied is
/// what derived classes say.
class TiledLinear : public KernelEmitter {
public:
  TiledLinear(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture,
              const MatrixInstruction &instruction, RowRange rowRange)
      : KernelEmitter(kernel, architecture), root(root), instruction(instruction), rowRange(rowRange) {}

protected:
  friend class StreamedLinear;

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
  /// How blocks share tiles that fill no whole number of waves (StreamedLinear.h). A block computes `wholeWaves` tiles;
  /// the depths of those that are left follow each other, and each block computes as many steps of them.
  struct Stream {
    mlir::AffineExpr wholeWaves, restTiles, stepsOfBlock;
    mlir::AffineExpr isUsed; ///< 1 for those numbers of rows for which this is fastest, else 0
    std::string why;         ///< with times
  };
  /// A product, for some of the numbers of rows.
  struct Product {
    MatrixTiles tiles;
    mlir::AffineExpr rowTiles;
    int64_t columnTiles;
    mlir::AffineExpr isUsed;    ///< 1 for those numbers of rows, else 0
    std::optional<Split> split; ///< nothing if it is not split, whatever the number of rows is
    std::optional<Stream> stream;

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
    // Of a stream:
    mlir::Value isPart; ///< other blocks have other parts of the tile's depth
    std::function<mlir::Value(mlir::Value row, mlir::Value column)> elementOfPart; ///< where sums of a part are
  };
  /// Emits the function that computes a product, or its parts; of a stream, also the one that adds them up. Here a
  /// block computes a tile.
  virtual mlir::LogicalResult emitProduct(const Product &product);
  /// Begins the function of a product.
  void beginProduct(const Product &product, int64_t threads, mlir::AffineExpr blocks,
                    llvm::ArrayRef<TensorMapShape> tensorMaps = {});
  TileOfProduct tileOf(const Product &product, mlir::Value rowTile, mlir::Value columnTile, mlir::Value part);
  /// Returns how blocks may share the tiles of a product; nothing if they never do.
  virtual std::optional<Stream> streamOf(const Product & /*product*/, RowRange /*rows*/) { return std::nullopt; }
  /// Stores the results of a tile, or the sums of its part; by way of a window of the warp, or the memory of the tiles.
  mlir::LogicalResult storeTile(const Product &product, const TileOfProduct &tile, llvm::ArrayRef<mlir::Value> sums,
                                std::optional<SumsWindow> window = std::nullopt);
  /// Returns tiles along the depth.
  int64_t depthTiles(const MatrixTiles &tiles) {
    return llvm::divideCeil(multipliedDepth(), tiles.chunks * matrices.chunkElements());
  }
  /// Returns what is multiplied along the depth, with zeros behind its end.
  virtual int64_t multipliedDepth() { return linear.depth(); }
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

  /// Returns how the product of a number of rows of tiles is split; nothing if it is not, whatever that number is.
  std::optional<Split> splitOf(const MatrixTiles &tiles, mlir::AffineExpr rowTiles);
  /// Returns microseconds of the product of so many rows by the formula of GPU kernels.
  double microseconds(int64_t rows, const GpuShare &share);
  /// Returns where parts of sums are in scratch.
  mlir::Value partials() { return function.kernelScratch(scratchBegin()); }

  nn::LinearOp root;
  const MatrixInstruction &instruction;
  MatrixEmitter matrices{function, tensors, instruction};
  LinearResults linear{function, tensors, root};
  PanelEmitter weights{function};

private:
  mlir::LogicalResult run() override;
  /// Emits the functions for some of the numbers of rows that the emitter is for. The depth of products of few tiles
  /// may be split.
  mlir::LogicalResult emitTiles(TileSize tileSize, RowRange rowsOfSize);
  /// What that formula takes.
  GpuKernelShape shapeOf(int64_t rows);
  int64_t bestParts(const MatrixTiles &tiles);
  /// Emits the function that adds up the parts of sums.
  mlir::LogicalResult emitSumOfParts(const Split &split);
  mlir::Value elementOfPart(mlir::Value part, mlir::Value row, mlir::Value column);

  RowRange rowRange;
};

} // namespace intarsia::gpu

#endif
