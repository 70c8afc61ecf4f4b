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

LogicalResult RopeOp::verify() {
  if (failed(verifyLeastRank(*this, "input", getInput(), 3)) ||
      failed(verifyRank(*this, "positions", getPositions(), typeOf(getInput()).getRank() - 2)) ||
      failed(verifyRank(*this, "frequencies", getFrequencies(), 1)))
    return failure();
  RankedTensorType input = typeOf(getInput()), positions = typeOf(getPositions());
  for (int64_t dimension = 0; dimension != positions.getRank(); ++dimension)
    if (failed(verifyCount(*this, "positions", positions.getDimSize(dimension),
                           "entries in dimension " + Twine(dimension), "input", input.getDimSize(dimension))))
      return failure();
  int64_t frequencies = lastSize(getFrequencies()), features = lastSize(getInput());
  if (ShapedType::isDynamic(frequencies) || ShapedType::isDynamic(features))
    return emitOpError("number of features a head and of frequencies must be static");
  if (2 * frequencies > features)
    return emitOpError() << "rotates " << 2 * frequencies << " features, input has " << features << " a head";
  return success();
}

INTARSIA_RESULT_LIKE_FIRST(RopeOp)

SizePairs RopeOp::getEqualSizes(SizesRange sizes) {
  SizePairs pairs;
  for (auto [size, positions] : llvm::zip(sizes[0], sizes[1]))
    pairs.emplace_back(size, positions);
  return pairs;
}

Work RopeOp::getWork(SizesRange operandSizes, SizesRange) {
  AffineExpr positions = elementCount(getContext(), operandSizes[1]), rotated = operandSizes[2][0] * 2;
  AffineExpr heads = operandSizes[0][operandSizes[0].size() - 2];
  // Sine and cosine of an angle serve all heads of a position.
  return {positions * heads * rotated * 3, positions * rotated};
}
