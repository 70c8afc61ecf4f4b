//===- ArchiveFormats.cpp - Quantized matrices as archives of other tools hold them ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/BlockFormats.h"
#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Prepacking.h"
#include "dialects/Nn/Verify.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

static bool isUnsigned(BlockElement element) { return element == BlockElement::U4 || element == BlockElement::U8; }

/// Returns true if an archive has floats that are to be rounded to ternary values.
static bool isRoundedWhenPacked(ArchiveFormatAttr format) {
  return format.getElement() == BlockElement::Ternary && format.getOrder() == ArchiveOrder::Rows;
}

unsigned ArchiveFormatAttr::getBits() const {
  return getElement() == BlockElement::Ternary ? elementBits(getElement()) : storageBits(getElement());
}

unsigned ArchiveFormatAttr::getWordBits() const {
  // Floats that are rounded when they are packed are words of one value.
  if (isRoundedWhenPacked(*this))
    return getBits();
  return isUnsigned(getElement()) && getOrder() != ArchiveOrder::HighFirst ? 32 : 8;
}

int64_t ArchiveFormatAttr::getGroups(int64_t inputs) const {
  return getGroup() ? llvm::divideCeil(inputs, getGroup()) : 1;
}

int64_t ArchiveFormatAttr::getRowBlocks(int64_t outputs) const {
  return getRows() ? llvm::divideCeil(outputs, getRows()) : 1;
}

LogicalResult ArchiveFormatAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, ArchiveOrder order,
                                        BlockElement element, int64_t group, int64_t rows, int64_t zero, bool inverse,
                                        FloatAttr scaleDivisor, FloatAttr scaleOffset, BlockFormatAttr kept) {
  bool isTernary = element == BlockElement::Ternary;
  if (!isUnsigned(element) && element != BlockElement::I8 && element != BlockElement::E2M1 &&
      element != BlockElement::E4M3 && !isTernary)
    return emitError() << "archive format has elements " << stringifyBlockElement(element)
                       << ", must be u4, u8, i8, e2m1, e4m3 or ternary";
  bool fits =
      isTernary ? order == ArchiveOrder::Quarters || order == ArchiveOrder::Rows : order != ArchiveOrder::Quarters;
  if (!fits || (isTernary && (group != 0 || rows != 0 || zero != 1)))
    return emitError() << "archive format orders " << stringifyArchiveOrder(order) << " and has elements "
                       << stringifyBlockElement(element)
                       << ": ternary values lie in quarters or rows, have one scale (group = 0, rows = 0) and zero = 1";
  if (inverse && !isTernary)
    return emitError() << "archive format has inverse scales, which are for ternary values";
  if (isTernary && kept && (kept.getElement() != element || kept.getBlock() != 0 || kept.getAxis() != 1))
    return emitError() << "archive format has elements ternary with one scale, which " << kept << " does not keep";
  if (isTernary)
    return success();
  if (order != ArchiveOrder::Rows && (!isUnsigned(element) || rows != 1))
    return emitError() << "archive format orders " << stringifyArchiveOrder(order)
                       << ", which is for integers without a sign, with scales of single rows";
  if ((order == ArchiveOrder::Interleaved || order == ArchiveOrder::HighFirst) && element != BlockElement::U4)
    return emitError() << "archive format orders " << stringifyArchiveOrder(order) << ", which is for u4";
  if (group < 0 || rows < 0)
    return emitError() << "archive format has groups of " << group << " in " << rows << " rows, must not be negative";
  if (zero < 0 || (zero > 0 && !isUnsigned(element)) || (isUnsigned(element) && zero >> storageBits(element)))
    return emitError() << "archive format has a zero of " << zero << ", no integer of "
                       << stringifyBlockElement(element);
  for (FloatAttr number : {scaleDivisor, scaleOffset})
    if (number && (!number.getType().isF32() || !number.getValue().isFinite()))
      return emitError() << "archive format changes scales by " << number << ", must be a finite number of f32";
  if (scaleDivisor && scaleDivisor.getValue().isZero())
    return emitError() << "archive format divides scales by 0";
  if (!kept)
    return success();
  int64_t block = kept.getBlock();
  if (kept.getAxis() != 1 || (group ? !block || group % block : block != 0))
    return emitError() << "archive format has groups of " << group << ", which " << kept << " does not keep";
  bool areIntegers = getIntegerElement(element).has_value();
  bool isWiderThanKept = kept.getElement() == BlockElement::Ternary && storageBits(element) != 4;
  if (areIntegers ? !getIntegerElement(kept.getElement()) || isWiderThanKept : kept.getElement() != element)
    return emitError() << "archive format has elements " << stringifyBlockElement(element) << ", which " << kept
                       << " does not keep";
  return success();
}

