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

/// Checks that the sizes of a dimension are equal or not known.
static LogicalResult verifySize(Operation *op, StringRef name, int64_t size, int64_t dimension, StringRef otherName,
                                int64_t otherSize) {
  if (agree(size, otherSize))
    return success();
  return op->emitOpError() << name << " has the size " << size << " in dimension " << dimension << ", " << otherName
                           << " has " << otherSize;
}

static LogicalResult verifyKind(Operation *op, ScatterKind kind, Value input) {
  if (kind == ScatterKind::Set || !typeOf(input).getElementType().isInteger(1))
    return success();
  return op->emitOpError() << "has elements of i1, which only 'set' takes";
}

LogicalResult ScatterOp::verify() {
  RankedTensorType input = typeOf(getInput()), indices = typeOf(getIndices()), updates = typeOf(getUpdates());
  int64_t axis = getAxis(), rank = input.getRank();
  if (failed(verifyLeastRank(*this, "input", getInput(), 1)) ||
      failed(verifyRank(*this, "indices", getIndices(), rank)) ||
      failed(verifyRank(*this, "updates", getUpdates(), rank)) ||
      failed(verifySameElement(*this, "updates", getUpdates(), "input", getInput())) ||
      failed(verifyKind(*this, getKind(), getInput())))
    return failure();
  if (axis < 0 || axis >= rank)
    return emitOpError() << "has the axis " << axis << ", input has rank " << rank;
  for (int64_t d = 0; d < rank; ++d) {
    if (failed(verifySize(*this, "updates", updates.getDimSize(d), d, "indices", indices.getDimSize(d))))
      return failure();
    if (d != axis && failed(verifySize(*this, "indices", indices.getDimSize(d), d, "input", input.getDimSize(d))))
      return failure();
  }
  return success();
}

INTARSIA_RESULT_LIKE_FIRST(ScatterOp)

SizePairs ScatterOp::getEqualSizes(SizesRange sizes) {
  SizePairs pairs;
  for (size_t d = 0; d < sizes[0].size(); ++d) {
    pairs.push_back({sizes[1][d], sizes[2][d]});
    if (int64_t(d) != int64_t(getAxis()))
      pairs.push_back({sizes[0][d], sizes[1][d]});
  }
  return pairs;
}

/// Each element is compared with all indices.
Work ScatterOp::getWork(SizesRange operandSizes, SizesRange resultSizes) {
  AffineExpr elements = elementCount(getContext(), resultSizes[0]);
  return {elements * operandSizes[1][getAxis()] * 2, getAffineConstantExpr(0, getContext())};
}

SmallVector<IndexOperand> ScatterOp::getIndexOperands(SizesRange sizes) {
  return {{getIndicesMutable().getOperandNumber(), "indices", sizes[0][getAxis()], /*isGuarded=*/true}};
}

LogicalResult ScatterNdOp::verify() {
  RankedTensorType input = typeOf(getInput()), updates = typeOf(getUpdates());
  int64_t columns = getIndices().size(), rank = input.getRank();
  if (columns == 0)
    return emitOpError("has no indices");
  if (columns > rank)
    return emitOpError() << "has indices of " << columns << " dimensions, input has rank " << rank;
  for (Value indices : getIndices())
    if (failed(verifyRank(*this, "indices", indices, 1)))
      return failure();
  if (failed(verifyRank(*this, "updates", getUpdates(), 1 + rank - columns)) ||
      failed(verifySameElement(*this, "updates", getUpdates(), "input", getInput())) ||
      failed(verifyKind(*this, getKind(), getInput())))
    return failure();
  for (Value indices : getIndices())
    if (failed(
            verifyCount(*this, "indices", typeOf(indices).getDimSize(0), "elements", "updates", updates.getDimSize(0))))
      return failure();
  for (int64_t d = columns; d < rank; ++d)
    if (failed(verifySize(*this, "input", input.getDimSize(d), d, "updates", updates.getDimSize(1 + d - columns))))
      return failure();
  return success();
}

INTARSIA_RESULT_LIKE_FIRST(ScatterNdOp)

SizePairs ScatterNdOp::getEqualSizes(SizesRange sizes) {
  SizePairs pairs;
  size_t columns = getIndices().size();
  const Sizes &updates = sizes.back();
  for (size_t column = 0; column < columns; ++column)
    pairs.push_back({sizes[1 + column][0], updates[0]});
  for (size_t d = columns; d < sizes[0].size(); ++d)
    pairs.push_back({sizes[0][d], updates[1 + d - columns]});
  return pairs;
}

/// Each slice is compared with all indices; where it is not set, so is each element.
Work ScatterNdOp::getWork(SizesRange operandSizes, SizesRange resultSizes) {
  size_t columns = getIndices().size();
  ArrayRef<AffineExpr> slices(resultSizes[0]);
  AffineExpr compared = elementCount(getContext(), getKind() == ScatterKind::Set ? slices.take_front(columns) : slices);
  return {compared * operandSizes.back()[0] * int64_t(2 * columns), getAffineConstantExpr(0, getContext())};
}

SmallVector<IndexOperand> ScatterNdOp::getIndexOperands(SizesRange sizes) {
  SmallVector<IndexOperand> result;
  for (unsigned column = 0; column < getIndices().size(); ++column)
    result.push_back({1 + column, "indices", sizes[0][column], /*isGuarded=*/true});
  return result;
}
