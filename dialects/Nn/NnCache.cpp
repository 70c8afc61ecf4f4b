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

//===-- Append of codes ----------------------------------------------------------------------------------------===//

/// Refuses a group that does not hold one quantized value of 4 or 8 bits for each feature or slot.
static LogicalResult verifyCodes(Operation *op, StringRef name, RankedTensorType codes, int64_t elements,
                                 StringRef ofWhat) {
  int64_t bytes = codes.getShape().back();
  if (bytes == elements || (bytes * 2 == elements && elements % 32 == 0))
    return success();
  return op->emitOpError() << name << " has " << bytes << " bytes for " << elements << " " << ofWhat << ", must have "
                           << elements << " for 8 bits"
                           << (elements % 32 == 0 ? " or " + Twine(elements / 2) + " for 4 bits"
                                                  : Twine("; 4 bits need a multiple of 32"));
}

/// Scales and zeros of `count` groups of each page and head.
static LogicalResult verifyParameters(Operation *op, StringRef name, Value parameters, StringRef codesName, Value codes,
                                      int64_t count) {
  if (failed(verifyRank(op, name, parameters, 4)) || failed(verifyStatic(op, name, typeOf(parameters))))
    return failure();
  RankedTensorType type = typeOf(parameters), codesType = typeOf(codes);
  if (failed(verifyCount(op, name, type.getDimSize(0), "pages", codesName, codesType.getDimSize(0))) ||
      failed(verifyCount(op, name, type.getDimSize(1), "heads", codesName, codesType.getDimSize(1))) ||
      failed(verifyCount(op, name, type.getDimSize(3), "groups", codesName, count)))
    return failure();
  if (type.getDimSize(2) != 2)
    return op->emitOpError() << name << " has " << type.getDimSize(2) << " rows, must have 2: scales and zeros";
  return success();
}

/// tail [sequences, heads, features, page] beside rows [tokens, heads, features].
static LogicalResult verifyTail(Operation *op, Value tail, Value rows) {
  if (failed(verifyRank(op, "tail", tail, 4)) || failed(verifyRank(op, "rows", rows, 3)))
    return failure();
  RankedTensorType type = typeOf(tail);
  if (llvm::any_of(type.getShape().drop_front(), ShapedType::isDynamic))
    return op->emitOpError() << "tail is " << type << ": only the number of sequences may be dynamic";
  if (failed(verifyCount(op, "rows", typeOf(rows).getDimSize(1), "heads", "tail", type.getDimSize(1))))
    return failure();
  return verifyCount(op, "rows", typeOf(rows).getDimSize(2), "features", "tail", type.getDimSize(2));
}

CodeLayout nn::codeLayoutOf(CacheAppendQuantizedOp op) {
  ArrayRef<int64_t> codes = op.getCodes().getType().getShape();
  int64_t page = op.getTail() ? typeOf(op.getTail()).getShape().back() : codes[2];
  int64_t elements = op.getTail() ? page : op.getRows().getType().getDimSize(2);
  return {page, codes[3] * 8 / elements};
}

LogicalResult CacheAppendQuantizedOp::verify() {
  if (failed(verifyRank(*this, "codes", getCodes(), 4)) || failed(verifyRank(*this, "rows", getRows(), 3)))
    return failure();
  RankedTensorType codes = typeOf(getCodes()), rows = typeOf(getRows());
  if (failed(verifyStatic(*this, "codes", codes)) ||
      failed(verifyCount(*this, "rows", rows.getDimSize(1), "heads", "codes", codes.getDimSize(1))))
    return failure();
  if (rows.isDynamicDim(2))
    return emitOpError("number of features of rows must be static");
  if (getTail()) {
    if (failed(verifyTail(*this, getTail(), getRows())) ||
        failed(verifyCount(*this, "rows", rows.getDimSize(2), "features", "codes", codes.getDimSize(2))) ||
        failed(verifyCodes(*this, "codes", codes, lastSize(getTail()), "slots")))
      return failure();
  } else if (failed(verifyCodes(*this, "codes", codes, rows.getDimSize(2), "features"))) {
    return failure();
  }
  if (failed(verifyParameters(*this, "parameters", getParameters(), "codes", getCodes(), codes.getDimSize(2))))
    return failure();
  return verifyPlaces(*this, "rows", rows.getDimSize(0), getPositions(), getSequences(), getPageTable());
}

