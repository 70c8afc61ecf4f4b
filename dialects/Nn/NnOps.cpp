//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// Verifiers and inferred result types.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/FileNames.h"
#include "dialects/Nn/MixedBlocks.h"
#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Verify.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

#define GET_OP_CLASSES
#include "dialects/Nn/NnOps.cpp.inc"

bool nn::areCompatible(TypeRange a, TypeRange b) {
  if (a.size() != b.size())
    return false;
  for (auto [left, right] : llvm::zip_equal(a, b))
    if (getElementTypeOrSelf(left) != getElementTypeOrSelf(right) || failed(verifyCompatibleShape(left, right)))
      return false;
  return true;
}

/// The type of `value` with the last dimension replaced, or without change if it has none.
static RankedTensorType withLastSize(RankedTensorType type, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  if (!shape.empty())
    shape.back() = size;
  return RankedTensorType::get(shape, type.getElementType());
}

//===-- Weights -----------------------------------------------------------------------------------------------===//

LogicalResult ArchiveOp::verify() {
  if (getFile().empty())
    return emitOpError("file is empty, must name an archive");
  if (!isBelowDirectory(getFile()))
    return emitOpError() << "file is " << getFileAttr()
                         << ", which is not below the directory of the model: name archives from a directory that "
                            "holds them all, and give that with --archives";
  return success();
}

LogicalResult WeightOp::verify() {
  if (getKey().empty())
    return emitOpError("key is empty, must name a tensor of the archive");
  if (!cast<RankedTensorType>(getType()).hasStaticShape())
    return emitOpError() << "has type " << getType() << ", a weight has a static shape";
  return success();
}

LogicalResult WeightOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  Operation *symbol = symbolTable.lookupNearestSymbolFrom(*this, getArchiveAttr());
  if (!symbol)
    return emitOpError() << "archive " << getArchiveAttr() << " is not defined";
  if (!isa<ArchiveOp>(symbol))
    return emitOpError() << "archive " << getArchiveAttr() << " is a '" << symbol->getName()
                         << "', must be an 'nn.archive'";
  return success();
}

//===-- Contractions ------------------------------------------------------------------------------------------===//

LogicalResult LinearOp::verify() {
  if (failed(verifyPrecision(*this, getPrecision())) || failed(verifyLeastRank(*this, "input", getInput(), 1)) ||
      failed(verifyRank(*this, "weight", getWeight(), 2)) ||
      failed(verifyStoredElement(*this, "weight", getWeight(), "input", getInput())) ||
      failed(verifyCount(*this, "weight", lastSize(getWeight()), "input features", "input", lastSize(getInput()))))
    return failure();
  if (!getBias())
    return success();
  if (failed(verifyRank(*this, "bias", getBias(), 1)) ||
      failed(verifyStoredElement(*this, "bias", getBias(), "input", getInput())))
    return failure();
  return verifyCount(*this, "bias", lastSize(getBias()), "output features", "weight",
                     typeOf(getWeight()).getDimSize(0));
}

LogicalResult LinearOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr, OpaqueProperties, RegionRange,
                                         SmallVectorImpl<Type> &results) {
  auto input = dyn_cast<RankedTensorType>(operands[0].getType());
  auto weight = operands.size() > 1 ? dyn_cast<RankedTensorType>(operands[1].getType()) : RankedTensorType();
  if (!input || !weight || weight.getRank() != 2)
    return emitOptionalError(location, "'nn.linear' op needs a ranked input and a weight of rank 2");
  results.push_back(withLastSize(input, weight.getDimSize(0)));
  return success();
}

