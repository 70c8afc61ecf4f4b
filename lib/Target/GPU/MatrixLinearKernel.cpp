//===- MatrixLinearKernel.cpp - Linears by matrix instructions of GPUs ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/LinearResults.h"
#include "lib/Target/GPU/MatrixEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
/// A linear whose operands are rounded to what matrix instructions multiply, and the elementwise ops behind it.
class MatrixLinearKernel final : public LinearResults<MatrixEmitter> {
public:
  MatrixLinearKernel(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture,
                     const MatrixInstruction &instruction, bool leavesFewRows)
      : LinearResults(root, kernel, architecture, instruction), leavesFewRows(leavesFewRows) {}

private:
  LogicalResult run() override;
  /// Emits the function for those numbers of rows for which `isUsed` is 1.
  LogicalResult emitTiles(const MatrixTiles &tiles, AffineExpr isUsed);
  Factor factorOf(Value matrix, Value rows, bool isRagged, function_ref<Indices(Value row, Value k)> at);

  bool leavesFewRows; ///< another function computes them
};
} // namespace

Emitter makeMatrixLinearKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture,
                               const MatrixInstruction &instruction, bool leavesFewRows) {
  return std::make_unique<MatrixLinearKernel>(kernel, cast<nn::LinearOp>(root), architecture, instruction,
                                              leavesFewRows);
}

LogicalResult MatrixLinearKernel::run() {
  // Four warps each. Depth and stages: at least two blocks fit in the shared memory of a multiprocessor.
  int64_t stages = architecture.asyncCopy == AsyncCopy::None || architecture.vendor == Vendor::Amd ? 2 : 4;
  MatrixTiles large = {128, 128, 64, 64, /*chunks=*/4, stages}, small = {64, 64, 32, 32, /*chunks=*/4, stages};
  AffineExpr rows = rowsOfLinear();
  if (isWarpgroup()) {
    // Each warp has 16 rows of every 64, and all columns.
    large = {128, 128, 32, 128, /*chunks=*/4, /*stages=*/6};
    small = {64, 64, 16, 64, /*chunks=*/4, /*stages=*/6};
  }
  // Large tiles read less memory for each sum, but they must be enough for most multiprocessors to have one.
  int64_t columnTiles = llvm::divideCeil(features(), large.columns);
  int64_t rowTiles = llvm::divideCeil(architecture.multiprocessors / 2, columnTiles);
  int64_t mostOfSmall = std::max(small.rows, (rowTiles - 1) * large.rows);
  if (auto known = dyn_cast<AffineConstantExpr>(rows)) {
    AffineExpr always = getAffineConstantExpr(1, b.getContext());
    return emitTiles(known.getValue() <= mostOfSmall ? small : large, always);
  }
  AffineExpr isSmall = isAtMost(rows, mostOfSmall), one = getAffineConstantExpr(1, b.getContext());
  AffineExpr isFew = leavesFewRows ? isAtMost(rows, mostOfFewRows) : getAffineConstantExpr(0, b.getContext());
  return failed(emitTiles(small, isSmall - isFew)) ? failure() : emitTiles(large, one - isSmall);
}

MatrixEmitter::Factor MatrixLinearKernel::factorOf(Value matrix, Value rows, bool isRagged,
                                                   function_ref<Indices(Value row, Value k)> at) {
  Factor factor;
  factor.rows = rows;
  factor.isRagged = isRagged;
  factor.elements = [this, matrix, at](Value row, Value k, int64_t width) {
    return evaluate(matrix, at(row, k), width);
  };
  if (architecture.vendor != Vendor::Nvidia)
    return factor;
  // What is widened only for its type is read as it is stored.
  Value stored = matrix;
  if (auto extend = stored.getDefiningOp<arith::ExtFOp>())
    stored = extend.getIn();
  std::optional<Storage> found = view(stored);
  if (!found || !found->dense || found->elementType != elementType() || depth() % chunkElements() != 0)
    return factor;
  factor.address = [this, pointer = found->pointer](Value row) {
    return offsetPointer(pointer, mul(row, constant(depth())), elementType());
  };
  return factor;
}

LogicalResult MatrixLinearKernel::emitTiles(const MatrixTiles &tiles, AffineExpr isUsed) {
  ArrayRef<AffineExpr> extents = sizes.of(root.getResult());
  AffineExpr rowTiles = productExpression(extents.drop_back()).ceilDiv(tiles.rows);
  int64_t columnTiles = llvm::divideCeil(features(), tiles.columns);
  beginLaunch(tiles.warps() * architecture.warpSize, rowTiles * columnTiles * isUsed);
  Value rows = product(extents.drop_back());
  Value firstRow = mul(div(block, constant(columnTiles)), constant(tiles.rows));
  Value firstColumn = mul(rem(block, constant(columnTiles)), constant(tiles.columns));
  auto ofInput = [&](Value row, Value k) { return indicesAt(root.getInput(), row, k); };
  auto ofWeight = [&](Value row, Value k) { return Indices{{row}, {k, true}}; };
  LogicalResult emitted = alone([&]() -> LogicalResult {
    Factor input = factorOf(root.getInput(), rows, /*isRagged=*/true, ofInput);
    Factor weight = factorOf(root.getWeight(), constant(features()), features() % tiles.columns != 0, ofWeight);
    FailureOr<SmallVector<Value>> sums = multiply(tiles, input, weight, firstRow, firstColumn, depth());
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
