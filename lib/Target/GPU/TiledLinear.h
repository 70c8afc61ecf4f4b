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

/// Rows of the least tiles: what one instruction multiplies, but for those of four warps.
inline constexpr int64_t leastTileRows = 16;

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
  /// Returns what is multiplied along the depth, with zeros behind its end.
  virtual int64_t multipliedDepth() { return depth(); }
  /// Returns where scratch of the kernel begins that no launch before this one writes.
  virtual mlir::AffineExpr scratchBegin() { return number(0); }

  mlir::AffineExpr number(int64_t value) { return mlir::getAffineConstantExpr(value, b.getContext()); }

private:
  mlir::LogicalResult run() override;
  /// How blocks share the depth of a product of few tiles.
  struct Split {
    mlir::AffineExpr parts, tilesOfPart; ///< of the depth
    mlir::AffineExpr isUsed;             ///< 1 if there are several parts, else 0
  };
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