LogicalResult CacheAppendQuantizedOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                                       DictionaryAttr, OpaqueProperties, RegionRange,
                                                       SmallVectorImpl<Type> &results) {
  llvm::append_values(results, operands[0].getType(), operands[1].getType());
  return success();
}

SmallVector<Sizes> CacheAppendQuantizedOp::inferResultSizes(SizesRange sizes) { return {sizes[0], sizes[1]}; }

SizePairs CacheAppendQuantizedOp::getEqualSizes(SizesRange sizes) {
  const Sizes &rows = sizes[2];
  SizePairs pairs = {{rows[0], sizes[3][0]}, {rows[0], sizes[4][0]}, {sizes[0][0], sizes[1][0]}};
  if (getTail())
    pairs.push_back({sizes[6][0], sizes[5][0]});
  return pairs;
}

Work CacheAppendQuantizedOp::getWork(SizesRange, SizesRange) { return {}; }

//===-- Tail ---------------------------------------------------------------------------------------------------===//

LogicalResult TailAppendOp::verify() {
  if (failed(verifyTail(*this, getTail(), getRows())) || failed(verifyRank(*this, "positions", getPositions(), 1)) ||
      failed(verifyRank(*this, "sequences", getSequences(), 1)))
    return failure();
  int64_t tokens = typeOf(getRows()).getDimSize(0);
  if (failed(verifyCount(*this, "positions", typeOf(getPositions()).getDimSize(0), "tokens", "rows", tokens)))
    return failure();
  return verifyCount(*this, "sequences", typeOf(getSequences()).getDimSize(0), "tokens", "rows", tokens);
}

LogicalResult TailAppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                             DictionaryAttr, OpaqueProperties, RegionRange,
                                             SmallVectorImpl<Type> &results) {
  results.push_back(operands.front().getType());
  return success();
}

SmallVector<Sizes> TailAppendOp::inferResultSizes(SizesRange sizes) { return {sizes[0]}; }

SizePairs TailAppendOp::getEqualSizes(SizesRange sizes) {
  return {{sizes[1][0], sizes[2][0]}, {sizes[1][0], sizes[3][0]}};
}

Work TailAppendOp::getWork(SizesRange, SizesRange) { return {}; }

//===-- Attention ----------------------------------------------------------------------------------------------===//

CodeLayout nn::codeLayoutOf(CachedAttentionOp op) {
  RankedTensorType keys = op.getKeys().getType();
  if (!op.getTail())
    return {keys.getDimSize(3), keys.getElementTypeBitWidth()};
  int64_t page = typeOf(op.getTail()).getDimSize(3);
  return {page, keys.getDimSize(3) * 8 / page};
}

/// Features of a value, which as codes have the bits of those of keys.
static int64_t valueFeatures(RankedTensorType keys, RankedTensorType values, RankedTensorType tail) {
  int64_t stored = values.getDimSize(3);
  if (!tail)
    return stored;
  int64_t keyBytes = keys.getDimSize(3), page = tail.getDimSize(3);
  if (ShapedType::isDynamic(stored) || ShapedType::isDynamic(keyBytes) || ShapedType::isDynamic(page) || keyBytes == 0)
    return ShapedType::kDynamic;
  return stored * page / keyBytes;
}

