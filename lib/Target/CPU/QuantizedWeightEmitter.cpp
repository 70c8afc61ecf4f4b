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
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

static constexpr int64_t kStep = BlockPanels::stepDepth, kRows = BlockPanels::rows;

//===-- Quantized elements ------------------------------------------------------------------------------------===//

/// Returns sums + four products of bytes a lane: `elements` vector<4 lanes x i8> unsigned, `activations` an i32 splat
/// of four signed bytes.
Value QuantizedWeightEmitter::addByteProducts(Value sums, Value elements, Value activations, bool elementsAre8Bits) {
  int64_t lanes = config.lanes;
  auto call = [&](StringRef name, Type type, ValueRange operands) -> Value {
    return make<LLVM::CallIntrinsicOp>(type, b.getStringAttr(name), operands).getResults();
  };
  auto bytes = VectorType::get({4 * lanes}, b.getI8Type());
  auto sumType = cast<VectorType>(sums.getType());
  // Stored elements of 8 bits have 128 added: with the highest bit flipped they are signed.
  auto makeSigned = [&] {
    Value flip = splat(make<arith::ConstantOp>(b.getI8IntegerAttr(-128)), 4 * lanes);
    return make<arith::XOrIOp>(elements, flip).getResult();
  };
  if (config.byteDot == ByteDot::Sdot || multipliesUnsigned(config.byteDot)) {
    StringRef name = config.byteDot == ByteDot::Sdot    ? "llvm.aarch64.neon.sdot"
                     : config.byteDot == ByteDot::Usdot ? "llvm.aarch64.neon.usdot"
                     : lanes == 16                      ? "llvm.x86.avx512.vpdpbusd.512"
                                                        : "llvm.x86.avx512.vpdpbusd.256";
    Value left = config.byteDot == ByteDot::Sdot && elementsAre8Bits ? makeSigned() : elements;
    return call(name, sumType, {sums, left, make<vector::BitCastOp>(bytes, activations)});
  }
  if (config.byteDot == ByteDot::Maddubs) {
    Value left = elements, right = make<vector::BitCastOp>(bytes, activations);
    if (elementsAre8Bits) {
      // The magnitude is what is unsigned, the sign goes over to the activation.
      Value element = makeSigned();
      left = make<math::AbsIOp>(element);
      if (lanes <= 8) {
        right = call(lanes == 8 ? "llvm.x86.avx2.psign.b" : "llvm.x86.ssse3.psign.b.128", bytes, {right, element});
      } else {
        Value zero = make<arith::ConstantOp>(b.getZeroAttr(bytes));
        Value isNegative = make<arith::CmpIOp>(arith::CmpIPredicate::slt, element, zero);
        right = select(isNegative, make<arith::SubIOp>(zero, right), right);
      }
    }
    static constexpr StringLiteral multiply[] = {"llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.avx2.pmadd.ub.sw",
                                                 "llvm.x86.avx512.pmaddubs.w.512"};
    Value pairs = call(multiply[lanes == 16  ? 2
                                : lanes == 8 ? 1
                                             : 0],
                       VectorType::get({2 * lanes}, b.getI16Type()), {left, right});
    Value ones = splat(make<arith::ConstantOp>(b.getI16IntegerAttr(1)), 2 * lanes);
    return addWordProducts(sums, pairs, ones);
  }
  Value left = make<vector::BitCastOp>(sumType, elements);
  auto shift = [&](int64_t bits) { return splat(word(bits), lanes); };
  Value mask = shift(255);
  for (int64_t byte = 0; byte < 4; ++byte) {
    Value element = make<arith::AndIOp>(make<arith::ShRUIOp>(left, shift(8 * byte)), mask);
    Value activation = make<arith::ShLIOp>(activations, shift(24 - 8 * byte));
    activation = make<arith::ShRSIOp>(activation, shift(24));
    sums = make<arith::AddIOp>(sums, make<arith::MulIOp>(element, activation));
  }
  return sums;
}

Value QuantizedWeightEmitter::splatWordOf(Value row, int64_t word) {
  Type i32 = b.getI32Type();
  auto at = [&](int64_t index) { return memory.at(row, constant(4 * index), b.getI8Type()); };
  if (!multipliesByLane(config.byteDot))
    return splat(make<LLVM::LoadOp>(i32, at(word), 4), config.lanes);
  // Such a splat is an operand of the instruction. Its vector is loaded once for the words that lie in it.
  Value words = make<LLVM::LoadOp>(vectorOf(i32, config.lanes), at(word / config.lanes * config.lanes), 4);
  return make<vector::ShuffleOp>(words, words, SmallVector<int64_t>(config.lanes, word % config.lanes));
}

