//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Paged caches: their formats, and the ops on them.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

//===-- Formats ------------------------------------------------------------------------------------------------===//

/// 16 bytes hold 32 elements of 4 bits.
static constexpr int64_t packedElements = 32;

bool CacheFormatAttr::isQuantized() const { return getElement().isUnsignedInteger(); }

Type CacheFormatAttr::getElement() const {
  return getDecidedElement() ? getDecidedElement() : Float32Type::get(getContext());
}

LogicalResult CacheFormatAttr::verify(function_ref<InFlightDiagnostic()> emitError, CacheKind kind, Type element,
                                      int64_t page, bool transposed, bool unrotated) {
  if (unrotated && (kind != CacheKind::Keys || !element || !element.isUnsignedInteger()))
    return emitError() << "only quantized keys are unrotated";
  if (!element)
    return page == 0 ? success()
                     : emitError() << "a page of " << page << " tokens of undecided elements: say which, as in <"
                                   << stringifyCacheKind(kind) << ", f32, page = " << page << ">";
  if (!isa<Float32Type, Float16Type, BFloat16Type, Float8E4M3FNType>(element) && !element.isUnsignedInteger(4) &&
      !element.isUnsignedInteger(8))
    return emitError() << "a cache of " << element << ": elements are f32, f16, bf16, f8E4M3FN, ui4 or ui8";
  if (transposed && kind == CacheKind::Values && element.isUnsignedInteger())
    return emitError() << "pages of quantized values cannot be transposed: a group is the row of a token";
  if (transposed && element.isUnsignedInteger(4) && page % packedElements != 0)
    return emitError() << "transposed pages of " << page << " tokens of 4 bits, must have a multiple of "
                       << packedElements;
  return success();
}

Attribute CacheFormatAttr::parse(AsmParser &parser, Type) {
  llvm::SMLoc at = parser.getCurrentLocation();
  StringRef word;
  Type element;
  int64_t page = 0;
  bool transposed = false, unrotated = false;
  if (parser.parseLess() || parser.parseKeyword(&word))
    return nullptr;
  std::optional<CacheKind> kind = symbolizeCacheKind(word);
  if (!kind)
    return parser.emitError(at, "a cache holds 'keys' or 'values', not '") << word << "'", nullptr;
  bool hasPage = false;
  if (succeeded(parser.parseOptionalComma())) {
    hasPage = succeeded(parser.parseOptionalKeyword("page"));
    if (!hasPage) {
      if (parser.parseType(element))
        return nullptr;
      hasPage = succeeded(parser.parseOptionalComma());
      if (hasPage && succeeded(parser.parseOptionalKeyword("unrotated"))) {
        unrotated = true;
        hasPage = succeeded(parser.parseOptionalComma());
      }
      if (hasPage && parser.parseKeyword("page"))
        return nullptr;
    }
  }
  if (hasPage) {
    llvm::SMLoc number;
    if (parser.parseEqual() || parser.getCurrentLocation(&number) || parser.parseInteger(page))
      return nullptr;
    if (page < 1)
      return parser.emitError(number, "a page of ") << page << " tokens, must have at least 1", nullptr;
    if (succeeded(parser.parseOptionalComma())) {
      if (parser.parseKeyword("transposed"))
        return nullptr;
      transposed = true;
    }
  }
  if (parser.parseGreater())
    return nullptr;
  return parser.getChecked<CacheFormatAttr>(at, parser.getContext(), *kind, element, page, transposed, unrotated);
}

void CacheFormatAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyCacheKind(getKind());
  if (getDecidedElement())
    printer << ", " << getDecidedElement();
  if (getUnrotated())
    printer << ", unrotated";
  if (!isOpen())
    printer << ", page = " << getPage();
  if (getTransposed())
    printer << ", transposed";
  printer << ">";
}

SmallVector<CacheTensor> CacheFormatAttr::getTensors(int64_t heads, int64_t features) const {
  Builder builder(getContext());
  int64_t page = isOpen() ? ShapedType::kDynamic : getPage();
  int64_t rows = getTransposed() ? features : page, columns = getTransposed() ? page : features;
  int64_t slots = getSlotDimension();
  bool isFloat = !isQuantized() && getBits() > 8;
  if (getBits() == 4 && !ShapedType::isDynamic(columns))
    columns /= 2; // two elements a byte
  SmallVector<CacheTensor> tensors = {
      {"", isFloat ? getElement() : builder.getI8Type(), true, {heads, rows, columns}, slots}};
  if (isQuantized()) {
    bool isKeys = getKind() == CacheKind::Keys;
    tensors.push_back({"parameters", builder.getI8Type(), true, {heads, 2, isKeys ? features : page}, isKeys ? -1 : 3});
  }
  if (hasTail()) {
    rows = getTransposed() ? features : page, columns = getTransposed() ? page : features;
    tensors.push_back({"tail", builder.getF16Type(), false, {heads, rows, columns}, slots});
  }
  return tensors;
}