//===-- Operands ------------------------------------------------------------------------------------------------===//

/// True if values of u4 lie four in a byte.
static bool areNarrowValues(ArchiveFormatAttr format, Value values) {
  return format.getOrder() == ArchiveOrder::Rows && format.getElement() == BlockElement::U4 &&
         typeOf(values).getElementType().isInteger(8);
}

/// Returns the bits of integers as an archive has them.
static unsigned storedBits(ArchiveFormatAttr format, Value values) {
  return areNarrowValues(format, values) ? 2 : format.getBits();
}

namespace {
/// The types of the operands of an nn.dequantize.
class Operands {
public:
  Operands(Operation *op, ArchiveFormatAttr format, RankedTensorType whole)
      : op(op), format(format), outputs(whole.getDimSize(0)), inputs(whole.getDimSize(1)) {}

  LogicalResult verify(const QuantizedOperands &operands) const {
    int64_t perWord = format.getValuesOfWord(), groups = format.getGroups(inputs);
    bool isRows = format.hasRows(), isColumns = format.getOrder() == ArchiveOrder::Columns;
    if ((isRows || isColumns ? inputs : outputs) % perWord != 0)
      return op->emitOpError() << "result has " << (isRows || isColumns ? inputs : outputs)
                               << " values in a row of words, no multiple of the " << perWord << " of a word";
    bool areQuarters = format.getOrder() == ArchiveOrder::Quarters;
    bool areNarrow = areNarrowValues(format, operands.values);
    SmallVector<int64_t> values = areNarrow     ? SmallVector<int64_t>{outputs, inputs / perWord, 2}
                                  : isRows      ? SmallVector<int64_t>{outputs, inputs / perWord}
                                  : isColumns   ? SmallVector<int64_t>{inputs / perWord, outputs}
                                  : areQuarters ? SmallVector<int64_t>{outputs / perWord, inputs}
                                                : SmallVector<int64_t>{inputs, outputs / perWord};
    // Words of several values stay what they are.
    Value stored = format.getValuesOfWord() == 1 ? transposeSource(operands.values) : operands.values;
    if (failed(verifyWeight("quantized values", operands.values, values, stored)) ||
        (!areNarrow && failed(verifyWords(operands.values))))
      return failure();
    if (isRoundedWhenPacked(format)) {
      if (operands.scales || operands.zeroPoints || operands.tensorScale || operands.groupIndices)
        return op->emitOpError() << "has other operands than floats, which are rounded to ternary values";
      return success();
    }
    int64_t rows = format.getRowBlocks(outputs);
    // Without scales integers of 8 bits mean themselves.
    bool needsScales = operands.scales || format.getElement() != BlockElement::I8;
    if (needsScales &&
        (failed(verifyCountOf("scales", operands.scales, rows * groups)) || failed(verifyScales(operands.scales))))
      return failure();
    if (operands.zeroPoints && format.getElement() == BlockElement::I8) {
      if (failed(verifyWeight("zero points", operands.zeroPoints, {outputs, groups})) ||
          failed(verifyWords(operands.zeroPoints)))
        return failure();
    } else if (operands.zeroPoints) {
      int64_t words = llvm::divideCeil(outputs, perWord);
      bool areBytes = typeOf(operands.zeroPoints).getElementType().isInteger(8);
      if (isRows && isUnsigned(format.getElement()) && (areBytes || areNarrow)) {
        if (!areBytes)
          return op->emitOpError() << "zero points are " << operands.zeroPoints.getType()
                                   << ", those of 2 bits are bytes";
        int64_t bytes = llvm::divideCeil(groups, 8 / storedBits(format, operands.values));
        if (failed(verifyWeight("zero points", operands.zeroPoints, {outputs, bytes})))
          return failure();
        return verifyOthers(operands);
      }
      if (!isUnsigned(format.getElement()) || format.getOrder() == ArchiveOrder::HighFirst)
        return op->emitOpError() << "has zero points, elements " << stringifyBlockElement(format.getElement())
                                 << " have none";
      if (failed(verifyWeight("zero points", operands.zeroPoints,
                              isRows ? ArrayRef<int64_t>{words, groups} : ArrayRef<int64_t>{groups, words})) ||
          failed(verifyWords(operands.zeroPoints)))
        return failure();
    }
    return verifyOthers(operands);
  }

private:
  LogicalResult verifyOthers(const QuantizedOperands &operands) const {
    bool needsTensorScale = format.getElement() == BlockElement::E2M1 && isE4M3(operands.scales);
    if (needsTensorScale != static_cast<bool>(operands.tensorScale))
      return op->emitOpError() << (operands.tensorScale ? "has a tensor scale, the format has none"
                                                        : "has no tensor scale, the format needs one");
    if (operands.tensorScale && (failed(verifyCountOf("tensor scale", operands.tensorScale, 1)) ||
                                 !typeOf(operands.tensorScale).getElementType().isF32()))
      return op->emitOpError() << "tensor scale is " << operands.tensorScale.getType() << ", must be one f32";
    if (operands.groupIndices && (failed(verifyWeight("group indices", operands.groupIndices, {inputs})) ||
                                  !typeOf(operands.groupIndices).getElementType().isInteger(32)))
      return op->emitOpError() << "group indices are " << operands.groupIndices.getType() << ", must be i32";
    if (operands.codebook && failed(verifyCodebook(operands.codebook)))
      return failure();
    return verifyKept(operands);
  }

