//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/MixedBlocks.h"
#include "dialects/Nn/Ops/Shared.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

RowInput nn::rowInputOf(Value operand) {
  auto dequantize = operand.getDefiningOp<DequantizeOp>();
  if (!dequantize)
    return {operand, {}};
  auto quantize = dequantize.getQuantized().getDefiningOp<QuantizeOp>();
  if (!quantize)
    return {operand, {dequantize}};
  return {quantize.getInput(), {dequantize, quantize}};
}

//===-- Quantize
//---------------------------------------------------------------------------------------------------===//

bool QuantizeOp::hasRowScales() { return getTensorScale() && typeOf(getTensorScale()).getRank() != 0; }

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
      op.getWideBlocks() || format.getBlock() != 0)
    return op.emitOpError() << "has unit scales, which are of i8 with one scale in f32 for all features, without zero "
                               "points and without blocks of 8 and of 4 bits; the format is "
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

INTARSIA_NO_EQUAL_SIZES(QuantizeOp)

Work QuantizeOp::getWork(SizesRange operandSizes, SizesRange) { return workOfElements(*this, operandSizes[0], 4, 0); }

//===-- Dequantize
//-------------------------------------------------------------------------------------------------===//

bool DequantizeOp::hasRowScales() { return getTensorScale() && typeOf(getTensorScale()).getRank() != 0; }

LogicalResult DequantizeOp::verify() {
  auto format = dyn_cast<BlockFormatAttr>(getFormat());
  if (getUnitScale() && (!format || format.getElement() != BlockElement::I8 || format.getScale() != BlockScale::F32 ||
                         !getScales() || getZeroPoints()))
    return emitOpError() << "has unit scales, which are of i8 with scales in f32 and without zero points";
  return getFormat().verifyOperands(
      *this, cast<RankedTensorType>(getType()),
      {getQuantized(), getScales(), getZeroPoints(), getTensorScale(), getGroupIndices(), getCodebook()});
}

SmallVector<Sizes> DequantizeOp::inferResultSizes(SizesRange sizes) {
  return {getFormat().getDequantizedSizes(sizes[0])};
}

SizePairs DequantizeOp::getEqualSizes(SizesRange sizes) {
  SizePairs pairs;
  if (!getScales())
    return pairs;
  Sizes blocks = getFormat().getScaleSizes(sizes[0]);
  if (blocks.empty()) // the format is for weights only; the verifier has checked their sizes
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

Work DequantizeOp::getWork(SizesRange operandSizes, SizesRange) { return workOfElements(*this, operandSizes[0], 2, 0); }