LogicalResult MatmulOp::verify() {
  RankedTensorType lhs = typeOf(getLhs()), rhs = typeOf(getRhs());
  int64_t rank = lhs.getRank();
  if (rank != rhs.getRank())
    return emitOpError() << "lhs has rank " << rank << ", rhs has rank " << rhs.getRank();
  if (failed(verifyPrecision(*this, getPrecision())) || failed(verifyLeastRank(*this, "lhs", getLhs(), 2)) ||
      failed(verifySameElement(*this, "lhs", getLhs(), "rhs", getRhs())))
    return failure();
  for (int64_t dimension = 0; dimension != rank - 2; ++dimension)
    if (!agree(lhs.getDimSize(dimension), rhs.getDimSize(dimension)))
      return emitOpError() << "batch dimension " << dimension << " of lhs is " << lhs.getDimSize(dimension)
                           << ", of rhs is " << rhs.getDimSize(dimension);
  int64_t lhsInner = lhs.getDimSize(getTransposeLhs() ? rank - 2 : rank - 1);
  int64_t rhsInner = rhs.getDimSize(getTransposeRhs() ? rank - 1 : rank - 2);
  if (!agree(lhsInner, rhsInner))
    return emitOpError() << "sums over " << lhsInner << " elements of lhs, " << rhsInner << " of rhs";
  return success();
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                         SmallVectorImpl<Type> &results) {
  MatmulOp::Adaptor op(operands, attributes, properties, regions);
  auto lhs = dyn_cast<RankedTensorType>(op.getLhs().getType());
  auto rhs = dyn_cast<RankedTensorType>(op.getRhs().getType());
  if (!lhs || !rhs || lhs.getRank() < 2 || lhs.getRank() != rhs.getRank())
    return emitOptionalError(location, "'nn.matmul' op needs two tensors of equal rank, at least 2");
  int64_t rank = lhs.getRank();
  SmallVector<int64_t> shape;
  for (int64_t dimension = 0; dimension != rank - 2; ++dimension)
    shape.push_back(known(lhs.getDimSize(dimension), rhs.getDimSize(dimension)));
  shape.push_back(lhs.getDimSize(op.getTransposeLhs() ? rank - 1 : rank - 2));
  shape.push_back(rhs.getDimSize(op.getTransposeRhs() ? rank - 2 : rank - 1));
  results.push_back(RankedTensorType::get(shape, lhs.getElementType()));
  return success();
}

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

//===-- Rows --------------------------------------------------------------------------------------------------===//

static LogicalResult inferFirst(ValueRange operands, SmallVectorImpl<Type> &results) {
  results.push_back(operands.front().getType());
  return success();
}

LogicalResult SoftmaxOp::verify() { return verifyLeastRank(*this, "input", getInput(), 1); }

//===-- Positions and tables ----------------------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  if (failed(verifyRank(*this, "table", getTable(), 2)))
    return failure();
  int64_t rows = typeOf(getTable()).getDimSize(0);
  if (rows == 0)
    return emitOpError("table has no rows");
  DenseIntElementsAttr constant;
  if (ShapedType::isDynamic(rows) || !matchPattern(getIndices(), m_Constant(&constant)))
    return success();
  for (const APInt &index : constant)
    if (index.isNegative() || index.sge(rows))
      return emitOpError() << "index " << index.getSExtValue() << " is outside of the table, which has " << rows
                           << " rows";
  return success();
}

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                            DictionaryAttr, OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type> &results) {
  auto table = dyn_cast<RankedTensorType>(operands[0].getType());
  auto indices = operands.size() > 1 ? dyn_cast<RankedTensorType>(operands[1].getType()) : RankedTensorType();
  if (!table || !indices || table.getRank() != 2)
    return emitOptionalError(location, "'nn.embedding' op needs a table of rank 2 and ranked indices");
  SmallVector<int64_t> shape(indices.getShape());
  shape.push_back(table.getDimSize(1));
  results.push_back(RankedTensorType::get(shape, table.getElementType()));
  return success();
}

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

//===-- Inference of ops whose result is like the first operand -------------------------------------------------===//

#define INTARSIA_INFER_FIRST(Op)                                                                                       \
  LogicalResult Op::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,      \
                                     OpaqueProperties, RegionRange, SmallVectorImpl<Type> &results) {                  \
    return inferFirst(operands, results);                                                                              \
  }
