//===- MatmulKernel.cpp - Products of two computed tensors ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/MatrixEmitter.h"
#include "lib/Target/GPU/MicrokernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
/// A block computes a tile of one matrix of the batch, and the elementwise ops behind it.
class MatmulKernel final : public MatrixEmitter {
public:
  MatmulKernel(rt::KernelOp kernel, nn::MatmulOp root, const Architecture &architecture,
               const MatrixInstruction &instruction)
      : MatrixEmitter(kernel, architecture, instruction), root(root) {}

  static bool takes(rt::KernelOp kernel, nn::MatmulOp root);

private:
  LogicalResult run() override;
  Factor factorOf(Value matrix, bool isTransposed, Value rows, ArrayRef<Value> batch);
  LogicalResult storeResults(ArrayRef<Value> batch, Value row, Value column, int64_t width, const SumsFn &read);

  nn::MatmulOp root;
};
} // namespace

Emitter makeMatmulKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture) {
  auto op = cast<nn::MatmulOp>(root);
  // Elements of 16 bits are multiplied as they are, others in f32 unless they may be rounded.
  Type element = getElementTypeOrSelf(op.getLhs());
  if (element.getIntOrFloatBitWidth() != 16)
    element = op.getPrecision().value_or(Float32Type::get(kernel.getContext()));
  const MatrixInstruction &instruction = matrixInstruction(architecture, element);
  return std::make_unique<MatmulKernel>(kernel, op, architecture, instruction);
}

bool hasMatmulKernel(rt::KernelOp kernel, nn::MatmulOp root) { return MatmulKernel::takes(kernel, root); }

bool MatmulKernel::takes(rt::KernelOp kernel, nn::MatmulOp root) {
  SymbolicSizes sizes(kernel);
  auto isF64 = [](Type type) { return getElementTypeOrSelf(type).isF64(); };
  WalkResult walked = kernel.getBody().walk([&](Operation *op) {
    bool isOther = isa<RowwiseOpInterface, nn::QuantizeOp, nn::DequantizeOp>(op);
    return isOther || llvm::any_of(op->getOperandTypes(), isF64) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return !walked.wasInterrupted() &&
         llvm::all_of(kernel.getBody().front().getTerminator()->getOperands(),
                      [&](Value result) { return sizes.of(stripReshapes(result)) == sizes.of(root.getResult()); });
}

LogicalResult MatmulKernel::run() {
  // As for small linears: a batch has tiles enough.
  int64_t stages = architecture.asyncCopy == AsyncCopy::None || architecture.vendor == Vendor::Amd ? 2 : 4;
  MatrixTiles tiles = {64, 64, 32, 32, /*chunks=*/4, stages};
  if (isWarpgroup())
    tiles = {64, 64, 16, 64, /*chunks=*/4, /*stages=*/6};
  ArrayRef<AffineExpr> extents = sizes.of(root.getResult()), left = sizes.of(root.getLhs());
  AffineExpr rowTiles = extents[extents.size() - 2].ceilDiv(tiles.rows);
  AffineExpr columnTiles = extents.back().ceilDiv(tiles.columns);
  beginLaunch(tiles.warps() * architecture.warpSize, productExpression(extents.drop_back(2)) * rowTiles * columnTiles);
  Value rows = size(extents[extents.size() - 2]), columns = size(extents.back());
  Value depth = size(root.getTransposeLhs() ? left[left.size() - 2] : left.back());
  Value tile = rem(block, size(rowTiles * columnTiles));
  SmallVector<Value> batch = delinearize(div(block, size(rowTiles * columnTiles)), extents.drop_back(2));
  Value firstRow = mul(div(tile, size(columnTiles)), constant(tiles.rows));
  Value firstColumn = mul(rem(tile, size(columnTiles)), constant(tiles.columns));
  LogicalResult emitted = alone([&]() -> LogicalResult {
    FailureOr<SmallVector<Value>> sums =
        multiply(tiles, factorOf(root.getLhs(), root.getTransposeLhs(), rows, batch),
                 factorOf(root.getRhs(), !root.getTransposeRhs(), columns, batch), firstRow, firstColumn, depth);
    if (failed(sums))
      return failure();
    return storeSums(tiles, *sums, firstRow, firstColumn, rows, columns,
                     [&](Value row, Value column, int64_t width, const SumsFn &read) {
                       return storeResults(batch, row, column, width, read);
                     });
  });
  endLaunch();
  return emitted;
}

/// Returns a matrix of the batch as a factor. If it is transposed, its rows lie along the last dimension.
MatrixEmitter::Factor MatmulKernel::factorOf(Value matrix, bool isTransposed, Value rows, ArrayRef<Value> batch) {
  Factor factor;
  factor.rows = rows;
  factor.isRagged = true;
  factor.elements = [this, matrix, isTransposed, batch](Value row, Value k, int64_t width) {
    Indices at;
    for (Value index : batch)
      at.push_back({index});
    Index ofRow{row}, ofDepth{k, true};
    at.append({isTransposed ? ofDepth : ofRow, isTransposed ? ofRow : ofDepth});
    return evaluate(matrix, at, width);
  };
  ArrayRef<AffineExpr> extents = sizes.of(matrix);
  auto depth = dyn_cast<AffineConstantExpr>(extents.back());
  std::optional<Storage> stored = view(matrix);
  if (isTransposed || !depth || !stored || !stored->dense || stored->elementType != elementType())
    return factor;
  Value first = constant(0);
  for (auto [index, extent] : llvm::zip(batch, extents))
    first = add(mul(first, size(extent)), index);
  Value ofBatch = mul(mul(first, rows), constant(depth.getValue()));
  factor.address = addressOfRows(offsetPointer(stored->pointer, ofBatch, elementType()), depth.getValue());
  return factor;
}

LogicalResult MatmulKernel::storeResults(ArrayRef<Value> batch, Value row, Value column, int64_t width,
                                         const SumsFn &read) {
  bound[root.getResult()] = [&](ArrayRef<Index> at, int64_t count) -> Element { return read(at.back().base, count); };
  LogicalResult stored = success();
  for (unsigned output = 0; succeeded(stored) && output != outputs.size(); ++output) {
    Indices at;
    for (Value index : batch)
      at.push_back({index});
    at.append({Index{row}, Index{column, true}});
    Element element = evaluate(yielded(output), at, width);
    stored = LogicalResult(element);
    if (succeeded(stored))
      store(*element, outputs[output], at, width);
  }
  bound.erase(root.getResult());
  return stored;
}

} // namespace intarsia::gpu
