//===- MatmulKernel.cpp - Products of two computed tensors ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/MatrixEmitter.h"
#include "lib/Target/GPU/MicrokernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
/// A block computes a tile of one matrix of the batch, and the elementwise ops behind it.
class MatmulKernel final : public KernelEmitter {
public:
  MatmulKernel(rt::KernelOp kernel, nn::MatmulOp root, const Architecture &architecture,
               const MatrixInstruction &instruction)
      : KernelEmitter(kernel, architecture), root(root), instruction(instruction) {}

private:
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  Factor factorOf(Value matrix, bool isTransposed, Value rows, ArrayRef<Value> batch);
  LogicalResult storeResults(ArrayRef<Value> batch, Value row, Value column, int64_t width, const SumsFn &read);

  nn::MatmulOp root;
  const MatrixInstruction &instruction;
  MatrixEmitter matrices{function, tensors, instruction};
  MatrixTiles tiles{};
};
} // namespace

Emitter makeMatmulKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture) {
  SymbolicSizes sizes(kernel);
  auto isF64 = [](Type type) { return getElementTypeOrSelf(type).isF64(); };
  WalkResult walked = kernel.getBody().walk([&](Operation *op) {
    bool isOther = isa<RowwiseOpInterface, nn::QuantizeOp, nn::DequantizeOp>(op);
    return isOther || llvm::any_of(op->getOperandTypes(), isF64) ? WalkResult::interrupt() : WalkResult::advance();
  });
  bool isTaken = !walked.wasInterrupted() &&
                 llvm::all_of(kernel.getBody().front().getTerminator()->getOperands(), [&](Value result) {
                   return sizes.of(kernel::KernelBody::stripReshapes(result)) == sizes.of(root->getResult(0));
                 });
  if (!isTaken)
    return nullptr;
  auto op = cast<nn::MatmulOp>(root);
  // Elements of 16 bits are multiplied as they are, others in f32 unless they may be rounded.
  Type element = getElementTypeOrSelf(op.getLhs());
  if (element.getIntOrFloatBitWidth() != 16)
    element = op.getPrecision().value_or(Float32Type::get(kernel.getContext()));
  const MatrixInstruction &instruction = matrixInstruction(architecture, element);
  return std::make_unique<MatmulKernel>(kernel, op, architecture, instruction);
}

void MatmulKernel::chooseShape(KernelShape &shape) {
  // As for small linears: a batch has tiles enough.
  int64_t stages = architecture.asyncCopy == AsyncCopy::None || architecture.vendor == Vendor::Amd ? 2 : 4;
  tiles = {64, 64, 32, 32, /*chunks=*/4, stages};
  if (matrices.isWarpgroup())
    tiles = {64, 64, 16, 64, /*chunks=*/4, /*stages=*/6};
  shape.state("kernel", "matmul");
  shape.state("instruction", nameOf(instruction));
  matrices.chooseTiles(shape, tiles);
}

LogicalResult MatmulKernel::run() {
  ArrayRef<AffineExpr> extents = function.sizes.of(root.getResult()), left = function.sizes.of(root.getLhs());
  AffineExpr rowTiles = extents[extents.size() - 2].ceilDiv(tiles.rows);
  AffineExpr columnTiles = extents.back().ceilDiv(tiles.columns);
  function.beginLaunch(tiles.warps() * architecture.warpSize,
                       function.productExpression(extents.drop_back(2)) * rowTiles * columnTiles);
  Value rows = function.size(extents[extents.size() - 2]), columns = function.size(extents.back());
  Value depth = function.size(root.getTransposeLhs() ? left[left.size() - 2] : left.back());
  Value tile = rem(function.block, function.size(rowTiles * columnTiles));
  SmallVector<Value> batch =
      function.delinearize(div(function.block, function.size(rowTiles * columnTiles)), extents.drop_back(2));
  Value firstRow = mul(div(tile, function.size(columnTiles)), constant(tiles.rows));
  Value firstColumn = mul(rem(tile, function.size(columnTiles)), constant(tiles.columns));
  LogicalResult emitted = function.alone([&]() -> LogicalResult {
    FailureOr<SmallVector<Value>> sums = matrices.multiply(
        tiles, factorOf(root.getLhs(), root.getTransposeLhs(), rows, batch),
        factorOf(root.getRhs(), !root.getTransposeRhs(), columns, batch), firstRow, firstColumn, depth);
    if (failed(sums))
      return failure();
    return matrices.storeSums(tiles, *sums, firstRow, firstColumn, rows, columns,
                              [&](Value row, Value column, int64_t width, const SumsFn &read) {
                                return storeResults(batch, row, column, width, read);
                              });
  });
  function.endLaunch();
  return emitted;
}

/// Returns a matrix of the batch as a factor. If it is transposed, its rows lie along the last dimension.
Factor MatmulKernel::factorOf(Value matrix, bool isTransposed, Value rows, ArrayRef<Value> batch) {
  Factor factor;
  factor.rows = rows;
  factor.isRagged = true;
  factor.elements = [this, matrix, isTransposed, batch](Value row, Value k, int64_t width) {
    Indices at = kernel::indicesOf(batch);
    Index ofRow{row}, ofDepth{k, true};
    at.append({isTransposed ? ofDepth : ofRow, isTransposed ? ofRow : ofDepth});
    return tensors.evaluate(matrix, at, width);
  };
  ArrayRef<AffineExpr> extents = function.sizes.of(matrix);
  auto depth = dyn_cast<AffineConstantExpr>(extents.back());
  std::optional<Storage> stored = tensors.view(matrix);
  if (isTransposed || !depth || !stored || !stored->dense || stored->elementType != matrices.elementType())
    return factor;
  Value first = constant(0);
  for (auto [index, extent] : llvm::zip(batch, extents))
    first = add(mul(first, function.size(extent)), index);
  Value ofBatch = mul(mul(first, rows), constant(depth.getValue()));
  factor.address =
      matrices.addressOfRows(memory.at(stored->pointer, ofBatch, matrices.elementType()), depth.getValue());
  return factor;
}

LogicalResult MatmulKernel::storeResults(ArrayRef<Value> batch, Value row, Value column, int64_t width,
                                         const SumsFn &read) {
  tensors.bound[root.getResult()] = [&](ArrayRef<Index> at, int64_t count) -> Element {
    return read(at.back().base, count);
  };
  SmallVector<Value> single(batch);
  single.push_back(row);
  LogicalResult stored = tensors.storeOutputs(kernel::indicesOf(single, column), width);
  tensors.bound.erase(root.getResult());
  return stored;
}

} // namespace intarsia::gpu