INTARSIA_INFER_FIRST(SoftmaxOp)
INTARSIA_INFER_FIRST(RopeOp)
INTARSIA_INFER_FIRST(GeluOp)
INTARSIA_INFER_FIRST(SiluOp)
INTARSIA_INFER_FIRST(ReluOp)
INTARSIA_INFER_FIRST(TanhOp)
INTARSIA_INFER_FIRST(SigmoidOp)
#undef INTARSIA_INFER_FIRST

//===-- Block formats -----------------------------------------------------------------------------------------===//

LogicalResult BlockFormatAttr::verifyOperands(Operation *op, RankedTensorType whole,
                                              const QuantizedOperands &operands) const {
  auto [quantized, scales, zeroPoints, tensorScale, groupIndices, codebook] = operands;
  if (groupIndices || codebook)
    return op->emitOpError() << "has " << (groupIndices ? "group indices" : "a codebook")
                             << ", a block format has none";
  if (!scales)
    return op->emitOpError() << "has no scales, the format " << *this << " needs them";
  int64_t axis = getAxis();
  if (axis >= whole.getRank())
    return op->emitOpError() << "format has axis " << axis << ", the tensor has rank " << whole.getRank();
  auto verifyElement = [&](StringRef name, Value value, Type expected) -> LogicalResult {
    if (typeOf(value).getElementType() == expected)
      return success();
    return op->emitOpError() << "element of " << name << " is " << typeOf(value).getElementType()
                             << ", the format says " << expected;
  };
  auto verifyShape = [&](StringRef name, Value value, ArrayRef<int64_t> expected) -> LogicalResult {
    if (succeeded(verifyCompatibleShape(typeOf(value).getShape(), expected)))
      return success();
    return op->emitOpError() << "type of " << name << " is " << value.getType() << ", the format implies "
                             << RankedTensorType::get(expected, typeOf(value).getElementType());
  };
  SmallVector<int64_t> scaleShape(whole.getShape());
  scaleShape[axis] = getBlockCount(scaleShape[axis]);
  if (failed(verifyElement("quantized values", quantized, getStorageType())) ||
      failed(verifyShape("quantized values", quantized, whole.getShape())) ||
      failed(verifyElement("scales", scales, getScaleType())) || failed(verifyShape("scales", scales, scaleShape)))
    return failure();
  if (zeroPoints) {
    if (!mayHaveZeroPoints())
      return op->emitOpError() << "has zero points, elements " << stringifyBlockElement(getElement()) << " have none";
    if (failed(verifyElement("zero points", zeroPoints, getStorageType())) ||
        failed(verifyShape("zero points", zeroPoints, scaleShape)))
      return failure();
  }
  if (hasTensorScale() != static_cast<bool>(tensorScale))
    return op->emitOpError() << (tensorScale ? "has a tensor scale, the format has none"
                                             : "has no tensor scale, the format needs one");
  if (!tensorScale)
    return success();
  if (failed(verifyElement("tensor scale", tensorScale, Float32Type::get(op->getContext()))))
    return failure();
  SmallVector<int64_t> tensorScaleShape;
  if (typeOf(tensorScale).getRank() == whole.getRank()) {
    tensorScaleShape.assign(whole.getShape().begin(), whole.getShape().end());
    tensorScaleShape[axis] = 1;
  }
  return verifyShape("tensor scale", tensorScale, tensorScaleShape);
}

bool QuantizeOp::hasRowScales() { return getTensorScale() && typeOf(getTensorScale()).getRank() != 0; }

bool DequantizeOp::hasRowScales() { return getTensorScale() && typeOf(getTensorScale()).getRank() != 0; }

std::optional<int64_t> QuantizeOp::firstNarrowBlock() {
  return getWideBlocks() ? std::optional(int64_t(*getWideBlocks())) : std::nullopt;
}

