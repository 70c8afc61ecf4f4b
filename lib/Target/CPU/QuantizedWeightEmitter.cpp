//===- QuantizedWeightEmitter.cpp - Elements of quantized weights: unpacked, multiplied, dequantized ------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/QuantizedWeightEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Target/CPU/QuantizedPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

static constexpr int64_t kStep = BlockPanels::stepDepth, kRows = BlockPanels::rows;

std::optional<BlockPanels> QuantizedWeightEmitter::panelsOf(Value weight) {
  auto argument = dyn_cast<BlockArgument>(weight);
  if (!argument || argument.getOwner() != &kernel.getBody().front())
    return std::nullopt;
  auto layout = kernel.getArgAttrOfType<rt::PanelsAttr>(argument.getArgNumber(), "rt.layout");
  if (!layout || !layout.getFormat())
    return std::nullopt;
  return BlockPanels::of(layout.getFormat(), cast<RankedTensorType>(weight.getType()).getShape().back());
}

//===-- Quantized elements ------------------------------------------------------------------------------------===//

/// Returns sums + four products of bytes a lane: `elements` vector<4 lanes x i8> unsigned, `activations` an i32 splat
/// of four signed bytes.
Value QuantizedWeightEmitter::addByteProducts(Value sums, Value elements, Value activations, bool elementsAre8Bits) {
  int64_t lanes = config.lanes;
  auto call = [&](StringRef name, Type type, ValueRange operands) -> Value {
    return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), operands).getResults();
  };
  auto bytes = VectorType::get({4 * lanes}, b.getI8Type());
  auto sumType = cast<VectorType>(sums.getType());
  if (config.byteDot == ByteDot::Vnni)
    return call(lanes == 16 ? "llvm.x86.avx512.vpdpbusd.512" : "llvm.x86.avx512.vpdpbusd.256", sumType,
                {sums, elements, vector::BitCastOp::create(b, loc, bytes, activations)});
  if (config.byteDot == ByteDot::Maddubs) {
    Value left = elements, right = vector::BitCastOp::create(b, loc, bytes, activations);
    if (elementsAre8Bits) {
      // The magnitude is what is unsigned, the sign goes over to the activation.
      Value flip = splat(arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(-128)), 4 * lanes);
      Value isNegative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, elements, flip);
      Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(bytes));
      Value element = arith::XOrIOp::create(b, loc, elements, flip);
      left = arith::SelectOp::create(b, loc, isNegative, arith::SubIOp::create(b, loc, zero, element), element);
      right = arith::SelectOp::create(b, loc, isNegative, arith::SubIOp::create(b, loc, zero, right), right);
    }
    auto words = VectorType::get({2 * lanes}, b.getI16Type());
    static constexpr StringLiteral multiply[] = {"llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.avx2.pmadd.ub.sw",
                                                 "llvm.x86.avx512.pmaddubs.w.512"},
                                   addPairs[] = {"llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd",
                                                 "llvm.x86.avx512.pmaddw.d.512"};
    unsigned width = lanes == 16 ? 2 : lanes == 8 ? 1 : 0;
    Value pairs = call(multiply[width], words, {left, right});
    Value ones = splat(arith::ConstantOp::create(b, loc, b.getI16IntegerAttr(1)), 2 * lanes);
    return arith::AddIOp::create(b, loc, sums, call(addPairs[width], sumType, {pairs, ones}));
  }
  Value left = vector::BitCastOp::create(b, loc, sumType, elements);
  auto shift = [&](int64_t bits) { return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(bits)), lanes); };
  Value mask = shift(255);
  for (int64_t byte = 0; byte < 4; ++byte) {
    Value element = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, left, shift(8 * byte)), mask);
    Value activation = arith::ShLIOp::create(b, loc, activations, shift(24 - 8 * byte));
    activation = arith::ShRSIOp::create(b, loc, activation, shift(24));
    sums = arith::AddIOp::create(b, loc, sums, arith::MulIOp::create(b, loc, element, activation));
  }
  return sums;
}

