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

/// A linear by matrix instructions, and the elementwise ops behind it: a block computes a tile. What is multiplied is
/// what derived classes say.
class TiledLinear : public LinearResults<MatrixEmitter> {
public:
  TiledLinear(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture,
              const MatrixInstruction &instruction, bool leavesFewRows)
      : LinearResults(root, kernel, architecture, instruction), leavesFewRows(leavesFewRows) {}

protected:
  /// Returns the tiles of products of many rows, or of others.
  virtual MatrixTiles tilesFor(bool areMany) const = 0;
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
  /// Emits the function for those numbers of rows for which `isUsed` is 1. Products of few tiles may be split.
  mlir::LogicalResult emitTiles(const MatrixTiles &tiles, mlir::AffineExpr isUsed, bool areFew);
  /// Returns how the product is split; nothing if it is not, whatever the number of rows is.
  std::optional<Split> splitOf(const MatrixTiles &tiles);
  int64_t bestParts(const MatrixTiles &tiles);
  /// Emits the function that adds up the parts of sums.
  mlir::LogicalResult emitSumOfParts(const Split &split);
  /// Returns where parts of sums are in scratch, and the number of an element there.
  mlir::Value partials() { return kernelScratch(scratchBegin()); }
  mlir::Value elementOfPart(mlir::Value part, mlir::Value row, mlir::Value column);

  bool leavesFewRows; ///< another function computes them
};

} // namespace intarsia::gpu

#endif
