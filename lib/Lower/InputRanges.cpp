//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/InputRanges.h"

#include "dialects/Nn/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::lower {
namespace {

/// The function's arguments whose elements, all of them, are among those of the value. Not through slices: what they
/// leave out need not be an index.
void collectArguments(Value value, SmallVectorImpl<BlockArgument> &arguments) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (auto group = dyn_cast<nn::GroupOp>(argument.getOwner()->getParentOp()))
      collectArguments(group.getInputs()[argument.getArgNumber()], arguments);
    else
      arguments.push_back(argument);
    return;
  }
  Operation *op = value.getDefiningOp();
  if (auto group = dyn_cast<nn::GroupOp>(op))
    return collectArguments(group.getBodyBlock().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()),
                            arguments);
  if (isa<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, arith::ExtSIOp, arith::ExtUIOp,
          arith::TruncIOp>(op))
    return collectArguments(op->getOperand(0), arguments);
  if (isa<tensor::ConcatOp>(op))
    for (Value operand : op->getOperands())
      collectArguments(operand, arguments);
}

LogicalResult limitArgument(func::FuncOp function, BlockArgument argument, int64_t rows, nn::EmbeddingOp embedding) {
  unsigned number = argument.getArgNumber();
  auto given = function.getArgAttrOfType<StringAttr>(number, "nn.name");
  std::string name = given ? given.str() : "arg" + std::to_string(number);
  if (auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(number, "nn.range")) {
    if (range[0] >= 0 && range[1] <= rows)
      return success();
    return embedding.emitError() << "input '" << name << "' has nn.range [" << range[0] << ", " << range[1]
                                 << "), and is an index of the table of 'nn.embedding', which has " << rows
                                 << " rows; let the range be inside [0, " << rows << ")";
  }
  if (auto byDefault = function.getArgAttrOfType<IntegerAttr>(number, "nn.default"))
    if (int64_t index = nn::numberOf(byDefault); index < 0 || index >= rows)
      return embedding.emitError() << "input '" << name << "' has nn.default " << index
                                   << ", and is an index of the table of 'nn.embedding', which has " << rows << " rows";
  function.setArgAttr(number, "nn.range", Builder(function).getDenseI64ArrayAttr({0, rows}));
  return success();
}

} // namespace

LogicalResult inferInputRanges(func::FuncOp function, const SymbolicSizes &sizes) {
  // The smallest table of each argument without a range decides.
  SmallVector<std::pair<int64_t, nn::EmbeddingOp>> embeddings;
  function.walk([&](nn::EmbeddingOp embedding) {
    if (auto rows = dyn_cast<AffineConstantExpr>(sizes.of(embedding.getTable())[0]))
      embeddings.emplace_back(rows.getValue(), embedding);
  });
  llvm::stable_sort(embeddings, llvm::less_first());
  for (auto [rows, embedding] : embeddings) {
    SmallVector<BlockArgument> arguments;
    collectArguments(embedding.getIndices(), arguments);
    for (BlockArgument argument : arguments)
      if (failed(limitArgument(function, argument, rows, embedding)))
        return failure();
  }
  return success();
}

} // namespace intarsia::lower