int64_t CacheFormatAttr::getFeatures(RankedTensorType elements) const {
  int64_t size = elements.getDimSize(getFeatureDimension());
  bool isPacked = getBits() == 4 && !getTransposed() && !ShapedType::isDynamic(size);
  return isPacked ? int64_t(uint64_t(size) * 2) : size; // of any size that IR may have
}

CacheFormatAttr CacheFormatAttr::withElement(Type element) const {
  return get(getContext(), getKind(), element, getPage(), getTransposed(), /*unrotated=*/false);
}

CacheFormatAttr CacheFormatAttr::withLayout(int64_t page, bool transposed) const {
  return get(getContext(), getKind(), getElement(), page, transposed, getUnrotated());
}

CacheFormatAttr CacheFormatAttr::withoutRotation() const {
  return get(getContext(), getKind(), getElement(), getPage(), getTransposed(), /*unrotated=*/true);
}

//===-- What both ops check ------------------------------------------------------------------------------------===//

/// Positions and sequences of the tokens.
static LogicalResult verifySlots(Operation *op, StringRef name, int64_t tokens, Value positions, Value sequences) {
  if (failed(verifyRank(op, "positions", positions, 1)) || failed(verifyRank(op, "sequences", sequences, 1)) ||
      failed(verifyCount(op, "positions", typeOf(positions).getDimSize(0), "tokens", name, tokens)))
    return failure();
  return verifyCount(op, "sequences", typeOf(sequences).getDimSize(0), "tokens", name, tokens);
}

/// Verifies the frequencies by which keys are turned: they are there if the format needs them, and a head of so many
/// `features` has a pair for each.
static LogicalResult verifyFrequencies(Operation *op, Value frequencies, bool areNeeded, CacheFormatAttr format,
                                       int64_t features) {
  if (static_cast<bool>(frequencies) != areNeeded)
    return op->emitOpError() << (frequencies
                                     ? "has frequencies, which only pages of unrotated keys need; the format is "
                                     : "has no frequencies, which unrotated keys are turned by; the format is ")
                             << format;
  if (!frequencies)
    return success();
  RankedTensorType type = typeOf(frequencies);
  if (type.getRank() != 1 || !type.getElementType().isF32() || type.isDynamicDim(0))
    return op->emitOpError() << "type of frequencies is " << type << ", must be f32 of rank 1 and of static size";
  if (2 * type.getDimSize(0) > features)
    return op->emitOpError() << "has " << type.getDimSize(0) << " frequencies, heads of " << features
                             << " features have at most " << features / 2 << " pairs";
  return success();
}

/// The operands `name` are the tensors of a cache, those from `first` on. A null page table is not compared with.
static LogicalResult verifyTensors(Operation *op, StringRef name, CacheFormatAttr format, ValueRange values,
                                   unsigned first, int64_t heads, int64_t features, Value pageTable) {
  if (format.getBits() == 4 && !format.getTransposed() && features % packedElements != 0)
    return op->emitOpError() << name << " have 4 bits and heads of " << features << " features, which must be a "
                             << "multiple of " << packedElements;
  SmallVector<CacheTensor> tensors = format.getTensors(heads, features);
  int64_t pages = typeOf(values.front()).getDimSize(0);
  for (auto [number, value] : llvm::enumerate(values)) {
    const CacheTensor &tensor = tensors[first + number];
    RankedTensorType type = typeOf(value), needed = tensor.type(type.getDimSize(0));
    if (type != needed)
      return op->emitOpError() << "tensor " << number << " of " << name << " is " << type << ", " << format << " with "
                               << heads << " heads of " << features << " features needs " << needed;
    if (tensor.isPaged) {
      if (!agree(type.getDimSize(0), pages))
        return op->emitOpError() << "tensor " << number << " of " << name << " has " << type.getDimSize(0)
                                 << " pages, tensor 0 has " << pages;
    } else if (pageTable && failed(verifyCount(op, "the tail of " + name.str(), type.getDimSize(0), "sequences",
                                               "page_table", typeOf(pageTable).getDimSize(0)))) {
      return failure();
    }
  }
  return success();
}