/// Returns the elements of one half of bytes (`high`: the upper four bits), as they are multiplied but for bits that
/// lie elsewhere.
Value QuantizedWeightEmitter::unpackElements(const BlockPanels &panels, Value raw, bool high) {
  auto type = dyn_cast<VectorType>(raw.getType());
  int64_t width = type ? type.getNumElements() : 1;
  auto byte = [&](int64_t value) { return splat(arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(value)), width); };
  Value element = high ? arith::ShRUIOp::create(b, loc, raw, byte(4)).getResult()
                       : arith::AndIOp::create(b, loc, raw, byte(15)).getResult();
  if (!panels.isE2M1)
    return element;
  UnpackedEncoding encoding = encodingOf(panels, config.byteDot);
  if (config.byteDot != ByteDot::Plain && width == 4 * config.lanes) {
    SmallVector<int8_t> table;
    for (int64_t i = 0; i < width; ++i)
      table.push_back(encoding.multiplier * nn::decodeElement(nn::BlockElement::E2M1, i % 16) + encoding.offset);
    Value entries = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef<int8_t>(table)));
    StringRef name = width == 64   ? "llvm.x86.avx512.pshuf.b.512"
                     : width == 32 ? "llvm.x86.avx2.pshuf.b"
                                   : "llvm.x86.ssse3.pshuf.b.128";
    return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), ValueRange{entries, element})
        .getResults();
  }
  // Magnitudes times two are 0, 1, 2, 3, 4, 6, 8, 12.
  Value magnitude = arith::AndIOp::create(b, loc, element, byte(7));
  Value twice = magnitude;
  for (auto [from, more] : {std::pair<int64_t, int64_t>{5, 1}, {6, 1}, {7, 3}}) {
    Value above = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, magnitude, byte(from));
    twice = arith::AddIOp::create(b, loc, twice, arith::SelectOp::create(b, loc, above, byte(more), byte(0)));
  }
  Value isNegative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, element, byte(8));
  Value offset = byte(encoding.offset);
  return arith::SelectOp::create(b, loc, isNegative, arith::SubIOp::create(b, loc, offset, twice),
                                 arith::AddIOp::create(b, loc, offset, twice));
}

/// Calls `use` with the elements of a step of `lanes` neighbouring rows, a word of four k's at a time. `pointer` is at
/// the rows' first byte.
void QuantizedWeightEmitter::forWordsOfStep(const BlockPanels &panels, Value pointer,
                                            llvm::function_ref<void(int64_t word, Value elements)> use) {
  Type i8 = b.getI8Type();
  int64_t width = 4 * config.lanes;
  auto line = [&](int64_t index) { return loadAt(pointer, constant(64 * index), i8, width); };
  auto byte = [&](int64_t value) { return splat(arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(value)), width); };
  if (panels.elementBits == 8) {
    for (int64_t word = 0; word < BlockPanels::words; ++word)
      use(word, line(word));
    return;
  }
  int64_t highBits = panels.elementBits - 4, wordsOfLine = highBits ? 8 / highBits : BlockPanels::words;
  SmallVector<Value> highLines;
  for (int64_t first = 0; highBits && first < BlockPanels::words; first += wordsOfLine)
    highLines.push_back(line(4 + first / wordsOfLine));
  for (int64_t i = 0; i < BlockPanels::words / 2; ++i) {
    Value raw = line(i);
    for (int64_t word : {i, i + BlockPanels::words / 2}) {
      Value elements = unpackElements(panels, raw, word != i);
      if (highBits) {
        int64_t left = 4 - word % wordsOfLine * highBits;
        Value high = highLines[word / wordsOfLine];
        high = left >= 0 ? arith::ShLIOp::create(b, loc, high, byte(left)).getResult()
                         : arith::ShRUIOp::create(b, loc, high, byte(-left)).getResult();
        elements = arith::OrIOp::create(b, loc, elements,
                                        arith::AndIOp::create(b, loc, high, byte(((1 << highBits) - 1) << 4)));
      }
      use(word, elements);
    }
  }
}

