//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// Ops on paged caches: verifiers, inferred types, sizes and work.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Verify.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

using SizesRange = llvm::ArrayRef<llvm::SmallVector<AffineExpr>>;
using SizePairs = SmallVector<std::pair<AffineExpr, AffineExpr>>;

/// Positions and sequences of the tokens, and the page table.
static LogicalResult verifyPlaces(Operation *op, StringRef name, int64_t tokens, Value positions, Value sequences,
                                  Value pageTable) {
  if (failed(verifyRank(op, "positions", positions, 1)) || failed(verifyRank(op, "sequences", sequences, 1)) ||
      failed(verifyRank(op, "page_table", pageTable, 2)) ||
      failed(verifyCount(op, "positions", typeOf(positions).getDimSize(0), "tokens", name, tokens)))
    return failure();
  return verifyCount(op, "sequences", typeOf(sequences).getDimSize(0), "tokens", name, tokens);
}

static LogicalResult verifyStatic(Operation *op, StringRef name, RankedTensorType cache) {
  if (llvm::none_of(cache.getShape().drop_front(), ShapedType::isDynamic))
    return success();
  return op->emitOpError() << name << " is " << cache << ": only the number of pages may be dynamic";
}

//===-- Append -------------------------------------------------------------------------------------------------===//

LogicalResult CacheAppendOp::verify() {
  if (failed(verifyRank(*this, "cache", getCache(), 4)) || failed(verifyRank(*this, "rows", getRows(), 3)))
    return failure();
  RankedTensorType cache = typeOf(getCache()), rows = typeOf(getRows());
  int64_t features = cache.getDimSize(getTransposed() ? 2 : 3);
  if (failed(verifyStatic(*this, "cache", cache)) ||
      failed(verifyCount(*this, "rows", rows.getDimSize(1), "heads", "cache", cache.getDimSize(1))) ||
      failed(verifyCount(*this, "rows", rows.getDimSize(2), "features", "cache", features)))
    return failure();
  return verifyPlaces(*this, "rows", rows.getDimSize(0), getPositions(), getSequences(), getPageTable());
}

LogicalResult CacheAppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                              DictionaryAttr, OpaqueProperties, RegionRange,
                                              SmallVectorImpl<Type> &results) {
  results.push_back(operands.front().getType());
  return success();
}

SmallVector<Sizes> CacheAppendOp::inferResultSizes(SizesRange sizes) { return {sizes[0]}; }

SizePairs CacheAppendOp::getEqualSizes(SizesRange sizes) {
  const Sizes &rows = sizes[1];
  return {{rows[0], sizes[2][0]}, {rows[0], sizes[3][0]}};
}

Work CacheAppendOp::getWork(SizesRange, SizesRange) { return {}; }

//===-- Attention ----------------------------------------------------------------------------------------------===//

LogicalResult CachedAttentionOp::verify() {
  if (failed(verifyRank(*this, "query", getQuery(), 3)) || failed(verifyRank(*this, "keys", getKeys(), 4)) ||
      failed(verifyRank(*this, "values", getValues(), 4)))
    return failure();
  RankedTensorType query = typeOf(getQuery()), keys = typeOf(getKeys()), values = typeOf(getValues());
  if (failed(verifyStatic(*this, "keys", keys)) || failed(verifyStatic(*this, "values", values)) ||
      failed(verifySameElement(*this, "values", getValues(), "keys", getKeys())) ||
      failed(verifyCount(*this, "values", values.getDimSize(0), "pages", "keys", keys.getDimSize(0))) ||
      failed(verifyCount(*this, "values", values.getDimSize(1), "heads", "keys", keys.getDimSize(1))) ||
      failed(verifyCount(*this, "values", values.getDimSize(2), "slots a page", "keys", keys.getDimSize(3))) ||
      failed(verifyCount(*this, "keys", keys.getDimSize(2), "features a head", "query", query.getDimSize(2))))
    return failure();
  if (query.isDynamicDim(1) || query.isDynamicDim(2))
    return emitOpError("number of heads and features a head of query must be static");
  if (keys.getDimSize(1) == 0 || query.getDimSize(1) % keys.getDimSize(1) != 0)
    return emitOpError() << "query has " << query.getDimSize(1) << " heads, no multiple of the " << keys.getDimSize(1)
                         << " heads of keys";
  if (getWindow() && *getWindow() < 1)
    return emitOpError() << "window is " << *getWindow() << ", must be at least 1";
  if (getSoftCap() && !(getSoftCap()->isFinite() && getSoftCap()->convertToFloat() > 0))
    return emitOpError() << "soft_cap is " << getSoftCap()->convertToFloat() << ", must be positive";
  if (getSinks() && (failed(verifyRank(*this, "sinks", getSinks(), 1)) ||
                     failed(verifyCount(*this, "sinks", lastSize(getSinks()), "heads", "query", query.getDimSize(1)))))
    return failure();
  return verifyPlaces(*this, "query", query.getDimSize(0), getPositions(), getSequences(), getPageTable());
}

LogicalResult CachedAttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                                  DictionaryAttr, OpaqueProperties, RegionRange,
                                                  SmallVectorImpl<Type> &results) {
  auto query = dyn_cast<RankedTensorType>(operands[0].getType());
  auto values = operands.size() > 2 ? dyn_cast<RankedTensorType>(operands[2].getType()) : RankedTensorType();
  if (!query || !values || query.getRank() != 3 || values.getRank() != 4)
    return emitOptionalError(location, "'nn.cached_attention' op needs a query of rank 3 and values of rank 4");
  results.push_back(
      RankedTensorType::get({query.getDimSize(0), query.getDimSize(1), values.getDimSize(3)}, query.getElementType()));
  return success();
}

SmallVector<Sizes> CachedAttentionOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  result.back() = sizes[2].back();
  return {result};
}

SizePairs CachedAttentionOp::getEqualSizes(SizesRange sizes) {
  const Sizes &query = sizes[0];
  return {{query[0], sizes[3][0]}, {query[0], sizes[4][0]}, {sizes[1][0], sizes[2][0]}};
}

/// Every token sees all places that its sequence's pages have: the positions are not known ahead of time.
Work CachedAttentionOp::getWork(SizesRange operandSizes, SizesRange) {
  const Sizes &query = operandSizes[0], &keys = operandSizes[1], &values = operandSizes[2];
  AffineExpr scores = query[0] * query[1] * operandSizes[5][1] * keys[3];
  return {scores * (query[2] * 2 + values[3] * 2 + 5), scores};
}
