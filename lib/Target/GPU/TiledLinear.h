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
#include "lib/Target/GPU/PanelTiles.h"
#include "lib/Target/GPU/QuantizedRows.h"

namespace intarsia::gpu {

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
  TiledLinear(rt::KernelOp kernel, ContractionOpInterface root, llvm::StringRef name, const Architecture &architecture,
              const MatrixInstruction &instruction, RowRange rowRange, const QuantizedRows *input = nullptr)
      : KernelEmitter(kernel, architecture), root(root), name(name), instruction(instruction),
        input(input ? std::optional(*input) : std::nullopt), rowRange(rowRange) {}

protected:
  friend class StreamedLinear;

  /// Sizes of tiles: of leastTileRows, of a few times as many, and such as read little memory for each sum.
  enum class TileSize { Least, Small, Large };
  virtual MatrixTiles tilesFor(TileSize size) const = 0;
  /// Returns tiles of quantized rows, whose elements are `shorter` times as many as those of floats in as many bytes.
  MatrixTiles quantizedTiles(TileSize size, int64_t chunks, int64_t columnsOfLarge, int64_t shorter) const;
  /// Returns the input as a factor. Here it is quantized, and multiplied as it lies in scratch.
  virtual Factor inputFactor(mlir::Value rows);
  /// Returns the weight as a factor, and what stages have beside it.
  virtual Factor weightFactor(const MatrixTiles &tiles, mlir::Value rows, mlir::Value firstRow,
                              mlir::Value firstColumn) = 0;
  /// How blocks share the depth of a product of few tiles.
  struct Split {
    mlir::AffineExpr parts, tilesOfPart; ///< of the depth
    mlir::AffineExpr isUsed;             ///< 1 if there are several parts, else 0
    int64_t most;                        ///< parts of the depth of one row of tiles
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
  int64_t multipliedDepth() { return input ? input->paddedDepth() : linear.depth(); }
  /// Returns where scratch of the kernel begins that no launch before this one writes.
  mlir::AffineExpr scratchBegin() { return input ? input->bytes() : number(0); }
  /// Returns sums by the scale of their row of the input, and by those that their columns have in the heads of panels.
  mlir::Value scaledByRows(mlir::Value sums, mlir::Value row, mlir::Value column, int64_t width);

  // Offsets in a stage: rows of the input, those of the weight, and what kernels have behind them.
  static int64_t weightBegin(const MatrixTiles &tiles) { return tiles.rows * tiles.chunks * chunkBytes; }
  static int64_t scalesBegin(const MatrixTiles &tiles) {
    return (tiles.rows + tiles.columns) * tiles.chunks * chunkBytes;
  }
  mlir::Value at(mlir::Value pointer, int64_t bytes) { return memory.at(pointer, constant(bytes), b.getI8Type()); }
  bool isMma() const { return instruction.family == MatrixFamily::Mma; }

  /// Returns how the product of a number of rows of tiles is split; nothing if it is not, whatever that number is.
  std::optional<Split> splitOf(const MatrixTiles &tiles, int64_t most, mlir::AffineExpr rowTiles);
  /// Returns microseconds of the product of so many rows by the formula of GPU kernels.
  double microseconds(int64_t rows, const GpuShare &share);
  /// Returns where parts of sums are in scratch.
  mlir::Value partials() { return function.kernelScratch(scratchBegin()); }

  ContractionOpInterface root;
  llvm::StringRef name;    ///< in the kernel's shape
  int64_t bytesBeside = 0; ///< of shared memory that a block takes beside its stages
  const MatrixInstruction &instruction;
  MatrixEmitter matrices{function, tensors, instruction};
  LinearResults linear{function, tensors, root};
  PanelTiles panelTiles{function, matrices, root};
  const std::optional<QuantizedRows> input; ///< the launch before has the input so

private:
  /// Tiles for some of the numbers of rows that the emitter is for.
  struct SizedTiles {
    TileSize size;
    RowRange rows;
    MatrixTiles tiles;
    int64_t parts; ///< of the depth of products of one row of tiles
  };
  void chooseShape(KernelShape &shape) override;
  mlir::LogicalResult run() override;
  /// Emits the functions with these tiles. The depth of products of few tiles may be split.
  mlir::LogicalResult emitTiles(const SizedTiles &sized);
  /// What that formula takes.
  GpuKernelShape shapeOf(int64_t rows);
  int64_t bestParts(const MatrixTiles &tiles);
  /// Emits the function that adds up the parts of sums.
  mlir::LogicalResult emitSumOfParts(const Split &split);
  mlir::Value elementOfPart(mlir::Value part, mlir::Value row, mlir::Value column);

  RowRange rowRange;
  llvm::SmallVector<SizedTiles, 3> sizes;
};

} // namespace intarsia::gpu

#endif