/// Returns `lanes` neighbouring stored scales as f32; those of E4M3 are 256 times too small.
Value QuantizedWeightEmitter::loadScales(const BlockPanels &panels, Value pointer, Value first, int64_t lanes) {
  Type i8 = b.getI8Type();
  auto constantOf = [&](Type type, int64_t value) {
    return splat(arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value)), lanes);
  };
  switch (panels.scale) {
  case nn::BlockScale::E8M0: {
    // The pattern of the power of two: the exponent, but for the smallest, which is half of the least normal number.
    Value bits = arith::ExtUIOp::create(b, loc, vectorOf(b.getI32Type(), lanes), loadAt(pointer, first, i8, lanes));
    bits = arith::ShLIOp::create(b, loc, bits, constantOf(b.getI32Type(), 23));
    bits = arith::MaxSIOp::create(b, loc, bits, constantOf(b.getI32Type(), 0x00400000));
    return arith::BitcastOp::create(b, loc, vectorOf(b.getF32Type(), lanes), bits);
  }
  case nn::BlockScale::E4M3: {
    // Positive; exponent and mantissa lie in f16's as they are, whose bias is 8 more.
    Value bits = arith::ExtUIOp::create(b, loc, vectorOf(b.getI16Type(), lanes), loadAt(pointer, first, i8, lanes));
    bits = arith::ShLIOp::create(b, loc, bits, constantOf(b.getI16Type(), 7));
    Value half = arith::BitcastOp::create(b, loc, vectorOf(b.getF16Type(), lanes), bits);
    return widen(half, b.getF32Type(), lanes);
  }
  default:
    return loadAt(pointer, first, nn::scaleType(panels.scale, b.getContext()), lanes);
  }
}

/// Returns the scales of `lanes` neighbouring rows of a block, from row `first` on, in the unit at `unit`, and, where
/// the format has them, the minima that are added. `block` counts from the unit's first.
std::pair<Value, Value> QuantizedWeightEmitter::scalesOfBlock(const BlockPanels &panels, Value unit, Value block,
                                                              Value first, int64_t lanes) {
  Type i8 = b.getI8Type(), i32 = b.getI32Type();
  Value bytesOfBlock = constant(kRows * panels.scaleBytes);
  auto at = [&](Value byte) { return offsetPointer(unit, byte, i8); };
  if (!panels.scaleBits) {
    Value offset = mul(block, bytesOfBlock), minimum;
    if (panels.hasMinima)
      minimum = loadScales(panels, at(add(offset, constant(panels.unitScaleBytes / 2))), first, lanes);
    return {loadScales(panels, at(offset), first, lanes), minimum};
  }
  Value wholeScale = loadScales(panels, unit, first, lanes);
  auto integers = [&](int64_t value) {
    return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)), lanes);
  };
  auto times = [&](Value whole, Value integer) -> Value {
    return arith::MulFOp::create(b, loc, whole, arith::SIToFPOp::create(b, loc, whole.getType(), integer));
  };
  auto bytes = [&](Value row) {
    return loadAt(at(add(constant(panels.integersBegin()), mul(row, constant(kRows)))), first, i8, lanes);
  };
  if (panels.scaleBits == 8)
    return {times(wholeScale, arith::ExtSIOp::create(b, loc, vectorOf(i32, lanes), bytes(block))), Value()};
  Value low = arith::ExtUIOp::create(b, loc, vectorOf(i32, lanes), bytes(block));
  Value high = bytes(add(constant(BlockPanels::superBlock / panels.block), div(block, constant(2))));
  high = arith::ExtUIOp::create(b, loc, vectorOf(i32, lanes), high);
  Value shift = arith::TruncIOp::create(b, loc, i32, mul(rem(block, constant(2)), constant(4)));
  high = arith::ShRUIOp::create(b, loc, high, splat(shift, lanes));
  auto combined = [&](Value fourBits, int64_t upperFrom) -> Value {
    Value upper = arith::AndIOp::create(b, loc, high, integers(3 << upperFrom));
    return arith::OrIOp::create(b, loc, fourBits, arith::ShLIOp::create(b, loc, upper, integers(4 - upperFrom)));
  };
  Value wholeMinimum = loadScales(panels, at(bytesOfBlock), first, lanes);
  Value scale = combined(arith::AndIOp::create(b, loc, low, integers(15)), 0);
  Value minimum = combined(arith::ShRUIOp::create(b, loc, low, integers(4)), 2);
  return {times(wholeScale, scale), arith::NegFOp::create(b, loc, times(wholeMinimum, minimum))};
}

