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
  /// Returns where scratch of the kernel begins that no launch before this one writes.
  virtual mlir::AffineExpr scratchBegin() { return number(0); }

  mlir::AffineExpr number(int64_t value) { return mlir::getAffineConstantExpr(value, b.getContext()); }

private:
  mlir::LogicalResult run() override;
  /// Emits the function for those numbers of rows for which `isUsed` is 1.
  mlir::LogicalResult emitTiles(const MatrixTiles &tiles, mlir::AffineExpr isUsed);

  bool leavesFewRows; ///< another function computes them
};

} // namespace intarsia::gpu

#endif
