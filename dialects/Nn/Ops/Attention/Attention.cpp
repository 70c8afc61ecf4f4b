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

static LogicalResult verifyMask(AttentionOp op, RankedTensorType query, RankedTensorType key) {
  if (failed(verifyRank(op, "mask", op.getMask(), 4)))
    return failure();
  RankedTensorType mask = typeOf(op.getMask());
  const int64_t sizes[] = {known(query.getDimSize(0), key.getDimSize(0)), query.getDimSize(2), query.getDimSize(1),
                           key.getDimSize(1)};
  const StringRef names[] = {"batch", "heads", "queries", "keys"};
  for (int64_t dimension = 0; dimension != 4; ++dimension) {
    int64_t size = mask.getDimSize(dimension);
    if (agree(size, sizes[dimension]) || (size == 1 && dimension != 3))
      continue;
    return op.emitOpError() << "mask has size " << size << " in dimension " << dimension << " (" << names[dimension]
                            << "), the scores have " << sizes[dimension];
  }
  return success();
}

LogicalResult AttentionOp::verify() {
  bool isInteger = getPrecision() && getPrecision()->isSignlessInteger(8);
  if (!isInteger && failed(verifyPrecision(*this, getPrecision(), ", i8")))
    return failure();
  for (auto [name, value] :
       {std::pair<StringRef, Value>("query", getQuery()), {"key", getKey()}, {"value", getValue()}})
    if (failed(verifyRank(*this, name, value, 4)) || failed(verifySameElement(*this, name, value, "query", getQuery())))
      return failure();
  RankedTensorType query = typeOf(getQuery()), key = typeOf(getKey()), value = typeOf(getValue());
  if (failed(verifyCount(*this, "key", key.getDimSize(0), "batch entries", "query", query.getDimSize(0))) ||
      failed(verifyCount(*this, "value", value.getDimSize(0), "batch entries", "query", query.getDimSize(0))) ||
      failed(verifyCount(*this, "value", value.getDimSize(1), "positions", "key", key.getDimSize(1))) ||
      failed(verifyCount(*this, "value", value.getDimSize(2), "heads", "key", key.getDimSize(2))) ||
      failed(verifyCount(*this, "key", key.getDimSize(3), "features a head", "query", query.getDimSize(3))))
    return failure();
  if (query.isDynamicDim(2) || key.isDynamicDim(2))
    return emitOpError("number of heads is dynamic, must be static");
  if (key.getDimSize(2) == 0 || query.getDimSize(2) % key.getDimSize(2) != 0)
    return emitOpError() << "query has " << query.getDimSize(2) << " heads, no multiple of the " << key.getDimSize(2)
                         << " heads of key";
  return getMask() ? verifyMask(*this, query, key) : success();
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                            DictionaryAttr, OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type> &results) {
  auto query = dyn_cast<RankedTensorType>(operands[0].getType());
  auto value = operands.size() > 2 ? dyn_cast<RankedTensorType>(operands[2].getType()) : RankedTensorType();
  if (!query || !value || query.getRank() != 4 || value.getRank() != 4)
    return emitOptionalError(location, "'nn.attention' op needs query, key and value of rank 4");
  results.push_back(withLastSize(query, value.getDimSize(3)));
  return success();
}

SmallVector<Sizes> AttentionOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  result.back() = sizes[2].back();
  return {result};
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

Work AttentionOp::getWork(SizesRange operandSizes, SizesRange) {
  const Sizes &query = operandSizes[0], &key = operandSizes[1], &value = operandSizes[2];
  AffineExpr scores = query[0] * query[1] * query[2] * key[1];
  if (getCausal())
    scores = scores.ceilDiv(2);
  // Both matrix multiplications, then scale, maximum, subtraction, sum and division of the softmax.
  return {scores * (query[3] * 2 + value[3] * 2 + 5), scores};
}

namespace {
/// An additive mask of zeros and a boolean mask of ones hide nothing.
struct DropOpenMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    DenseElementsAttr mask;
    if (!op.getMask() || !matchPattern(op.getMask(), m_Constant(&mask)) || !mask.isSplat())
      return rewriter.notifyMatchFailure(op, "mask is no splat constant");
    bool isOpen = mask.getElementType().isInteger(1) ? mask.getSplatValue<bool>() : isSplatZero(mask);
    if (!isOpen)
      return rewriter.notifyMatchFailure(op, "mask hides keys or shifts scores");
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
    return success();
  }
};
} // namespace

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropOpenMask>(context);
}