/// Returns sums + two products of 16-bit integers a lane.
Value QuantizedWeightEmitter::addWordProducts(Value sums, Value left, Value right) {
  static constexpr StringLiteral names[] = {"llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd",
                                            "llvm.x86.avx512.pmaddw.d.512"};
  StringRef name = names[config.lanes == 16 ? 2 : config.lanes == 8 ? 1 : 0];
  Value pairs =
      make<LLVM::CallIntrinsicOp>(sums.getType(), b.getStringAttr(name), ValueRange{left, right}).getResults();
  return make<arith::AddIOp>(sums, pairs);
}

/// Returns the elements of one half of bytes (`high`: the upper four bits), as they are multiplied but for bits that
/// lie elsewhere.
Value QuantizedWeightEmitter::unpackElements(const BlockPanels &panels, Value raw, bool high) {
  auto type = dyn_cast<VectorType>(raw.getType());
  int64_t width = type ? type.getNumElements() : 1;
  auto byte = [&](int64_t value) { return splat(make<arith::ConstantOp>(b.getI8IntegerAttr(value)), width); };
  Value element =
      high ? make<arith::ShRUIOp>(raw, byte(4)).getResult() : make<arith::AndIOp>(raw, byte(15)).getResult();
  if (!panels.isE2M1)
    return element;
  UnpackedEncoding encoding = encodingOf(panels, config.byteDot);
  if (config.byteDot != ByteDot::Plain && width == 4 * config.lanes) {
    SmallVector<int8_t> table;
    for (int64_t i = 0; i < width; ++i)
      table.push_back(encoding.multiplier * nn::decodeElement(nn::BlockElement::E2M1, i % 16) + encoding.offset);
    Value entries = make<arith::ConstantOp>(DenseElementsAttr::get(type, ArrayRef<int8_t>(table)));
    StringRef name = multipliesByLane(config.byteDot) ? "llvm.aarch64.neon.tbl1"
                     : width == 64                    ? "llvm.x86.avx512.pshuf.b.512"
                     : width == 32                    ? "llvm.x86.avx2.pshuf.b"
                                                      : "llvm.x86.ssse3.pshuf.b.128";
    return make<LLVM::CallIntrinsicOp>(type, b.getStringAttr(name), ValueRange{entries, element}).getResults();
  }
  // Magnitudes times two are 0, 1, 2, 3, 4, 6, 8, 12.
  Value magnitude = make<arith::AndIOp>(element, byte(7));
  Value twice = magnitude;
  for (auto [from, more] : {std::pair<int64_t, int64_t>{5, 1}, {6, 1}, {7, 3}}) {
    Value above = make<arith::CmpIOp>(arith::CmpIPredicate::uge, magnitude, byte(from));
    twice = make<arith::AddIOp>(twice, select(above, byte(more), byte(0)));
  }
  Value isNegative = make<arith::CmpIOp>(arith::CmpIPredicate::uge, element, byte(8));
  Value offset = byte(encoding.offset);
  return select(isNegative, make<arith::SubIOp>(offset, twice), make<arith::AddIOp>(offset, twice));
}

/// Calls `use` with the elements of a step of `lanes` neighbouring rows, a word of four k's at a time. `pointer` is at
/// the rows' first byte. With `inOrder` machine code loads lines in the order of their addresses; LLVM orders other
/// loads by their uses, and high bits come first.
void QuantizedWeightEmitter::forWordsOfStep(const BlockPanels &panels, Value pointer,
                                            llvm::function_ref<void(int64_t word, Value elements)> use, bool inOrder) {
  Type i8 = b.getI8Type();
  int64_t width = 4 * config.lanes;
  auto line = [&](int64_t index) {
    Value loaded = memory.load(pointer, constant(64 * index), i8, width);
    loaded.getDefiningOp<LLVM::LoadOp>().setVolatile_(inOrder);
    return loaded;
  };
  auto byte = [&](int64_t value) { return splat(make<arith::ConstantOp>(b.getI8IntegerAttr(value)), width); };
  if (panels.elementBits == 8) {
    for (int64_t word = 0; word < BlockPanels::words; ++word)
      use(word, line(word));
    return;
  }
  int64_t highBits = panels.highBits(), wordsOfLine = highBits ? 8 / highBits : BlockPanels::words;
  SmallVector<Value> lowLines, highLines;
  for (int64_t i = 0; inOrder && i < panels.lowLines(); ++i)
    lowLines.push_back(line(i));
  for (int64_t first = 0; highBits && first < BlockPanels::words; first += wordsOfLine)
    highLines.push_back(line(panels.lowLines() + first / wordsOfLine));
  if (!panels.lowLines()) {
    for (int64_t word = 0; word < BlockPanels::words; ++word) {
      Value shifted = highLines[word / wordsOfLine];
      if (int64_t right = word % wordsOfLine * highBits)
        shifted = make<arith::ShRUIOp>(shifted, byte(right));
      use(word, make<arith::AndIOp>(shifted, byte((1 << highBits) - 1)));
    }
    return;
  }
  for (int64_t i = 0; i < BlockPanels::words / 2; ++i) {
    Value raw = inOrder ? lowLines[i] : line(i);
    for (int64_t word : {i, i + BlockPanels::words / 2}) {
      Value elements = unpackElements(panels, raw, word != i);
      if (highBits) {
        int64_t left = 4 - word % wordsOfLine * highBits;
        Value high = highLines[word / wordsOfLine];
        high = left >= 0 ? make<arith::ShLIOp>(high, byte(left)).getResult()
                         : make<arith::ShRUIOp>(high, byte(-left)).getResult();
        elements = make<arith::OrIOp>(elements, make<arith::AndIOp>(high, byte(((1 << highBits) - 1) << 4)));
      }
      use(word, elements);
    }
  }
}

