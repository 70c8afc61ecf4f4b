//===- TiledLinear.cpp - Linears by tiles of matrix instructions ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/TiledLinear.h"

using namespace mlir;

namespace intarsia::gpu {

LogicalResult TiledLinear::run() {
  MatrixTiles large = tilesFor(/*areMany=*/true), small = tilesFor(/*areMany=*/false);
  AffineExpr rows = rowsOfLinear();
  // Large tiles read less memory for each sum, but they must be enough for most multiprocessors to have one.
  int64_t columnTiles = llvm::divideCeil(features(), large.columns);
  int64_t rowTiles = llvm::divideCeil(architecture.multiprocessors / 2, columnTiles);
  int64_t mostOfSmall = std::max(small.rows, (rowTiles - 1) * large.rows);
  if (auto known = dyn_cast<AffineConstantExpr>(rows))
    return emitTiles(known.getValue() <= mostOfSmall ? small : large, number(1));
  AffineExpr isSmall = isAtMost(rows, mostOfSmall);
  AffineExpr isFew = leavesFewRows ? isAtMost(rows, mostOfFewRows) : number(0);
  return failed(emitTiles(small, isSmall - isFew)) ? failure() : emitTiles(large, number(1) - isSmall);
}

LogicalResult TiledLinear::emitTiles(const MatrixTiles &tiles, AffineExpr isUsed) {
  ArrayRef<AffineExpr> extents = sizes.of(root.getResult());
  AffineExpr rowTiles = productExpression(extents.drop_back()).ceilDiv(tiles.rows);
  int64_t columnTiles = llvm::divideCeil(features(), tiles.columns);
  beginLaunch(tiles.warps() * architecture.warpSize, rowTiles * columnTiles * isUsed);
  Value rows = product(extents.drop_back());
  Value firstRow = mul(div(block, constant(columnTiles)), constant(tiles.rows));
  Value firstColumn = mul(rem(block, constant(columnTiles)), constant(tiles.columns));
  LogicalResult emitted = alone([&]() -> LogicalResult {
    FailureOr<SmallVector<Value>> sums = multiplyTile(tiles, rows, firstRow, firstColumn, {});
    if (failed(sums))
      return failure();
    return storeSums(tiles, *sums, firstRow, firstColumn, rows, features(),
                     [&](Value row, Value column, int64_t width, const SumsFn &read) {
                       return storeResults(row, column, width, read);
                     });
  });
  if (failed(emitted))
    return failure();
  endLaunch();
  return success();
}

} // namespace intarsia::gpu