ParseResult QuantizeOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand, 3> operands(1);
  bool hasChannels = false, hasFactors = false;
  FunctionType type;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseOperand(operands.front()) ||
      ((hasChannels = succeeded(parser.parseOptionalKeyword("channels"))) &&
       parser.parseOperand(operands.emplace_back())) ||
      ((hasFactors = succeeded(parser.parseOptionalKeyword("factors"))) &&
       parser.parseOperand(operands.emplace_back())) ||
      parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), location, result.operands))
    return failure();
  result.addTypes(type.getResults());
  auto format = dyn_cast_if_present<BlockFormatAttr>(result.attributes.get(getFormatAttrName(result.name)));
  if (!format)
    return parser.emitError(location, "needs an attribute format = #nn.block_format<…>");
  // The format says which of the two optional results a third one is.
  int32_t count = type.getNumResults(), tensorScale = format.hasTensorScale();
  int32_t zeroPoints = count - 2 - tensorScale;
  if (zeroPoints < 0 || zeroPoints > 1)
    return parser.emitError(location) << "has " << count << " results, the format implies " << 2 + tensorScale
                                      << (format.mayHaveZeroPoints() ? ", or one more for zero points" : "");
  result.getOrAddProperties<Properties>().resultSegmentSizes = {1, 1, zeroPoints, tensorScale};
  result.getOrAddProperties<Properties>().operandSegmentSizes = {1, int32_t(hasChannels), int32_t(hasFactors)};
  return success();
}

void QuantizeOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getInput();
  if (getChannels())
    printer << " channels " << getChannels();
  if (getFactors())
    printer << " factors " << getFactors();
  printer.printOptionalAttrDict((*this)->getAttrs(), {getOperandSegmentSizeAttr(), getResultSegmentSizeAttr()});
  printer << " : ";
  printer.printFunctionalType(*this);
}

/// Verifies that channels are a permutation of the features along an axis, as far as they are known.
static LogicalResult verifyChannels(QuantizeOp op, int64_t features) {
  RankedTensorType type = typeOf(op.getChannels());
  if (type.getRank() != 1 || !type.getElementType().isInteger(32))
    return op.emitOpError() << "type of channels is " << type << ", must be i32 of rank 1";
  if (failed(verifyCount(op, "channels", type.getDimSize(0), "entries", "input", features)))
    return failure();
  DenseIntElementsAttr constant;
  if (!matchPattern(op.getChannels(), m_Constant(&constant)))
    return success();
  llvm::BitVector seen(unsigned(type.getDimSize(0)));
  for (const APInt &channel : constant) {
    if (channel.isNegative() || channel.sge(type.getDimSize(0)))
      return op.emitOpError() << "channel " << channel.getSExtValue() << " is outside of the input, which has "
                              << type.getDimSize(0) << " features";
    if (seen.test(unsigned(channel.getZExtValue())))
      return op.emitOpError() << "channel " << channel.getSExtValue() << " is named twice";
    seen.set(unsigned(channel.getZExtValue()));
  }
  return success();
}

/// Verifies that there is a finite factor for each feature along an axis, as far as they are known.
static LogicalResult verifyFactors(QuantizeOp op, int64_t features) {
  RankedTensorType type = typeOf(op.getFactors());
  if (type.getRank() != 1 || !type.getElementType().isF32())
    return op.emitOpError() << "type of factors is " << type << ", must be f32 of rank 1";
  if (failed(verifyCount(op, "factors", type.getDimSize(0), "entries", "input", features)))
    return failure();
  DenseFPElementsAttr constant;
  if (matchPattern(op.getFactors(), m_Constant(&constant)))
    for (auto [feature, factor] : llvm::enumerate(constant.getValues<APFloat>()))
      if (!factor.isFinite())
        return op.emitOpError() << "factor of feature " << feature << " is not finite";
  return success();
}

