//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// Sizes and work of the ops, as expressions. Operation counts follow the formulas in NnOps.td; divisions, square roots
// and comparisons count as one operation each.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

using SizesRange = llvm::ArrayRef<llvm::SmallVector<AffineExpr>>;

//===-- Sizes --------------------------------------------------------------------------------------------------===//

#define INTARSIA_SIZES_LIKE_FIRST(Op)                                                                                  \
  SmallVector<Sizes> Op::inferResultSizes(SizesRange sizes) { return {sizes[0]}; }
INTARSIA_SIZES_LIKE_FIRST(SoftmaxOp)
INTARSIA_SIZES_LIKE_FIRST(RopeOp)
INTARSIA_SIZES_LIKE_FIRST(GeluOp)
INTARSIA_SIZES_LIKE_FIRST(SiluOp)
INTARSIA_SIZES_LIKE_FIRST(ReluOp)
INTARSIA_SIZES_LIKE_FIRST(TanhOp)
INTARSIA_SIZES_LIKE_FIRST(SigmoidOp)
#undef INTARSIA_SIZES_LIKE_FIRST

SmallVector<Sizes> LinearOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  result.back() = sizes[1][0];
  return {result};
}

SmallVector<Sizes> MatmulOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  size_t rank = result.size();
  result[rank - 2] = sizes[0][getTransposeLhs() ? rank - 1 : rank - 2];
  result[rank - 1] = sizes[1][getTransposeRhs() ? rank - 2 : rank - 1];
  return {result};
}

SmallVector<Sizes> AttentionOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  result.back() = sizes[2].back();
  return {result};
}

SmallVector<Sizes> EmbeddingOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[1];
  result.push_back(sizes[0][1]);
  return {result};
}

SmallVector<Sizes> QuantizeOp::inferResultSizes(SizesRange sizes) {
  int64_t axis = getFormat().getAxis(), block = getFormat().getBlock();
  Sizes scales = sizes[0];
  scales[axis] = block == 0 ? getAffineConstantExpr(1, getContext()) : scales[axis].ceilDiv(block);
  SmallVector<Sizes> results = {sizes[0], scales};
  if (getZeroPoints())
    results.push_back(scales);
  if (getTensorScale())
    results.push_back({});
  if (hasRowScales()) {
    results.back() = sizes[0];
    results.back()[axis] = getAffineConstantExpr(1, getContext());
  }
  return results;
}

SmallVector<Sizes> DequantizeOp::inferResultSizes(SizesRange sizes) {
  return {getFormat().getDequantizedSizes(sizes[0])};
}

//===-- Sizes that must be equal -------------------------------------------------------------------------------===//

#define INTARSIA_NO_EQUAL_SIZES(Op)                                                                                    \
  SizePairs Op::getEqualSizes(SizesRange) { return {}; }
INTARSIA_NO_EQUAL_SIZES(SoftmaxOp)
INTARSIA_NO_EQUAL_SIZES(GeluOp)
INTARSIA_NO_EQUAL_SIZES(SiluOp)
INTARSIA_NO_EQUAL_SIZES(ReluOp)
INTARSIA_NO_EQUAL_SIZES(TanhOp)
INTARSIA_NO_EQUAL_SIZES(SigmoidOp)
INTARSIA_NO_EQUAL_SIZES(EmbeddingOp)
INTARSIA_NO_EQUAL_SIZES(QuantizeOp)
#undef INTARSIA_NO_EQUAL_SIZES

SizePairs LinearOp::getEqualSizes(SizesRange sizes) {
  SizePairs pairs = {{sizes[0].back(), sizes[1][1]}};
  if (getBias())
    pairs.emplace_back(sizes[1][0], sizes[2][0]);
  return pairs;
}

SizePairs MatmulOp::getEqualSizes(SizesRange sizes) {
  size_t rank = sizes[0].size();
  SizePairs pairs = {
      {sizes[0][getTransposeLhs() ? rank - 2 : rank - 1], sizes[1][getTransposeRhs() ? rank - 1 : rank - 2]}};
  for (size_t dimension = 0; dimension + 2 < rank; ++dimension)
    pairs.emplace_back(sizes[0][dimension], sizes[1][dimension]);
  return pairs;
}

SizePairs AttentionOp::getEqualSizes(SizesRange sizes) {
  const Sizes &query = sizes[0], &key = sizes[1], &value = sizes[2];
  SizePairs pairs = {{query[0], key[0]}, {query[0], value[0]}, {key[1], value[1]}, {query[3], key[3]}};
  if (!getMask())
    return pairs;
  const AffineExpr scores[] = {query[0], query[2], query[1], key[1]};
  auto mask = cast<RankedTensorType>(getMask().getType());
  for (int64_t dimension = 0; dimension != 4; ++dimension)
    if (mask.getDimSize(dimension) != 1 || dimension == 3)
      pairs.emplace_back(scores[dimension], sizes[3][dimension]);
  return pairs;
}