  static bool isE4M3(Value scales) { return scales && isa<Float8E4M3FNType>(typeOf(scales).getElementType()); }

  LogicalResult verifyCodebook(Value codebook) const {
    if (failed(verifyCountOf("codebook", codebook, int64_t(1) << format.getBits())))
      return failure();
    if (!typeOf(codebook).getElementType().isF32())
      return op->emitOpError() << "codebook is " << codebook.getType() << ", must be f32";
    if (format.getKept())
      return op->emitOpError() << "has a codebook, which " << format.getKept() << " does not keep";
    return success();
  }

  /// Verifies an operand that is a weight of the archive, or is `stored` there in another order of dimensions.
  LogicalResult verifyWeight(StringRef name, Value value, ArrayRef<int64_t> shape, Value stored = {}) const {
    if (typeOf(value).getShape() == shape)
      return verifyCountOf(name, value, ShapedType::getNumElements(shape), stored);
    return op->emitOpError() << "type of " << name << " is " << value.getType() << ", the format implies "
                             << RankedTensorType::get(shape, typeOf(value).getElementType());
  }

  LogicalResult verifyCountOf(StringRef name, Value value, int64_t count, Value stored = {}) const {
    if (!value)
      return op->emitOpError() << "has no " << name << ", the format " << format << " needs them";
    if (!storedWeight(reshapeSource(stored ? stored : value)))
      return op->emitOpError() << name << " are no nn.weight";
    if (typeOf(value).getNumElements() == count)
      return success();
    return op->emitOpError() << name << " have " << typeOf(value).getNumElements() << " elements, the format implies "
                             << count;
  }

  LogicalResult verifyWords(Value value) const {
    Type element = typeOf(value).getElementType();
    bool fits = format.getElement() == BlockElement::E4M3 ? isa<Float8E4M3FNType>(element)
                : isRoundedWhenPacked(format)             ? element.isF32() || element.isF16() || element.isBF16()
                                                          : element.isInteger(format.getWordBits());
    if (fits)
      return success();
    if (isRoundedWhenPacked(format))
      return op->emitOpError() << "values are " << element
                               << ", must be f32, f16 or bf16 to be rounded to ternary ones";
    return op->emitOpError() << "words are " << element << ", elements " << stringifyBlockElement(format.getElement())
                             << " lie in words of " << format.getWordBits() << " bits";
  }

  LogicalResult verifyScales(Value scales) const {
    Type element = typeOf(scales).getElementType();
    bool isE2M1 = format.getElement() == BlockElement::E2M1, isE4M3Element = format.getElement() == BlockElement::E4M3;
    if (element.isF32() || element.isF16() || element.isBF16() || (isE2M1 && isE4M3(scales)) ||
        ((isE2M1 || isE4M3Element) && element.isInteger(8)))
      return success();
    return op->emitOpError() << "scales are " << element << ", which no format of "
                             << stringifyBlockElement(format.getElement()) << " has";
  }

