//===- PanelEmitter.cpp - Elements of weights that are stored quantized -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/PanelEmitter.h"
#include "lib/Kernel/RowScales.h"

#include "dialects/Nn/BlockFormats.h"
#include "dialects/Nn/MixedBlocks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::kernel {

static constexpr int64_t kStep = BlockPanels::stepDepth, kRows = BlockPanels::rows;
/// Elements of a word.
static constexpr int64_t wordDepth = 4;
/// Bytes between the lines of 16 rows.
static constexpr int64_t lineBytes = wordDepth * BlockPanels::lineRows;

std::optional<BlockPanels> PanelEmitter::panelsOf(Value weight) {
  auto argument = dyn_cast<BlockArgument>(weight);
  if (!argument || argument.getOwner() != &body.kernel.getBody().front())
    return std::nullopt;
  auto layout = body.kernel.getArgAttrOfType<rt::PanelsAttr>(argument.getArgNumber(), "rt.layout");
  if (!layout || !layout.getFormat())
    return std::nullopt;
  return BlockPanels::of(layout.getFormat(), cast<RankedTensorType>(weight.getType()).getShape().back());
}

/// Returns the nn.quantize along the last dimension that a value comes from; null if there is none.
static nn::QuantizeOp quantizeOf(Value input) {
  auto dequantize = input.getDefiningOp<nn::DequantizeOp>();
  auto quantize = dequantize ? dequantize.getQuantized().getDefiningOp<nn::QuantizeOp>() : nullptr;
  if (!quantize || dequantize.getScales() != quantize.getScales() || dequantize.getFormat() != quantize.getFormat() ||
      dequantize.getTensorScale() != quantize.getTensorScale())
    return nullptr;
  bool isKnown = !quantize.getZeroPoints() &&
                 quantize.getFormat().getAxis() == cast<RankedTensorType>(input.getType()).getRank() - 1;
  return isKnown ? quantize : nullptr;
}

nn::QuantizeOp quantizedInput(Value input) {
  nn::QuantizeOp quantize = quantizeOf(input);
  if (!quantize)
    return nullptr;
  nn::BlockFormatAttr format = quantize.getFormat();
  // Scales that are known, and factors, go with one scale for a row.
  bool isKnown = format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
                 !quantize.getFactors() && !quantize.getUnitScale() &&
                 (format.getBlock() == kStep || format.getBlock() == nn::mixedBlock ||
                  format.getBlock() == BlockPanels::superBlock);
  return isKnown ? quantize : nullptr;
}

nn::QuantizeOp quantizedByRows(Value input) {
  nn::QuantizeOp quantize = quantizeOf(input);
  // Kernels permute rows that they quantize to integers with scales of blocks, and no others.
  if (!quantize || quantize.getChannels())
    return nullptr;
  nn::BlockFormatAttr format = quantize.getFormat();
  bool isKnown =
      format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 && format.getBlock() == 0;
  return isKnown ? quantize : nullptr;
}

nn::QuantizeOp quantizedToFloats(Value value) {
  nn::QuantizeOp quantize = quantizeOf(value);
  if (!quantize || quantize.getChannels() || quantize.getFactors())
    return nullptr;
  bool isE2M1 = quantize.getFormat().getElement() == nn::BlockElement::E2M1;
  bool isKnown = nn::isScaledByRows(quantize.getFormat()) ||
                 (isE2M1 && quantize.hasRowScales() == quantize.getFormat().hasTensorScale());
  return isKnown ? quantize : nullptr;
}

//===-- Scales ------------------------------------------------------------------------------------------------===//

Value PanelEmitter::loadStoredScales(const BlockPanels &panels, Value pointer, Value first, int64_t lanes) {
  bool isPattern = panels.scale == nn::BlockScale::E8M0 || panels.scale == nn::BlockScale::E4M3;
  Type stored = isPattern ? b.getI8Type() : nn::scaleType(panels.scale, b.getContext());
  Value address = memory.at(pointer, first, stored);
  return LLVM::LoadOp::create(b, loc, vectorOf(stored, lanes), address, memory.vectorAlignment(address, stored, lanes));
}