SizePairs RopeOp::getEqualSizes(SizesRange sizes) {
  SizePairs pairs;
  for (auto [size, positions] : llvm::zip(sizes[0], sizes[1]))
    pairs.emplace_back(size, positions);
  return pairs;
}

SizePairs DequantizeOp::getEqualSizes(SizesRange sizes) {
  SizePairs pairs;
  if (!getScales())
    return pairs;
  Sizes blocks = getFormat().getScaleSizes(sizes[0]);
  if (blocks.empty()) // of weights alone, whose sizes are verified
    return pairs;
  for (unsigned operand = 1; operand != (getZeroPoints() ? 3u : 2u); ++operand)
    for (auto [expected, size] : llvm::zip_equal(blocks, sizes[operand]))
      pairs.emplace_back(expected, size);
  // Rows along the axis have a scale each: all other sizes are those of the values.
  if (hasRowScales())
    for (auto [dimension, value] : llvm::enumerate(sizes[0]))
      if (int64_t(dimension) != cast<BlockFormatAttr>(getFormat()).getAxis())
        pairs.emplace_back(value, sizes.back()[dimension]);
  return pairs;
}

//===-- Work ---------------------------------------------------------------------------------------------------===//

/// So many operations and transcendental evaluations for each element of a tensor.
static Work workOfElements(Operation *op, ArrayRef<AffineExpr> sizes, int64_t flops, int64_t transcendentals) {
  AffineExpr count = elementCount(op->getContext(), sizes);
  return {count * flops, count * transcendentals};
}

#define INTARSIA_WORK_OF_ELEMENTS(Op, flops, transcendentals)                                                          \
  Work Op::getWork(SizesRange operandSizes, SizesRange) {                                                              \
    return workOfElements(*this, operandSizes[0], flops, transcendentals);                                             \
  }
INTARSIA_WORK_OF_ELEMENTS(SoftmaxOp, 4, 1)
INTARSIA_WORK_OF_ELEMENTS(GeluOp, 4, 1)
INTARSIA_WORK_OF_ELEMENTS(SiluOp, 3, 1)
INTARSIA_WORK_OF_ELEMENTS(ReluOp, 1, 0)
INTARSIA_WORK_OF_ELEMENTS(TanhOp, 0, 1)
INTARSIA_WORK_OF_ELEMENTS(SigmoidOp, 2, 1)
INTARSIA_WORK_OF_ELEMENTS(QuantizeOp, 4, 0)
INTARSIA_WORK_OF_ELEMENTS(DequantizeOp, 2, 0)
#undef INTARSIA_WORK_OF_ELEMENTS

Work LinearOp::getWork(SizesRange operandSizes, SizesRange resultSizes) {
  AffineExpr count = elementCount(getContext(), resultSizes[0]);
  AffineExpr flops = count * (operandSizes[0].back() * 2);
  return {getBias() ? flops + count : flops, nullptr};
}

Work MatmulOp::getWork(SizesRange operandSizes, SizesRange resultSizes) {
  size_t rank = operandSizes[0].size();
  AffineExpr inner = operandSizes[0][getTransposeLhs() ? rank - 2 : rank - 1];
  return {elementCount(getContext(), resultSizes[0]) * (inner * 2), nullptr};
}

Work AttentionOp::getWork(SizesRange operandSizes, SizesRange) {
  const Sizes &query = operandSizes[0], &key = operandSizes[1], &value = operandSizes[2];
  AffineExpr scores = query[0] * query[1] * query[2] * key[1];
  if (getCausal())
    scores = scores.ceilDiv(2);
  // Both matrix multiplications, then scale, maximum, subtraction, sum and division of the softmax.
  return {scores * (query[3] * 2 + value[3] * 2 + 5), scores};
}

Work EmbeddingOp::getWork(SizesRange, SizesRange) { return {}; }

Work RopeOp::getWork(SizesRange operandSizes, SizesRange) {
  AffineExpr positions = elementCount(getContext(), operandSizes[1]), rotated = operandSizes[2][0] * 2;
  AffineExpr heads = operandSizes[0][operandSizes[0].size() - 2];
  // Sine and cosine of an angle serve all heads of a position.
  return {positions * heads * rotated * 3, positions * rotated};
}