/// There are `count` tensors of rank 4 in a cache.
static LogicalResult verifyTensorCount(Operation *op, StringRef name, CacheFormatAttr format, ValueRange values,
                                       unsigned count, StringRef what) {
  if (values.size() != count)
    return op->emitOpError() << name << " are " << values.size() << " tensors, " << format << " has " << count << what;
  for (auto [number, value] : llvm::enumerate(values))
    if (failed(verifyRank(op, "tensor " + std::to_string(number) + " of " + name.str(), value, 4)))
      return failure();
  return success();
}

/// Appends the conditions that the tensors of one cache put on sizes; `first` is the operand that comes first.
static void appendEqualSizes(SizePairs &pairs, CacheFormatAttr format, SizesRange sizes, unsigned first, unsigned count,
                             const Sizes &pageTable) {
  SmallVector<CacheTensor> tensors = format.getTensors(/*heads=*/1, /*features=*/1);
  for (unsigned i = 0; i < count; ++i) {
    const CacheTensor &tensor = tensors[i];
    pairs.push_back({tensor.isPaged ? sizes[first][0] : pageTable[0], sizes[first + i][0]});
    if (format.isOpen() && tensor.slotDimension >= 0)
      pairs.push_back({sizes[first][tensors[0].slotDimension], sizes[first + i][tensor.slotDimension]});
  }
  llvm::erase_if(pairs, [](const auto &pair) { return pair.first == pair.second; });
}

//===-- Append -------------------------------------------------------------------------------------------------===//

LogicalResult CacheAppendOp::verify() {
  CacheFormatAttr format = getFormat();
  if (getTail() && !format.hasTail())
    return emitOpError() << "updates the tail of " << format << ", which has none";
  if (getTail() == static_cast<bool>(getPageTable()))
    return emitOpError() << (getTail() ? "updates a tail and has a page_table, which only pages need"
                                       : "has no page_table, which pages need");
  if (failed(verifyRank(*this, "rows", getRows(), 3)) ||
      (getPageTable() && failed(verifyRank(*this, "page_table", getPageTable(), 2))) ||
      failed(verifyTensorCount(*this, "cache", format, getCache(), getTail() ? 1 : format.getTensorCount(),
                               getTail() ? " tail" : "")))
    return failure();
  RankedTensorType rows = getRows().getType();
  if (rows.isDynamicDim(1) || rows.isDynamicDim(2))
    return emitOpError("number of heads and features a head of rows must be static");
  if (failed(verifyTensors(*this, "cache", format, getCache(), getTail() ? format.getPagedCount() : 0,
                           rows.getDimSize(1), rows.getDimSize(2), getPageTable())))
    return failure();
  if (failed(
          verifyFrequencies(*this, getFrequencies(), format.getUnrotated() && !getTail(), format, rows.getDimSize(2))))
    return failure();
  return verifySlots(*this, "rows", rows.getDimSize(0), getPositions(), getSequences());
}

LogicalResult CacheAppendOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                              DictionaryAttr attributes, OpaqueProperties properties,
                                              RegionRange regions, SmallVectorImpl<Type> &results) {
  CacheAppendOp::Adaptor op(operands, attributes, properties, regions);
  unsigned updated = op.getTail() ? 1 : op.getFormat().getPagedCount();
  if (op.getCache().size() < updated)
    return emitOptionalError(location, "'nn.cache_append' op cache are ", op.getCache().size(), " tensors, ",
                             op.getFormat(), " has ", op.getFormat().getTensorCount());
  llvm::append_range(results, op.getCache().take_front(updated).getTypes());
  return success();
}

SmallVector<Sizes> CacheAppendOp::inferResultSizes(SizesRange sizes) {
  return SmallVector<Sizes>(sizes.take_front(getNumResults()));
}

SizePairs CacheAppendOp::getEqualSizes(SizesRange sizes) {
  const Sizes &rows = sizes[getRowsMutable().getOperandNumber()];
  SizePairs pairs = {{rows[0], sizes[getPositionsMutable().getOperandNumber()][0]},
                     {rows[0], sizes[getSequencesMutable().getOperandNumber()][0]}};
  if (getPageTable())
    appendEqualSizes(pairs, getFormat(), sizes, 0, getCache().size(),
                     sizes[getPageTableMutable().begin()->getOperandNumber()]);
  return pairs;
}

Work CacheAppendOp::getWork(SizesRange, SizesRange) { return {}; }

