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

LogicalResult EmbeddingOp::verify() {
  if (failed(verifyRank(*this, "table", getTable(), 2)))
    return failure();
  int64_t rows = typeOf(getTable()).getDimSize(0);
  if (rows == 0)
    return emitOpError("table has no rows");
  DenseIntElementsAttr constant;
  if (ShapedType::isDynamic(rows) || !matchPattern(getIndices(), m_Constant(&constant)))
    return success();
  for (const APInt &index : constant)
    if (index.isNegative() || index.sge(rows))
      return emitOpError() << "index " << index.getSExtValue() << " is outside of the table, which has " << rows
                           << " rows";
  return success();
}

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                            DictionaryAttr, OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type> &results) {
  auto table = dyn_cast<RankedTensorType>(operands[0].getType());
  auto indices = operands.size() > 1 ? dyn_cast<RankedTensorType>(operands[1].getType()) : RankedTensorType();
  if (!table || !indices || table.getRank() != 2)
    return emitOptionalError(location, "'nn.embedding' op needs a table of rank 2 and ranked indices");
  SmallVector<int64_t> shape(indices.getShape());
  shape.push_back(table.getDimSize(1));
  results.push_back(RankedTensorType::get(shape, table.getElementType()));
  return success();
}

SmallVector<Sizes> EmbeddingOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[1];
  result.push_back(sizes[0][1]);
  return {result};
}

INTARSIA_NO_EQUAL_SIZES(EmbeddingOp)

Work EmbeddingOp::getWork(SizesRange, SizesRange) { return {}; }

StoredOperand EmbeddingOp::getStoredOperand(unsigned operand) {
  return operand == 0 ? StoredOperand::Table : StoredOperand::None;
}

SmallVector<IndexOperand> EmbeddingOp::getIndexOperands(SizesRange sizes) {
  return {{getIndicesMutable().getOperandNumber(), "indices", sizes[getTableMutable().getOperandNumber()][0],
           /*isGuarded=*/true}};
}
