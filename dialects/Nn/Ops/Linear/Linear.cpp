//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

LogicalResult LinearOp::verify() {
  if (failed(verifyPrecision(*this, getPrecision())) || failed(verifyLeastRank(*this, "input", getInput(), 1)) ||
      failed(verifyRank(*this, "weight", getWeight(), 2)) ||
      failed(verifyStoredElement(*this, "weight", getWeight(), "input", getInput())) ||
      failed(verifyCount(*this, "weight", lastSize(getWeight()), "input features", "input", lastSize(getInput()))))
    return failure();
  return verifyBias(*this, getBias(), getInput(), "output features", typeOf(getWeight()).getDimSize(0));
}

LogicalResult LinearOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr, OpaqueProperties, RegionRange,
                                         SmallVectorImpl<Type> &results) {
  auto input = dyn_cast<RankedTensorType>(operands[0].getType());
  auto weight = operands.size() > 1 ? dyn_cast<RankedTensorType>(operands[1].getType()) : RankedTensorType();
  if (!input || !weight || weight.getRank() != 2)
    return emitOptionalError(location, "'nn.linear' op needs a ranked input and a weight of rank 2");
  results.push_back(withLastSize(input, weight.getDimSize(0)));
  return success();
}

SmallVector<Sizes> LinearOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  result.back() = sizes[1][0];
  return {result};
}

SizePairs LinearOp::getEqualSizes(SizesRange sizes) {
  SizePairs pairs = {{sizes[0].back(), sizes[1][1]}};
  if (getBias())
    pairs.emplace_back(sizes[1][0], sizes[2][0]);
  return pairs;
}

Work LinearOp::getWork(SizesRange operandSizes, SizesRange resultSizes) {
  AffineExpr count = elementCount(getContext(), resultSizes[0]);
  AffineExpr flops = count * (operandSizes[0].back() * 2);
  return {getBias() ? flops + count : flops, nullptr};
}

//===-- What it multiplies ----------------------------------------------------------------------------------------===//

OpOperand &LinearOp::getLeftOperand() { return getInputMutable(); }

SmallVector<OpOperand *> LinearOp::getRightOperands() { return {&getWeightMutable()}; }

MutableOperandRange LinearOp::getBiasOperand() { return getBiasMutable(); }

/// Loops are those of the result, then the features that are summed.
ContractionMaps LinearOp::getMaps() {
  unsigned depth = typeOf(getInput()).getRank(), column = depth - 1;
  SmallVector<unsigned> loops = llvm::to_vector(llvm::seq(depth));
  AffineMap result = mapTo(loops, depth + 1, getContext());
  loops.back() = depth;
  return {mapTo(loops, depth + 1, getContext()), mapTo({column, depth}, depth + 1, getContext()), result};
}

StoredOperand LinearOp::getStoredOperand(unsigned operand) {
  if (operand == 0)
    return StoredOperand::None;
  return operand == 1 ? StoredOperand::Matrix : StoredOperand::Vector;
}

RowInput LinearOp::getRowInput() { return rowInputOf(getInput()); }

//===-- Canonicalization ------------------------------------------------------------------------------------------===//

void LinearOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropZeroBias<LinearOp>>(context);
}