/// Verifies that scales may be 1, whatever the input.
static LogicalResult verifyUnitScale(QuantizeOp op) {
  BlockFormatAttr format = op.getFormat();
  if (format.getElement() != BlockElement::I8 || format.getScale() != BlockScale::F32 || op.getZeroPoints() ||
      op.getWideBlocks())
    return op.emitOpError() << "has unit scales, which are of i8 with scales in f32, without zero points and without "
                               "blocks of 8 and of 4 bits; the format is "
                            << format;
  return success();
}

/// Verifies which blocks have integers of 8 bits.
static LogicalResult verifyWideBlocks(QuantizeOp op, int64_t wideBlocks, int64_t features) {
  BlockFormatAttr format = op.getFormat();
  if (format.getElement() != BlockElement::I8 || format.getBlock() != mixedBlock)
    return op.emitOpError() << "has blocks of 8 and of 4 bits, which are of i8 and of " << mixedBlock
                            << " features; the format is " << format;
  if (op.getZeroPoints())
    return op.emitOpError("has blocks of 8 and of 4 bits, and zero points: such blocks have none");
  int64_t blocks = format.getBlockCount(features);
  if (wideBlocks < 0 || (!ShapedType::isDynamic(blocks) && wideBlocks > blocks))
    return op.emitOpError() << "has " << wideBlocks << " blocks of 8 bits, the input has " << blocks << " blocks";
  return success();
}

LogicalResult QuantizeOp::verify() {
  RankedTensorType input = typeOf(getInput());
  int64_t axis = getFormat().getAxis();
  int64_t features = axis < input.getRank() ? input.getDimSize(axis) : ShapedType::kDynamic;
  if (getChannels() && failed(verifyChannels(*this, features)))
    return failure();
  if (getFactors() && failed(verifyFactors(*this, features)))
    return failure();
  if (getUnitScale() && failed(verifyUnitScale(*this)))
    return failure();
  if (getWideBlocks() && failed(verifyWideBlocks(*this, int64_t(*getWideBlocks()), features)))
    return failure();
  return getFormat().verifyOperands(*this, typeOf(getInput()),
                                    {getQuantized(), getScales(), getZeroPoints(), getTensorScale(),
                                     /*groupIndices=*/Value(),
                                     /*codebook=*/Value()});
}

LogicalResult DequantizeOp::verify() {
  return getFormat().verifyOperands(
      *this, cast<RankedTensorType>(getType()),
      {getQuantized(), getScales(), getZeroPoints(), getTensorScale(), getGroupIndices(), getCodebook()});
}

LogicalResult GgmlTypeAttr::verifyOperands(Operation *op, RankedTensorType whole,
                                           const QuantizedOperands &operands) const {
  const GgmlType &type = getType();
  if (operands.scales || operands.zeroPoints || operands.tensorScale || operands.groupIndices || operands.codebook)
    return op->emitOpError() << "has scales, blocks of " << type.keyword << " hold theirs";
  auto blocks = cast<RankedTensorType>(operands.values.getType());
  if (!blocks.getElementType().isInteger(8) || blocks.getRank() == 0)
    return op->emitOpError() << "blocks are " << blocks << ", must be rows of i8";
  int64_t bytes = blocks.getShape().back();
  bool isDynamic = ShapedType::isDynamic(bytes);
  if (!isDynamic && bytes % type.bytes != 0)
    return op->emitOpError() << "blocks have rows of " << bytes << " bytes, no multiple of the " << type.bytes
                             << " bytes of a block of " << type.keyword;
  SmallVector<int64_t> shape(blocks.getShape());
  shape.back() = isDynamic ? bytes : bytes / type.bytes * type.elements;
  auto expected = RankedTensorType::get(shape, Float32Type::get(getContext()));
  if (whole.getElementType() != expected.getElementType() || failed(verifyCompatibleShape(whole, expected)))
    return op->emitOpError() << "result is " << whole << ", the format implies " << expected;
  return success();
}