Value PanelEmitter::decodeScale(const BlockPanels &panels, Value stored, int64_t lanes) {
  auto constantOf = [&](Type type, int64_t value) {
    return splat(arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value)), lanes);
  };
  switch (panels.scale) {
  case nn::BlockScale::E8M0: {
    // The pattern of the power of two: the exponent, but for the smallest, which is half of the least normal number.
    Value bits = arith::ExtUIOp::create(b, loc, vectorOf(b.getI32Type(), lanes), stored);
    bits = arith::ShLIOp::create(b, loc, bits, constantOf(b.getI32Type(), 23));
    bits = arith::MaxSIOp::create(b, loc, bits, constantOf(b.getI32Type(), 0x00400000));
    return arith::BitcastOp::create(b, loc, vectorOf(b.getF32Type(), lanes), bits);
  }
  case nn::BlockScale::E4M3: {
    // Positive; exponent and mantissa lie in f16's as they are, whose bias is 8 more.
    Value bits = arith::ExtUIOp::create(b, loc, vectorOf(b.getI16Type(), lanes), stored);
    bits = arith::ShLIOp::create(b, loc, bits, constantOf(b.getI16Type(), 7));
    Value half = arith::BitcastOp::create(b, loc, vectorOf(b.getF16Type(), lanes), bits);
    return memory.widen(half, b.getF32Type(), lanes);
  }
  default:
    return getElementTypeOrSelf(stored.getType()).isF32() ? stored : memory.widen(stored, b.getF32Type(), lanes);
  }
}

Value PanelEmitter::loadScales(const BlockPanels &panels, Value pointer, Value first, int64_t lanes) {
  return decodeScale(panels, loadStoredScales(panels, pointer, first, lanes), lanes);
}

SmallVector<Value> PanelEmitter::loadScalesOfBlock(const BlockPanels &panels, Value unit, Value block, Value first,
                                                   int64_t lanes) {
  Type i8 = b.getI8Type();
  Value bytesOfBlock = constant(kRows * panels.scaleBytes);
  auto at = [&](Value byte) { return memory.at(unit, byte, i8); };
  auto stored = [&](Value pointer) { return loadStoredScales(panels, pointer, first, lanes); };
  if (!panels.scaleBits) {
    Value offset = mul(block, bytesOfBlock);
    SmallVector<Value> both = {stored(at(offset))};
    if (panels.hasMinima)
      both.push_back(stored(at(add(offset, constant(panels.unitScaleBytes / 2)))));
    return both;
  }
  auto bytes = [&](Value row) {
    return memory.load(at(add(constant(panels.integersBegin()), mul(row, constant(kRows)))), first, i8, lanes);
  };
  if (panels.scaleBits == 8)
    return {stored(unit), bytes(block)};
  SmallVector<Value> all = {stored(unit), stored(at(bytesOfBlock)), bytes(block)};
  all.push_back(bytes(add(constant(BlockPanels::superBlock / panels.block), div(block, constant(2)))));
  all.push_back(arith::TruncIOp::create(b, loc, b.getI32Type(), mul(rem(block, constant(2)), constant(4))));
  return all;
}

