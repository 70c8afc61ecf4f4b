//===- MatmulKernel.cpp - Batched matmuls -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/TileEmitter.h"

#include "intarsia/module_abi.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// A tile is a panel of the result's columns in one matrix of the batch.
class MatmulKernel final : public KernelEmitter {
public:
  MatmulKernel(rt::KernelOp kernel, nn::MatmulOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root) {}

private:
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  LogicalResult multiplyPanel(Value panel, ArrayRef<Value> batchIndices);
  void packPanel(Value column, Value panelColumns, Value rightOffset);
  LogicalResult storeRow(ArrayRef<Value> batchIndices, Value row, Value sumRow, Value column, Value panelColumns);
  ArrayRef<AffineExpr> extents() { return function.sizes.of(root.getResult()); }
  ArrayRef<AffineExpr> batch() { return extents().drop_back(2); }
  /// Returns the stride of an operand's last dimension but `fromEnd` - 1.
  Value strideOf(const Storage &operand, int64_t fromEnd) { return operand.strides[extents().size() - fromEnd]; }

  TileEmitter registerTiles{function};
  nn::MatmulOp root;
  std::optional<Storage> left, right;
  Value rows, columns, depth, sums, packedPanel;
};
} // namespace

Emitter makeMatmulKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<MatmulKernel>(kernel, cast<nn::MatmulOp>(root), config);
}

void MatmulKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "matmul");
  chooseRegisterTile(shape, config);
  shape.state("left", "in place");
  shape.state("right", "packed by tile");
}

void MatmulKernel::launch() {
  Value panels = ceilDiv(function.size(extents().back()), constant(kPanelWidth));
  function.setSlot(ITX_PLAN_TILES, mul(function.product(batch()), panels));
}

LogicalResult MatmulKernel::run() {
  ArrayRef<AffineExpr> leftSizes = function.sizes.of(root.getLhs());
  AffineExpr depthSize = root.getTransposeLhs() ? leftSizes[leftSizes.size() - 2] : leftSizes.back();
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (function.sizes.of(function.yielded(i)) != extents())
      return function.refuse(root, "a result of its kernel is of another shape");
  Value panels = ceilDiv(function.size(extents().back()), constant(kPanelWidth));
  left = tensors.view(root.getLhs());
  right = tensors.view(root.getRhs());
  if (!left || !right)
    return function.refuse(root, "an operand is computed in the same kernel");
  rows = function.size(extents()[extents().size() - 2]);
  columns = function.size(extents().back());
  depth = function.size(depthSize);
  sums = function.scratch(config.rows * kPanelWidth * 4);
  packedPanel = function.scratch(depthSize * (kPanelWidth * 4));
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value tile) {
    Value panel = rem(tile, panels);
    return multiplyPanel(panel, function.delinearize(div(tile, panels), batch()));
  });
}

LogicalResult MatmulKernel::multiplyPanel(Value panel, ArrayRef<Value> batchIndices) {
  Value leftOffset = constant(0), rightOffset = constant(0);
  for (auto [d, index] : llvm::enumerate(batchIndices)) {
    leftOffset = add(leftOffset, mul(index, left->strides[d]));
    rightOffset = add(rightOffset, mul(index, right->strides[d]));
  }
  Value column = mul(panel, constant(kPanelWidth));
  Value panelColumns = min(sub(columns, column), constant(kPanelWidth));
  packPanel(column, panelColumns, rightOffset);
  return forLoop(constant(0), rows, constant(config.rows), [&](Value m) {
    Value count = min(sub(rows, m), constant(config.rows));
    TileOperands operands;
    operands.aRow = strideOf(*left, root.getTransposeLhs() ? 1 : 2);
    operands.aColumn = strideOf(*left, root.getTransposeLhs() ? 2 : 1);
    operands.a = memory.at(left->pointer, add(leftOffset, mul(m, operands.aRow)), left->elementType);
    operands.aType = left->elementType;
    operands.b = packedPanel;
    operands.bRow = constant(kPanelWidth);
    operands.bType = b.getF32Type();
    operands.depth = depth;
    operands.out = sums;
    operands.outRow = constant(kPanelWidth);
    registerTiles.emitTileRows(operands, count, kPanelWidth);
    return forLoop(constant(0), count, constant(1), [&](Value r) {
      Value sumRow = mul(r, constant(kPanelWidth));
      return storeRow(batchIndices, add(m, r), sumRow, column, panelColumns);
    });
  });
}

/// Packs the panel of the right operand that begins at `column`.
void MatmulKernel::packPanel(Value column, Value panelColumns, Value rightOffset) {
  bool transposed = root.getTransposeRhs();
  Value source = memory.at(right->pointer, add(rightOffset, mul(column, strideOf(*right, transposed ? 2 : 1))),
                           right->elementType);
  if (transposed)
    registerTiles.packTransposed(packedPanel, source, strideOf(*right, 2), right->elementType, depth, panelColumns,
                                 Value());
  else
    registerTiles.packRows(packedPanel, source, strideOf(*right, 2), right->elementType, depth, panelColumns,
                           kPanelWidth);
}

/// Stores a row of the panel at `column`, whose sums begin at element `sumRow`.
LogicalResult MatmulKernel::storeRow(ArrayRef<Value> batchIndices, Value row, Value sumRow, Value column,
                                     Value panelColumns) {
  auto savedBound = tensors.bound;
  tensors.bound[root.getResult()] = [&](ArrayRef<Index> at, int64_t width) -> Element {
    return memory.load(sums, add(sumRow, sub(at.back().base, column)), b.getF32Type(), width);
  };
  SmallVector<Value> prefix(batchIndices);
  prefix.push_back(row);
  LogicalResult stored = vectorLoop(panelColumns, [&](Value c, int64_t width) -> LogicalResult {
    code->memo.emplace_back();
    LogicalResult stored = tensors.storeOutputs(kernel::indicesOf(prefix, add(column, c)), width);
    code->memo.pop_back();
    return stored;
  });
  tensors.bound = savedBound;
  return stored;
}

} // namespace intarsia::cpu