//===-- Attention ----------------------------------------------------------------------------------------------===//

/// The two caches and the rows that are not in their pages yet.
static LogicalResult verifyCaches(CachedAttentionOp op) {
  CacheFormatAttr keyFormat = op.getKeyFormat(), valueFormat = op.getValueFormat();
  for (auto [name, format, kind] : {std::tuple("key_format", keyFormat, CacheKind::Keys),
                                    std::tuple("value_format", valueFormat, CacheKind::Values)})
    if (format.getKind() != kind)
      return op.emitOpError() << name << " is " << format << ", must be of " << stringifyCacheKind(kind);
  if (keyFormat.getPage() != valueFormat.getPage())
    return op.emitOpError() << "key_format is " << keyFormat << ", value_format is " << valueFormat
                            << ": both must have pages of one size";
  if (static_cast<bool>(op.getRows()) != keyFormat.hasTail())
    return op.emitOpError() << (op.getRows() ? "has rows, which only keys with a tail need; key_format is "
                                             : "has no rows of new keys, which the tail of keys needs; key_format is ")
                            << keyFormat;
  if (failed(verifyTensorCount(op, "keys", keyFormat, op.getKeys(), keyFormat.getTensorCount(), "")) ||
      failed(verifyTensorCount(op, "values", valueFormat, op.getValues(), valueFormat.getTensorCount(), "")))
    return failure();
  RankedTensorType query = op.getQuery().getType();
  int64_t heads = typeOf(op.getKeys()[0]).getDimSize(1), pages = typeOf(op.getKeys()[0]).getDimSize(0);
  if (ShapedType::isDynamic(heads))
    return op.emitOpError("number of heads of keys must be static");
  if (failed(verifyTensors(op, "keys", keyFormat, op.getKeys(), 0, heads, query.getDimSize(2), op.getPageTable())) ||
      failed(verifyTensors(op, "values", valueFormat, op.getValues(), 0, heads,
                           valueFormat.getFeatures(typeOf(op.getValues()[0])), op.getPageTable())))
    return failure();
  if (failed(verifyCount(op, "values", typeOf(op.getValues()[0]).getDimSize(0), "pages", "keys", pages)))
    return failure();
  if (!op.getRows())
    return success();
  if (failed(verifyRank(op, "rows", op.getRows(), 3)) ||
      failed(verifyCount(op, "rows", typeOf(op.getRows()).getDimSize(0), "tokens", "query", query.getDimSize(0))) ||
      failed(verifyCount(op, "rows", typeOf(op.getRows()).getDimSize(1), "heads", "keys", heads)))
    return failure();
  return verifyCount(op, "rows", typeOf(op.getRows()).getDimSize(2), "features a head", "query", query.getDimSize(2));
}

LogicalResult CachedAttentionOp::verify() {
  if (failed(verifyPrecision(*this, getPrecision())) || failed(verifyRank(*this, "query", getQuery(), 3)) ||
      failed(verifyRank(*this, "page_table", getPageTable(), 2)))
    return failure();
  RankedTensorType query = getQuery().getType();
  if (query.isDynamicDim(1) || query.isDynamicDim(2))
    return emitOpError("number of heads and features a head of query must be static");
  if (failed(verifyCaches(*this)))
    return failure();
  int64_t keyHeads = typeOf(getKeys()[0]).getDimSize(1);
  if (keyHeads == 0 || query.getDimSize(1) % keyHeads != 0)
    return emitOpError() << "query has " << query.getDimSize(1) << " heads, no multiple of the " << keyHeads
                         << " heads of keys";
  if (getWindow() && *getWindow() < 1)
    return emitOpError() << "window is " << *getWindow() << ", must be at least 1";
  if (getSoftCap() && !(getSoftCap()->isFinite() && getSoftCap()->convertToFloat() > 0))
    return emitOpError() << "soft_cap is " << getSoftCap()->convertToFloat() << ", must be positive";
  if (getSinks() && (failed(verifyRank(*this, "sinks", getSinks(), 1)) ||
                     failed(verifyCount(*this, "sinks", lastSize(getSinks()), "heads", "query", query.getDimSize(1)))))
    return failure();
  if (failed(verifyFrequencies(*this, getFrequencies(), getKeyFormat().getUnrotated(), getKeyFormat(),
                               query.getDimSize(2))))
    return failure();
  return verifySlots(*this, "query", query.getDimSize(0), getPositions(), getSequences());
}

