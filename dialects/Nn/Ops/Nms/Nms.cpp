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

LogicalResult NmsOp::verify() {
  if (failed(verifyRank(*this, "boxes", getBoxes(), 3)) || failed(verifyRank(*this, "scores", getScores(), 3)) ||
      failed(verifyRank(*this, "limit", getLimit(), 0)) ||
      failed(verifyRank(*this, "iou_threshold", getIouThreshold(), 0)) ||
      (getScoreThreshold() && failed(verifyRank(*this, "score_threshold", getScoreThreshold(), 0))))
    return failure();
  RankedTensorType boxes = typeOf(getBoxes()), scores = typeOf(getScores());
  if (boxes.getDimSize(2) != 4)
    return emitOpError() << "boxes is " << boxes << ", a box has 4 numbers";
  if (failed(verifyCount(*this, "boxes", boxes.getDimSize(0), "batches", "scores", scores.getDimSize(0))))
    return failure();
  return verifyCount(*this, "boxes", boxes.getDimSize(1), "boxes", "scores", scores.getDimSize(2));
}

LogicalResult NmsOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, ValueRange operands,
                                      DictionaryAttr, OpaqueProperties, RegionRange, SmallVectorImpl<Type> &results) {
  auto boxes = dyn_cast<RankedTensorType>(operands[0].getType());
  auto scores = dyn_cast<RankedTensorType>(operands[1].getType());
  if (!boxes || !scores || boxes.getRank() != 3 || scores.getRank() != 3)
    return emitOptionalError(location, "'nn.nms' op needs boxes and scores of rank 3");
  int64_t rows = 1;
  for (int64_t size : {known(boxes.getDimSize(0), scores.getDimSize(0)), scores.getDimSize(1),
                       known(boxes.getDimSize(1), scores.getDimSize(2))})
    rows = ShapedType::isDynamic(rows) || ShapedType::isDynamic(size) ? ShapedType::kDynamic : rows * size;
  Type i64 = IntegerType::get(context, 64);
  results.push_back(RankedTensorType::get({rows, 3}, i64));
  results.push_back(RankedTensorType::get({}, i64));
  return success();
}

SmallVector<Sizes> NmsOp::inferResultSizes(SizesRange sizes) {
  return {{elementCount(getContext(), sizes[1]), getAffineConstantExpr(3, getContext())}, {}};
}

SizePairs NmsOp::getEqualSizes(SizesRange sizes) { return {{sizes[0][0], sizes[1][0]}, {sizes[0][1], sizes[1][2]}}; }

/// Boxes are sorted, then each is compared with those that are taken: of 64 here.
Work NmsOp::getWork(SizesRange operandSizes, SizesRange) { return workOfElements(*this, operandSizes[1], 64 * 20, 0); }
