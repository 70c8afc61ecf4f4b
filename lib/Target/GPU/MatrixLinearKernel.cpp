//===- MatrixLinearKernel.cpp - Linears by matrix instructions of GPUs ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/TiledLinear.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
/// A linear whose operands are rounded to what matrix instructions multiply.
class MatrixLinearKernel final : public TiledLinear {
public:
  using TiledLinear::TiledLinear;

private:
  MatrixTiles tilesFor(TileSize size) const override;
  FailureOr<SmallVector<Value>> multiplyTile(const MatrixTiles &tiles, Value rows, Value firstRow, Value firstColumn,
                                             TileRange range) override;
  Factor factorOf(Value matrix, Value rows, bool isRagged, function_ref<Indices(Value row, Value k)> at);
};
} // namespace

Emitter makeMatrixLinearKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture,
                               const MatrixInstruction &instruction, RowRange rows) {
  return std::make_unique<MatrixLinearKernel>(kernel, cast<nn::LinearOp>(root), architecture, instruction, rows);
}

MatrixTiles MatrixLinearKernel::tilesFor(TileSize size) const {
  // Four warps each. Depth and stages: at least two blocks fit in the shared memory of a multiprocessor.
  int64_t stages = architecture.asyncCopy == AsyncCopy::None || architecture.vendor == Vendor::Amd ? 2 : 4;
  bool isLarge = size == TileSize::Large;
  if (isWarpgroup()) {
    // Each warp has 16 rows of every 64, and all columns.
    assert(size != TileSize::Least && "warpgroups multiply 64 rows at least");
    return isLarge ? MatrixTiles{128, 128, 32, 128, /*chunks=*/4, /*stages=*/6}
                   : MatrixTiles{64, 64, 16, 64, /*chunks=*/4, /*stages=*/6};
  }
  // Of 32 sums a lane, which leaves registers for two blocks.
  if (isLarge && instruction.family == MatrixFamily::MultiplyAdds)
    return {128, 64, 32, 32, /*chunks=*/4, stages};
  if (size == TileSize::Least)
    return {leastTileRows, 64, leastTileRows, 16, /*chunks=*/4, stages};
  return isLarge ? MatrixTiles{128, 128, 64, 64, /*chunks=*/4, stages}
                 : MatrixTiles{64, 64, 32, 32, /*chunks=*/4, stages};
}

MatrixEmitter::Factor MatrixLinearKernel::factorOf(Value matrix, Value rows, bool isRagged,
                                                   function_ref<Indices(Value row, Value k)> at) {
  Factor factor;
  factor.rows = rows;
  factor.isRagged = isRagged;
  factor.elements = [this, matrix, at](Value row, Value k, int64_t width) {
    return evaluate(matrix, at(row, k), width);
  };
  if (std::optional<BlockPanels> panels = panelsOf(matrix))
    factor.chunk = [this, matrix, panels = *panels](Value row, Value k) -> std::function<Value()> {
      return [this, panels, stored = loadElements(matrix, row, k, chunkElements())] {
        if (elementType().isF16() && decodesInHalves(panels))
          return decodeHalves(panels, stored, chunkElements());
        Value elements = decodeElements(panels, stored, chunkElements());
        return elements.getType() == vectorOf(elementType(), chunkElements())
                   ? elements
                   : arith::TruncFOp::create(b, loc, vectorOf(elementType(), chunkElements()), elements).getResult();
      };
    };
  // What is widened only for its type is read as it is stored.
  Value stored = matrix;
  if (auto extend = stored.getDefiningOp<arith::ExtFOp>())
    stored = extend.getIn();
  std::optional<Storage> found = view(stored);
  if (found && found->dense && found->elementType == elementType())
    factor.address = addressOfRows(found->pointer, depth());
  return factor;
}

FailureOr<SmallVector<Value>> MatrixLinearKernel::multiplyTile(const MatrixTiles &tiles, Value rows, Value firstRow,
                                                               Value firstColumn, TileRange range) {
  auto ofInput = [&](Value row, Value k) { return indicesAt(root.getInput(), row, k); };
  auto ofWeight = [&](Value row, Value k) { return Indices{{row}, {k, true}}; };
  Factor input = factorOf(root.getInput(), rows, /*isRagged=*/true, ofInput);
  Factor weight = factorOf(root.getWeight(), constant(features()), features() % tiles.columns != 0, ofWeight);
  return multiply(tiles, input, weight, firstRow, firstColumn, constant(depth()), range);
}

} // namespace intarsia::gpu