//===-- Dequantized values ------------------------------------------------------------------------------------===//

void QuantizedWeightEmitter::dequantizePanel(const BlockPanels &panels, Value panel, Value target) {
  int64_t lanes = config.lanes, blocks = blocksOfStep(panels), stepsOfUnit = panels.unitDepth / kStep;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  auto vector = [&](Type type) { return VectorType::get({lanes}, type); };
  UnpackedEncoding encoding = encodingOf(panels, config.byteDot);
  int64_t offset = panels.isE2M1 ? encoding.offset : panels.integerOffset;
  double factor = panels.isE4M3 ? kernel::elementFactor(panels) : scaleFactor(panels) / encoding.multiplier;
  auto integers = [&](int64_t x) { return splat(word(x), lanes); };
  forLoop(constant(0), constant(panels.steps()), constant(1), [&](Value step) {
    Value unit = div(step, constant(stepsOfUnit)), ofUnit = rem(step, constant(stepsOfUnit));
    Value unitPointer = memory.at(panel, add(constant(panels.headBytes), mul(unit, constant(panels.unitBytes))), i8);
    Value from =
        memory.at(unitPointer, add(constant(panels.unitScaleBytes), mul(ofUnit, constant(panels.stepBytes()))), i8);
    Value to = memory.at(target, mul(step, constant(kStep * kRows)), f32);
    Value firstBlock = firstBlockOfStep(panels, ofUnit);
    for (int64_t v = 0; v < kRows / lanes; ++v) {
      SmallVector<Value> scales, minima;
      for (int64_t block = 0; block < blocks; ++block) {
        Value scale, minimum;
        if (panels.block)
          std::tie(scale, minimum) =
              weights.scalesOfBlock(panels, unitPointer, add(firstBlock, constant(block)), constant(v * lanes), lanes);
        if (panels.headBytes) {
          Value whole = memory.load(panel, constant(v * lanes),
                                    panels.block ? f32 : nn::scaleType(panels.scale, b.getContext()), lanes);
          scale = scale ? make<arith::MulFOp>(scale, whole).getResult() : whole;
        }
        if (factor != 1.0)
          scale = make<arith::MulFOp>(scale, floatConstant(factor, f32, lanes));
        scales.push_back(scale);
        minima.push_back(minimum);
      }
      int64_t first = v * lanes / 16 * (panels.stepBytes() / 2) + v * lanes % 16 * 4;
      forWordsOfStep(panels, memory.at(from, constant(first), i8), [&](int64_t index, Value elements) {
        Value word = make<vector::BitCastOp>(vector(i32), elements);
        int64_t block = index * blocks / BlockPanels::words;
        for (int64_t byte = 0; byte < 4; ++byte) {
          Value element = make<arith::AndIOp>(make<arith::ShRUIOp>(word, integers(8 * byte)), integers(255));
          Value value =
              panels.isE4M3
                  ? weights.decodeFloatElements(panels, element, lanes)
                  : make<arith::SIToFPOp>(vector(f32), make<arith::SubIOp>(element, integers(offset))).getResult();
          value = make<arith::MulFOp>(value, scales[block]);
          if (minima[block])
            value = make<arith::AddFOp>(value, minima[block]);
          memory.store(value, to, constant((4 * index + byte) * kRows + v * lanes), f32, lanes);
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