  /// The block format must hold all values that may be stored.
  LogicalResult verifyKept(const QuantizedOperands &operands) const {
    BlockFormatAttr kept = format.getKept();
    if (!kept)
      return success();
    if (operands.groupIndices)
      return op->emitOpError() << "has group indices, which " << kept << " does not keep";
    std::optional<IntegerElement> stored = getIntegerElement(format.getElement()),
                                  element = getIntegerElement(kept.getElement());
    if (stored && format.getElement() != BlockElement::Ternary) {
      stored->highest = std::min<int64_t>(stored->highest, (1 << storedBits(format, operands.values)) - 1);
      int64_t zero = format.getZero(), highestZero = operands.zeroPoints ? stored->highest : zero;
      int64_t lowestZero = operands.zeroPoints ? 0 : zero;
      // Ternary values are stored in 4 bits and integers of 5 and 6 in 8, and the packer looks at each value.
      bool isNarrower = stored->bits == 4
                            ? kept.getElement() == BlockElement::Ternary
                            : kept.getElement() == BlockElement::I5 || kept.getElement() == BlockElement::I6;
      bool keepsZeros = operands.zeroPoints && kept.getElement() == format.getElement();
      if ((!isNarrower || operands.zeroPoints) && !keepsZeros &&
          (stored->lowest - highestZero < element->lowest || stored->highest - lowestZero > element->highest))
        return op->emitOpError() << "has values from " << stored->lowest - highestZero << " to "
                                 << stored->highest - lowestZero << ", which " << kept << " does not keep";
    }
    if (!operands.scales)
      return success(); // integers of 8 bits have floats, which hold 1
    bool isPattern = typeOf(operands.scales).getElementType().isInteger(8);
    bool keepsScales = isE4M3(operands.scales) ? kept.getScale() == BlockScale::E4M3
                       : isPattern ? kept.getScale() == BlockScale::E8M0 || kept.getScale() == BlockScale::F32
                                   : isa<FloatType>(scaleType(kept.getScale(), op->getContext()));
    if (!keepsScales)
      return op->emitOpError() << "has scales " << typeOf(operands.scales).getElementType() << ", which " << kept
                               << " does not keep";
    return success();
  }

  Operation *op;
  ArchiveFormatAttr format;
  int64_t outputs, inputs;
};
} // namespace

LogicalResult ArchiveFormatAttr::verifyOperands(Operation *op, RankedTensorType whole,
                                                const QuantizedOperands &operands) const {
  if (!isa<DequantizeOp>(op))
    return op->emitOpError() << "has the format of an archive, which is only dequantized";
  if (whole.getRank() != 2 || !whole.hasStaticShape() || !whole.getElementType().isF32())
    return op->emitOpError() << "result is " << whole << ", must be a matrix of f32 of static shape";
  if (!operands.values || !typeOf(operands.values).hasStaticShape())
    return op->emitOpError() << "quantized values have no static shape";
  return Operands(op, *this, whole).verify(operands);
}

//===-- The interface -------------------------------------------------------------------------------------------===//

std::string ArchiveFormatAttr::getName() const {
  return getKept() ? getKept().getName()
                   : (stringifyArchiveOrder(getOrder()) + "-" + stringifyBlockElement(getElement())).str();
}

int64_t ArchiveFormatAttr::getBlockElements() const { return getKept() ? getKept().getBlock() : getGroup(); }

bool ArchiveFormatAttr::hasIntegerValues() const { return getKept() && getKept().hasIntegerValues(); }

bool ArchiveFormatAttr::hasBlocksInRows(int64_t) const { return true; }

BlockFormatAttrInterface ArchiveFormatAttr::getRowFormat(int64_t elements) const {
  return getKept() ? getKept().getRowFormat(elements) : BlockFormatAttrInterface();
}

std::optional<QuantizedBlocks> ArchiveFormatAttr::getQuantizedBlocks() const {
  return getKept() ? getKept().getQuantizedBlocks() : std::nullopt;
}

const GgmlType *ArchiveFormatAttr::getFileBlocks() const { return nullptr; }

DenseElementsAttr ArchiveFormatAttr::dequantize(RankedTensorType, const QuantizedConstants &) const {
  return nullptr; // operands are weights, which are no constants of the IR
}

Sizes ArchiveFormatAttr::getDequantizedSizes(Sizes values) const {
  int64_t perWord = getValuesOfWord();
  switch (getOrder()) {
  case ArchiveOrder::Rows:
  case ArchiveOrder::HighFirst:
    return {values[0], values[1] * perWord};
  case ArchiveOrder::Columns:
    return {values[1], values[0] * perWord};
  case ArchiveOrder::Interleaved:
    return {values[1] * perWord, values[0]};
  case ArchiveOrder::Quarters:
    return {values[0] * perWord, values[1]};
  }
  llvm_unreachable("unknown order");
}

Sizes ArchiveFormatAttr::getScaleSizes(Sizes) const { return {}; }