std::pair<Value, Value> PanelEmitter::decodeScales(const BlockPanels &panels, ArrayRef<Value> stored, int64_t lanes) {
  Value wholeScale = decodeScale(panels, stored[0], lanes);
  if (!panels.scaleBits) {
    Value minimum = panels.hasMinima ? decodeScale(panels, stored[1], lanes) : Value();
    if (panels.hasZeroPoints)
      minimum = arith::MulFOp::create(b, loc, wholeScale, minimum);
    return {wholeScale, minimum};
  }
  Type i32 = vectorOf(b.getI32Type(), lanes);
  auto integers = [&](int64_t value) {
    return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)), lanes);
  };
  auto times = [&](Value whole, Value integer) -> Value {
    return arith::MulFOp::create(b, loc, whole, arith::SIToFPOp::create(b, loc, whole.getType(), integer));
  };
  if (panels.scaleBits == 8)
    return {times(wholeScale, arith::ExtSIOp::create(b, loc, i32, stored[1])), Value()};
  Value low = arith::ExtUIOp::create(b, loc, i32, stored[2]);
  Value high = arith::ExtUIOp::create(b, loc, i32, stored[3]);
  high = arith::ShRUIOp::create(b, loc, high, splat(stored[4], lanes));
  auto combined = [&](Value fourBits, int64_t upperFrom) -> Value {
    Value upper = arith::AndIOp::create(b, loc, high, integers(3 << upperFrom));
    return arith::OrIOp::create(b, loc, fourBits, arith::ShLIOp::create(b, loc, upper, integers(4 - upperFrom)));
  };
  Value wholeMinimum = decodeScale(panels, stored[1], lanes);
  Value scale = combined(arith::AndIOp::create(b, loc, low, integers(15)), 0);
  Value minimum = combined(arith::ShRUIOp::create(b, loc, low, integers(4)), 2);
  return {times(wholeScale, scale), arith::NegFOp::create(b, loc, times(wholeMinimum, minimum))};
}

//===-- Values ------------------------------------------------------------------------------------------------===//

/// Returns the four unsigned elements of a word, a byte each, as i32. `line` returns a line, `word` is the index of the
/// word in its step.
static Value unpackWord(OpBuilder &b, Location loc, const BlockPanels &panels, Value word,
                        function_ref<Value(Value line)> line) {
  auto number = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value)); };
  auto integer = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)); };
  auto divided = [&](Value value, int64_t by) -> Value { return arith::DivUIOp::create(b, loc, value, number(by)); };
  auto remainder = [&](Value value, int64_t by) -> Value { return arith::RemUIOp::create(b, loc, value, number(by)); };
  if (panels.elementBits == 8)
    return line(word);
  /// `count` bits of each byte, at an index of such bits.
  auto bits = [&](Value bytes, Value index, int64_t count) -> Value {
    Value first = arith::TruncIOp::create(b, loc, b.getI32Type(), arith::MulIOp::create(b, loc, index, number(count)));
    return arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bytes, first),
                                 integer(((1 << count) - 1) * 0x01010101));
  };
  Value low, high;
  if (int64_t half = panels.lowLines())
    low = bits(line(remainder(word, half)), divided(word, half), 4);
  if (int64_t highBits = panels.highBits()) {
    int64_t wordsOfLine = 8 / highBits;
    Value highLine = arith::AddIOp::create(b, loc, number(panels.lowLines()), divided(word, wordsOfLine));
    high = bits(line(highLine), remainder(word, wordsOfLine), highBits);
  }
  if (!low || !high)
    return low ? low : high;
  return arith::OrIOp::create(b, loc, low, arith::ShLIOp::create(b, loc, high, integer(panels.highBegin())));
}

Value PanelEmitter::decodeFloatElements(const BlockPanels &panels, Value elements, int64_t width) {
  Type i32 = b.getI32Type();
  auto number = [&](int64_t value) {
    return splat(arith::ConstantOp::create(b, loc, b.getIntegerAttr(i32, value)), width);
  };
  // Exponent and mantissa lie in f16's as they are, whose bias is larger.
  constexpr int64_t mantissaBitsOfF16 = 10, signOfF16 = 15, nanOfF16 = 0x7e00;
  const FloatFormat &format = *panels.floatFormat();
  int64_t signBit = format.bits - 1;
  Value magnitude = arith::AndIOp::create(b, loc, elements, number((1 << signBit) - 1));
  Value sign = arith::AndIOp::create(b, loc, elements, number(1 << signBit));
  Value bits = arith::ShLIOp::create(b, loc, magnitude, number(mantissaBitsOfF16 - int64_t(format.mantissaBits)));
  if (format.nan >= 0)
    bits = arith::SelectOp::create(
        b, loc, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, magnitude, number(format.nan)),
        number(nanOfF16), bits);
  bits = arith::OrIOp::create(b, loc, bits, arith::ShLIOp::create(b, loc, sign, number(signOfF16 - signBit)));
  Value half = arith::BitcastOp::create(b, loc, vectorOf(b.getF16Type(), width),
                                        arith::TruncIOp::create(b, loc, vectorOf(b.getI16Type(), width), bits));
  return memory.widen(half, b.getF32Type(), width);
}