//===-- Dequantized values ------------------------------------------------------------------------------------===//

/// Returns the dequantized value at [row, k] of a weight that is stored quantized.
Value QuantizedWeightEmitter::evaluateQuantized(Value tensor, Value row, Value k) {
  BlockPanels panels = *panelsOf(tensor);
  Value weight = storage[tensor].pointer;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  auto integer = [&](int64_t x) -> Value { return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(x)); };
  auto narrow = [&](Value x) -> Value { return arith::TruncIOp::create(b, loc, i32, x); };
  Value panel = offsetPointer(weight, mul(div(row, constant(kRows)), constant(panels.panelBytes())), i8);
  Value inPanel = rem(row, constant(kRows));
  Value inUnit = rem(k, constant(panels.unitDepth)), inStep = rem(k, constant(kStep));
  Value unit = offsetPointer(
      panel, add(constant(panels.headBytes), mul(div(k, constant(panels.unitDepth)), constant(panels.unitBytes))), i8);
  Value word = div(inStep, constant(4));
  Value offset = add(constant(panels.unitScaleBytes), mul(div(inUnit, constant(kStep)), constant(panels.stepBytes())));
  offset = add(offset, mul(div(inPanel, constant(16)), constant(panels.stepBytes() / 2)));
  offset = add(offset, add(mul(rem(inPanel, constant(16)), constant(4)), rem(inStep, constant(4))));
  auto byteOfLine = [&](Value line) -> Value {
    return arith::ExtUIOp::create(b, loc, i32, loadAt(unit, add(offset, mul(line, constant(64))), i8, 1));
  };
  /// `count` bits from bit `first` on.
  auto bits = [&](Value byte, Value first, int64_t count) -> Value {
    return arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, byte, narrow(first)),
                                 integer((1 << count) - 1));
  };
  Value element;
  if (panels.elementBits == 8) {
    element = byteOfLine(word);
  } else {
    Value half = constant(BlockPanels::words / 2);
    element = bits(byteOfLine(rem(word, half)), mul(div(word, half), constant(4)), 4);
    if (int64_t highBits = panels.elementBits - 4) {
      Value wordsOfLine = constant(8 / highBits);
      Value high = byteOfLine(add(constant(4), div(word, wordsOfLine)));
      high = bits(high, mul(rem(word, wordsOfLine), constant(highBits)), highBits);
      element = arith::OrIOp::create(b, loc, element, arith::ShLIOp::create(b, loc, high, integer(4)));
    }
  }
  Value value;
  double factor = scaleFactor(panels);
  if (panels.isE2M1) {
    Value unpacked = unpackElements(panels, arith::TruncIOp::create(b, loc, i8, element), false);
    UnpackedEncoding encoding = encodingOf(panels, config.byteDot);
    value = arith::SubIOp::create(b, loc, arith::ExtUIOp::create(b, loc, i32, unpacked), integer(encoding.offset));
    factor /= encoding.multiplier;
  } else {
    value = arith::SubIOp::create(b, loc, element, integer(panels.integerOffset));
  }
  value = arith::SIToFPOp::create(b, loc, f32, value);
  auto scaleBy = [&](Value scale) { value = arith::MulFOp::create(b, loc, value, scale); };
  if (panels.block) {
    auto [scale, minimum] = scalesOfBlock(panels, unit, div(inUnit, constant(panels.block)), inPanel, 1);
    scaleBy(factor == 1.0 ? scale : arith::MulFOp::create(b, loc, scale, floatConstant(factor, f32, 1)).getResult());
    if (minimum)
      value = arith::AddFOp::create(b, loc, value, minimum);
  }
  if (panels.headBytes)
    scaleBy(loadAt(panel, inPanel, panels.block ? f32 : nn::scaleType(panels.scale, b.getContext()), 1));
  return value;
}

