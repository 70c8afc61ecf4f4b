//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

LogicalResult RoiAlignOp::verify() {
  RankedTensorType input = typeOf(getInput()), boxes = typeOf(getBoxes());
  if (failed(verifyRank(*this, "input", getInput(), 4)) || failed(verifyRank(*this, "boxes", getBoxes(), 2)) ||
      failed(verifyRank(*this, "images", getImages(), 1)))
    return failure();
  if (boxes.getDimSize(1) != 4)
    return emitOpError() << "boxes is " << boxes << ", a box has 4 numbers";
  if (failed(verifyCount(*this, "boxes", boxes.getDimSize(0), "regions", "images", typeOf(getImages()).getDimSize(0))))
    return failure();
  if (getSizes().size() != 2)
    return emitOpError() << "has " << getSizes().size() << " sizes, a height and a width are needed";
  for (int64_t size : getSizes())
    if (size < 1)
      return emitOpError() << "has the size " << size << ", the least is 1";
  if (int64_t(getSamples()) < 1)
    return emitOpError() << "has " << int64_t(getSamples()) << " samples, the least is 1";
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (int64_t size : getSizes())
    if (size > most / std::min(int64_t(getSamples()), most))
      return emitOpError() << "has " << int64_t(getSamples()) << " samples in each of " << size
                           << " cells, the most are " << most << " in all";
  if (!std::isfinite(getSpatialScale().convertToFloat()))
    return emitOpError("has a spatial scale that is not finite");
  for (int64_t d = 0; d < 3; ++d)
    if (input.getDimSize(d) == 0 && boxes.getDimSize(0) != 0)
      return emitOpError() << "input has no elements in dimension " << d;
  return success();
}

LogicalResult RoiAlignOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                           DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                           SmallVectorImpl<Type> &results) {
  RoiAlignOp::Adaptor op(operands, attributes, properties, regions);
  auto input = dyn_cast<RankedTensorType>(op.getInput().getType());
  auto boxes = dyn_cast<RankedTensorType>(op.getBoxes().getType());
  auto images = dyn_cast<RankedTensorType>(op.getImages().getType());
  if (!input || !boxes || !images || input.getRank() != 4 || boxes.getRank() != 2 || images.getRank() != 1 ||
      op.getSizes().size() != 2)
    return emitOptionalError(location, "'nn.roi_align' op needs an input of rank 4, boxes of rank 2, images of rank 1 "
                                       "and two sizes");
  SmallVector<int64_t> shape = {known(boxes.getDimSize(0), images.getDimSize(0)),
                                std::max<int64_t>(op.getSizes()[0], 0), std::max<int64_t>(op.getSizes()[1], 0),
                                input.getDimSize(3)};
  results.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SmallVector<Sizes> RoiAlignOp::inferResultSizes(SizesRange sizes) {
  auto number = [&](int64_t size) { return getAffineConstantExpr(size, getContext()); };
  return {{sizes[1][0], number(getSizes()[0]), number(getSizes()[1]), sizes[0][3]}};
}

SizePairs RoiAlignOp::getEqualSizes(SizesRange sizes) { return {{sizes[1][0], sizes[2][0]}}; }

SizePairs RoiAlignOp::getLeastSizes(SizesRange sizes) {
  AffineExpr one = getAffineConstantExpr(1, getContext());
  return {{one, sizes[0][1]}, {one, sizes[0][2]}};
}

Work RoiAlignOp::getWork(SizesRange, SizesRange resultSizes) {
  return workOfElements(*this, resultSizes[0], 8 * getSamples() * getSamples(), 0);
}

SmallVector<IndexOperand> RoiAlignOp::getIndexOperands(SizesRange sizes) {
  return {{getImagesMutable().getOperandNumber(), "images", sizes[0][0], /*isGuarded=*/true}};
}