Value PanelEmitter::dequantize(Value tensor, Value row, Value k, int64_t width) {
  BlockPanels panels = *panelsOf(tensor);
  Value weight = body.storage[tensor].pointer;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  Value panel = memory.at(weight, mul(div(row, constant(kRows)), constant(panels.panelBytes())), i8);
  Value inPanel = rem(row, constant(kRows)), inUnit = rem(k, constant(panels.unitDepth)),
        inStep = rem(k, constant(kStep));
  Value unit = memory.at(
      panel, add(constant(panels.headBytes), mul(div(k, constant(panels.unitDepth)), constant(panels.unitBytes))), i8);
  Value offset = add(constant(panels.unitScaleBytes), mul(div(inUnit, constant(kStep)), constant(panels.stepBytes())));
  offset = add(offset, mul(div(inPanel, constant(BlockPanels::lineRows)), constant(panels.stepBytes() / 2)));
  offset = add(offset, mul(rem(inPanel, constant(BlockPanels::lineRows)), constant(wordDepth)));
  auto line = [&](Value index) -> Value {
    Value at = memory.at(unit, add(offset, mul(index, constant(lineBytes))), i8);
    return LLVM::LoadOp::create(b, loc, i32, at, wordDepth);
  };
  // Values of a word share their scale: blocks are multiples of 16.
  Value scale, minimum, ofRow;
  if (panels.block)
    std::tie(scale, minimum) = scalesOfBlock(panels, unit, div(inUnit, constant(panels.block)), inPanel, 1);
  if (panels.headBytes)
    ofRow = memory.load(panel, inPanel, panels.block ? f32 : nn::scaleType(panels.scale, b.getContext()), 1);
  Value &factored = scale ? scale : ofRow;
  if (double factor = scaleFactor(panels) * elementFactor(panels); factor != 1.0)
    factored = arith::MulFOp::create(b, loc, factored, floatConstant(factor, f32, 1));
  int64_t ofWord = std::min(width, wordDepth);
  SmallVector<Value> values;
  for (int64_t first = 0; first < width; first += wordDepth) {
    Value elements =
        unpackWord(b, loc, panels, add(div(inStep, constant(wordDepth)), constant(first / wordDepth)), line);
    if (width == 1) {
      Value shift = arith::TruncIOp::create(b, loc, i32, mul(rem(inStep, constant(wordDepth)), constant(8)));
      elements = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, elements, shift),
                                       arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0xff)));
    } else {
      Value bytes = LLVM::BitcastOp::create(b, loc, VectorType::get({wordDepth}, i8), elements);
      elements = arith::ExtUIOp::create(b, loc, vectorOf(i32, ofWord), bytes);
    }
    Value value;
    if (panels.floatFormat()) {
      value = decodeFloatElements(panels, elements, ofWord);
    } else {
      Value offset = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(panels.integerOffset)));
      elements = arith::SubIOp::create(b, loc, elements, splat(offset, ofWord));
      value = arith::SIToFPOp::create(b, loc, vectorOf(f32, ofWord), elements);
    }
    auto scaleBy = [&](Value by) { value = arith::MulFOp::create(b, loc, value, splat(by, ofWord)); };
    if (scale)
      scaleBy(scale);
    if (minimum)
      value = arith::AddFOp::create(b, loc, value, splat(minimum, ofWord));
    if (ofRow)
      scaleBy(ofRow);
    values.push_back(value);
  }
  if (values.size() == 1)
    return values.front();
  SmallVector<Value> elements;
  for (Value value : values)
    for (int64_t i = 0; i != wordDepth; ++i)
      elements.push_back(vector::ExtractOp::create(b, loc, value, i));
  return vector::FromElementsOp::create(b, loc, VectorType::get({width}, f32), elements);
}

} // namespace intarsia::kernel