LogicalResult CachedAttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                                  DictionaryAttr attributes, OpaqueProperties properties,
                                                  RegionRange regions, SmallVectorImpl<Type> &results) {
  CachedAttentionOp::Adaptor op(operands, attributes, properties, regions);
  auto query = dyn_cast<RankedTensorType>(op.getQuery().getType());
  auto values =
      op.getValues().empty() ? RankedTensorType() : dyn_cast<RankedTensorType>(op.getValues().front().getType());
  if (!query || !values || query.getRank() != 3 || values.getRank() != 4)
    return emitOptionalError(location, "'nn.cached_attention' op needs a query of rank 3 and values of rank 4");
  results.push_back(RankedTensorType::get(
      {query.getDimSize(0), query.getDimSize(1), op.getValueFormat().getFeatures(values)}, query.getElementType()));
  return success();
}

SmallVector<Sizes> CachedAttentionOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  result.back() = getAffineConstantExpr(typeOf(getResult()).getShape().back(), getContext());
  return {result};
}

SizePairs CachedAttentionOp::getEqualSizes(SizesRange sizes) {
  const Sizes &query = sizes[0], &pageTable = sizes[getPageTableMutable().getOperandNumber()];
  unsigned keys = getODSOperandIndexAndLength(1).first, values = getODSOperandIndexAndLength(2).first;
  SizePairs pairs = {{query[0], sizes[getPositionsMutable().getOperandNumber()][0]},
                     {query[0], sizes[getSequencesMutable().getOperandNumber()][0]},
                     {sizes[keys][0], sizes[values][0]}};
  if (getKeyFormat().isOpen())
    pairs.push_back(
        {sizes[keys][getKeyFormat().getSlotDimension()], sizes[values][getValueFormat().getSlotDimension()]});
  if (getRows())
    pairs.push_back({query[0], sizes[getRowsMutable().begin()->getOperandNumber()][0]});
  appendEqualSizes(pairs, getKeyFormat(), sizes, keys, getKeys().size(), pageTable);
  appendEqualSizes(pairs, getValueFormat(), sizes, values, getValues().size(), pageTable);
  return pairs;
}

/// Every token sees all slots that its sequence's pages have: the positions are known only when a call is made.
Work CachedAttentionOp::getWork(SizesRange operandSizes, SizesRange resultSizes) {
  const Sizes &query = operandSizes[0], &keys = operandSizes[getODSOperandIndexAndLength(1).first];
  const Sizes &pageTable = operandSizes[getPageTableMutable().getOperandNumber()];
  AffineExpr page = getKeyFormat().isOpen() ? keys[getKeyFormat().getSlotDimension()]
                                            : getAffineConstantExpr(getKeyFormat().getPage(), getContext());
  AffineExpr scores = query[0] * query[1] * pageTable[1] * page;
  return {scores * (query[2] * 2 + resultSizes[0].back() * 2 + 5), scores};
}

//===-- Indices and states
//-----------------------------------------------------------------------------------------===//

/// Returns the operands that say where in a cache tokens are: slots, rows of the page table, pages.
static SmallVector<IndexOperand> slotOperands(SizesRange sizes, OpOperand &positions, OpOperand &sequences,
                                              OpOperand &pageTable, CacheFormatAttr format, unsigned cache) {
  const Sizes &table = sizes[pageTable.getOperandNumber()];
  AffineExpr page = format.isOpen() ? sizes[cache][format.getSlotDimension()]
                                    : getAffineConstantExpr(format.getPage(), format.getContext());
  return {{positions.getOperandNumber(), "positions", table[1] * page},
          {sequences.getOperandNumber(), "sequences", table[0]},
          {pageTable.getOperandNumber(), "page_table", sizes[cache][0]}};
}

SmallVector<IndexOperand> CacheAppendOp::getIndexOperands(SizesRange sizes) {
  if (getTail())
    return {{getSequencesMutable().getOperandNumber(), "sequences", sizes[0][0]}};
  return slotOperands(sizes, getPositionsMutable(), getSequencesMutable(), *getPageTableMutable().begin(), getFormat(),
                      /*cache=*/0);
}

SmallVector<IndexOperand> CachedAttentionOp::getIndexOperands(SizesRange sizes) {
  return slotOperands(sizes, getPositionsMutable(), getSequencesMutable(), getPageTableMutable(), getKeyFormat(),
                      getKeysMutable().begin()->getOperandNumber());
}

OpOperand &CacheAppendOp::getUpdatedOperand(unsigned result) { return getCacheMutable()[result]; }