LogicalResult CachedAttentionOp::verify() {
  if (int64_t given =
          llvm::count_if(std::initializer_list<Value>{getKeyParameters(), getValueParameters(), getRows(), getTail()},
                         [](Value value) { return static_cast<bool>(value); });
      given != 0 && given != 4)
    return emitOpError() << "has " << given << " of key_parameters, value_parameters, rows and tail, which codes need "
                         << "all four of";
  if (failed(verifyRank(*this, "query", getQuery(), 3)) || failed(verifyRank(*this, "keys", getKeys(), 4)) ||
      failed(verifyRank(*this, "values", getValues(), 4)))
    return failure();
  RankedTensorType query = typeOf(getQuery()), keys = typeOf(getKeys()), values = typeOf(getValues());
  if (failed(verifyStatic(*this, "keys", keys)) || failed(verifyStatic(*this, "values", values)) ||
      failed(verifySameElement(*this, "values", getValues(), "keys", getKeys())) ||
      failed(verifyCount(*this, "values", values.getDimSize(0), "pages", "keys", keys.getDimSize(0))) ||
      failed(verifyCount(*this, "values", values.getDimSize(1), "heads", "keys", keys.getDimSize(1))) ||
      failed(verifyCount(*this, "values", values.getDimSize(2), "slots a page", getTail() ? "tail" : "keys",
                         lastSize(getTail() ? getTail() : getKeys()))) ||
      failed(verifyCount(*this, "keys", keys.getDimSize(2), "features a head", "query", query.getDimSize(2))))
    return failure();
  if (getTail()) {
    if (!keys.getElementType().isInteger(8))
      return emitOpError() << "keys holds " << keys.getElementType() << ", codes are 'i8'";
    if (failed(verifyTail(*this, getTail(), getRows())) ||
        failed(verifyCount(*this, "tail", typeOf(getTail()).getDimSize(1), "heads", "keys", keys.getDimSize(1))) ||
        failed(verifyCount(*this, "tail", typeOf(getTail()).getDimSize(2), "features", "keys", keys.getDimSize(2))) ||
        failed(verifyCodes(*this, "keys", keys, lastSize(getTail()), "slots")) ||
        failed(verifyCodes(*this, "values", values, valueFeatures(keys, values, typeOf(getTail())), "features")) ||
        failed(verifyParameters(*this, "key_parameters", getKeyParameters(), "keys", getKeys(), keys.getDimSize(2))) ||
        failed(verifyParameters(*this, "value_parameters", getValueParameters(), "values", getValues(),
                                values.getDimSize(2))) ||
        failed(verifyCount(*this, "rows", typeOf(getRows()).getDimSize(0), "tokens", "query", query.getDimSize(0))))
      return failure();
  }
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
  // With parameters, rows and tail there are four operands more, the tail is the last.
  auto keys = dyn_cast<RankedTensorType>(operands[1].getType());
  auto tail = operands.size() >= 10 ? dyn_cast<RankedTensorType>(operands.back().getType()) : RankedTensorType();
  if (!keys || keys.getRank() != 4 || (tail && tail.getRank() != 4))
    return emitOptionalError(location, "'nn.cached_attention' op needs keys and a tail of rank 4");
  results.push_back(RankedTensorType::get({query.getDimSize(0), query.getDimSize(1), valueFeatures(keys, values, tail)},
                                          query.getElementType()));
  return success();
}

SmallVector<Sizes> CachedAttentionOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  result.back() = getAffineConstantExpr(typeOf(getResult()).getShape().back(), getContext());
  return {result};
}

SizePairs CachedAttentionOp::getEqualSizes(SizesRange sizes) {
  const Sizes &query = sizes[0];
  SizePairs pairs = {{query[0], sizes[3][0]}, {query[0], sizes[4][0]}, {sizes[1][0], sizes[2][0]}};
  if (!getTail())
    return pairs;
  ArrayRef<SmallVector<AffineExpr>> quantized = sizes.take_back(4);
  pairs.push_back({sizes[1][0], quantized[0][0]});
  pairs.push_back({sizes[1][0], quantized[1][0]});
  pairs.push_back({query[0], quantized[2][0]});
  pairs.push_back({sizes[5][0], quantized[3][0]});
  return pairs;
}

/// Every token sees all places that its sequence's pages have: the positions are not known ahead of time.
Work CachedAttentionOp::getWork(SizesRange operandSizes, SizesRange resultSizes) {
  const Sizes &query = operandSizes[0];
  AffineExpr scores = query[0] * query[1] * operandSizes[5][1] * codeLayoutOf(*this).page;
  return {scores * (query[2] * 2 + resultSizes[0].back() * 2 + 5), scores};
}