void QuantizedWeightEmitter::dequantizePanel(const BlockPanels &panels, Value panel, Value target) {
  int64_t lanes = config.lanes, blocks = blocksOfStep(panels), stepsOfUnit = panels.unitDepth / kStep;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  auto vector = [&](Type type) { return VectorType::get({lanes}, type); };
  UnpackedEncoding encoding = encodingOf(panels, config.byteDot);
  int64_t offset = panels.isE2M1 ? encoding.offset : panels.integerOffset;
  double factor = scaleFactor(panels) / encoding.multiplier;
  auto integers = [&](int64_t x) { return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(x)), lanes); };
  forLoop(constant(0), constant(panels.steps()), constant(1), [&](Value step) {
    Value unit = div(step, constant(stepsOfUnit)), ofUnit = rem(step, constant(stepsOfUnit));
    Value unitPointer =
        offsetPointer(panel, add(constant(panels.headBytes), mul(unit, constant(panels.unitBytes))), i8);
    Value from =
        offsetPointer(unitPointer, add(constant(panels.unitScaleBytes), mul(ofUnit, constant(panels.stepBytes()))), i8);
    Value to = offsetPointer(target, mul(step, constant(kStep * kRows)), f32);
    Value firstBlock = firstBlockOfStep(panels, ofUnit);
    for (int64_t v = 0; v < kRows / lanes; ++v) {
      SmallVector<Value> scales, minima;
      for (int64_t block = 0; block < blocks; ++block) {
        Value scale, minimum;
        if (panels.block)
          std::tie(scale, minimum) =
              scalesOfBlock(panels, unitPointer, add(firstBlock, constant(block)), constant(v * lanes), lanes);
        if (panels.headBytes) {
          Value whole = loadAt(panel, constant(v * lanes),
                               panels.block ? f32 : nn::scaleType(panels.scale, b.getContext()), lanes);
          scale = scale ? arith::MulFOp::create(b, loc, scale, whole).getResult() : whole;
        }
        if (factor != 1.0)
          scale = arith::MulFOp::create(b, loc, scale, floatConstant(factor, f32, lanes));
        scales.push_back(scale);
        minima.push_back(minimum);
      }
      int64_t first = v * lanes / 16 * (panels.stepBytes() / 2) + v * lanes % 16 * 4;
      forWordsOfStep(panels, offsetPointer(from, constant(first), i8), [&](int64_t index, Value elements) {
        Value word = vector::BitCastOp::create(b, loc, vector(i32), elements);
        int64_t block = index * blocks / BlockPanels::words;
        for (int64_t byte = 0; byte < 4; ++byte) {
          Value element =
              arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, word, integers(8 * byte)), integers(255));
          Value value =
              arith::SIToFPOp::create(b, loc, vector(f32), arith::SubIOp::create(b, loc, element, integers(offset)));
          value = arith::MulFOp::create(b, loc, value, scales[block]);
          if (minima[block])
            value = arith::AddFOp::create(b, loc, value, minima[block]);
          storeAt(value, to, constant((4 * index + byte) * kRows + v * lanes), f32, lanes);
        }
      });
    }
  });
}

/// Returns the index of a step's first block in its unit.
Value QuantizedWeightEmitter::firstBlockOfStep(const BlockPanels &panels, Value stepOfUnit) {
  if (!panels.block)
    return constant(0);
  return panels.block < kStep ? mul(stepOfUnit, constant(blocksOfStep(panels)))
                              : div(stepOfUnit, constant(panels.block / kStep));
}

} // namespace intarsia::cpu
