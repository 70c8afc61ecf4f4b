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

LogicalResult GridSampleOp::verify() {
  RankedTensorType input = typeOf(getInput()), grid = typeOf(getGrid());
  if (failed(verifyLeastRank(*this, "input", getInput(), 3)))
    return failure();
  int64_t spatial = input.getRank() - 2;
  if (spatial > 3)
    return emitOpError() << "input has " << spatial << " spatial dimensions, the most are 3";
  if (failed(verifyRank(*this, "grid", getGrid(), input.getRank())) ||
      failed(verifyCount(*this, "grid", grid.getDimSize(0), "images", "input", input.getDimSize(0))))
    return failure();
  if (lastSize(getGrid()) != spatial)
    return emitOpError() << "grid is " << grid << ", whose last dimension must have the " << spatial
                         << " coordinates of the input's spatial dimensions";
  for (int64_t d = 1; d <= spatial; ++d)
    if (input.getDimSize(d) == 0)
      return emitOpError() << "input has no elements in dimension " << d;
  return success();
}

LogicalResult GridSampleOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                             DictionaryAttr, OpaqueProperties, RegionRange,
                                             SmallVectorImpl<Type> &results) {
  auto input = dyn_cast<RankedTensorType>(operands[0].getType());
  auto grid = operands.size() > 1 ? dyn_cast<RankedTensorType>(operands[1].getType()) : RankedTensorType();
  if (!input || !grid || input.getRank() != grid.getRank() || input.getRank() == 0)
    return emitOptionalError(location, "'nn.grid_sample' op needs an input and a grid of the same rank");
  SmallVector<int64_t> shape(grid.getShape());
  shape.front() = known(input.getDimSize(0), shape.front());
  shape.back() = input.getShape().back();
  results.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SmallVector<Sizes> GridSampleOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[1];
  result.front() = sizes[0].front();
  result.back() = sizes[0].back();
  return {result};
}

SizePairs GridSampleOp::getEqualSizes(SizesRange sizes) { return {{sizes[0][0], sizes[1][0]}}; }

SizePairs GridSampleOp::getLeastSizes(SizesRange sizes) {
  SizePairs pairs;
  for (AffineExpr size : ArrayRef(sizes[0]).drop_front().drop_back())
    pairs.push_back({getAffineConstantExpr(1, getContext()), size});
  return pairs;
}

Work GridSampleOp::getWork(SizesRange, SizesRange resultSizes) {
  int64_t reads = 1, each = getKind() == Interpolation::Nearest ? 1 : getKind() == Interpolation::Linear ? 2 : 4;
  for (int64_t d = 0; d < typeOf(getInput()).getRank() - 2; ++d)
    reads *= each;
  return workOfElements(*this, resultSizes[0], 2 * reads, 0);
}
