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

LogicalResult MatmulOp::verify() {
  RankedTensorType lhs = typeOf(getLhs()), rhs = typeOf(getRhs());
  int64_t rank = lhs.getRank();
  if (rank != rhs.getRank())
    return emitOpError() << "lhs has rank " << rank << ", rhs has rank " << rhs.getRank();
  if (failed(verifyPrecision(*this, getPrecision())) || failed(verifyLeastRank(*this, "lhs", getLhs(), 2)) ||
      failed(verifySameElement(*this, "lhs", getLhs(), "rhs", getRhs())))
    return failure();
  for (int64_t dimension = 0; dimension != rank - 2; ++dimension)
    if (!agree(lhs.getDimSize(dimension), rhs.getDimSize(dimension)))
      return emitOpError() << "batch dimension " << dimension << " of lhs is " << lhs.getDimSize(dimension)
                           << ", of rhs is " << rhs.getDimSize(dimension);
  int64_t lhsInner = lhs.getDimSize(getTransposeLhs() ? rank - 2 : rank - 1);
  int64_t rhsInner = rhs.getDimSize(getTransposeRhs() ? rank - 1 : rank - 2);
  if (!agree(lhsInner, rhsInner))
    return emitOpError() << "sums over " << lhsInner << " elements of lhs, " << rhsInner << " of rhs";
  return success();
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                         SmallVectorImpl<Type> &results) {
  MatmulOp::Adaptor op(operands, attributes, properties, regions);
  auto lhs = dyn_cast<RankedTensorType>(op.getLhs().getType());
  auto rhs = dyn_cast<RankedTensorType>(op.getRhs().getType());
  if (!lhs || !rhs || lhs.getRank() < 2 || lhs.getRank() != rhs.getRank())
    return emitOptionalError(location, "'nn.matmul' op needs two tensors of equal rank, at least 2");
  int64_t rank = lhs.getRank();
  SmallVector<int64_t> shape;
  for (int64_t dimension = 0; dimension != rank - 2; ++dimension)
    shape.push_back(known(lhs.getDimSize(dimension), rhs.getDimSize(dimension)));
  shape.push_back(lhs.getDimSize(op.getTransposeLhs() ? rank - 1 : rank - 2));
  shape.push_back(rhs.getDimSize(op.getTransposeRhs() ? rank - 2 : rank - 1));
  results.push_back(RankedTensorType::get(shape, lhs.getElementType()));
  return success();
}

SmallVector<Sizes> MatmulOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  size_t rank = result.size();
  result[rank - 2] = sizes[0][getTransposeLhs() ? rank - 1 : rank - 2];
  result[rank - 1] = sizes[1][getTransposeRhs() ? rank - 2 : rank - 1];
  return {result};
}

SizePairs MatmulOp::getEqualSizes(SizesRange sizes) {
  size_t rank = sizes[0].size();
  SizePairs pairs = {
      {sizes[0][getTransposeLhs() ? rank - 2 : rank - 1], sizes[1][getTransposeRhs() ? rank - 1 : rank - 2]}};
  for (size_t dimension = 0; dimension + 2 < rank; ++dimension)
    pairs.emplace_back(sizes[0][dimension], sizes[1][dimension]);
  return pairs;
}

Work MatmulOp::getWork(SizesRange operandSizes, SizesRange resultSizes) {
  size_t rank = operandSizes[0].size();
  AffineExpr inner = operandSizes[0][getTransposeLhs() ? rank - 2 : rank - 1];
  return {elementCount(getContext(), resultSizes[0]) * (inner * 2), nullptr};
}

//===-- What it multiplies ----------------------------------------------------------------------------------------===//

OpOperand &MatmulOp::getLeftOperand() { return getLhsMutable(); }

SmallVector<OpOperand *> MatmulOp::getRightOperands() { return {&getRhsMutable()}; }

MutableOperandRange MatmulOp::getBiasOperand() { return MutableOperandRange(*this, getNumOperands(), 0); }

/// Loops are those of the result, then what is summed.
ContractionMaps MatmulOp::getMaps() {
  unsigned depth = typeOf(getLhs()).getRank(), column = depth - 1, row = depth - 2;
  auto map = [&](unsigned outer, unsigned inner) {
    SmallVector<unsigned> loops = llvm::to_vector(llvm::seq(row));
    loops.append({outer, inner});
    return mapTo(loops, depth + 1, getContext());
  };
  return {getTransposeLhs() ? map(depth, row) : map(row, depth),
          getTransposeRhs() ? map(column, depth) : map(depth, column), map(row, column)};
}
