//===- EmitCodes.cpp - Codes of quantized weights: multiplied, unpacked, as numbers ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Target/CPU/CodeNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

static constexpr int64_t kStep = BlockPanels::stepDepth, kRows = BlockPanels::rows;

std::optional<BlockPanels> KernelEmitter::panelsOf(Value weight) {
  auto argument = dyn_cast<BlockArgument>(weight);
  if (!argument || argument.getOwner() != &kernel.getBody().front())
    return std::nullopt;
  auto layout = kernel.getArgAttrOfType<rt::LayoutAttr>(argument.getArgNumber(), "rt.layout");
  auto format = layout ? dyn_cast_or_null<nn::BlockFormatAttr>(layout.getFormat()) : nullptr;
  if (!format)
    return std::nullopt;
  return BlockPanels::of(format, cast<RankedTensorType>(weight.getType()).getDimSize(1));
}

//===-- Codes -------------------------------------------------------------------------------------------------===//

/// sums + four products of bytes a lane: `codes` vector<4 lanes x i8> unsigned, `activations` an i32 splat of four
/// signed bytes.
Value KernelEmitter::addByteProducts(Value sums, Value codes, Value activations, bool codesAre8Bits) {
  int64_t lanes = config.lanes;
  auto call = [&](StringRef name, Type type, ValueRange operands) -> Value {
    return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), operands).getResults();
  };
  auto bytes = VectorType::get({4 * lanes}, b.getI8Type());
  auto sumType = cast<VectorType>(sums.getType());
  if (config.byteDot == ByteDot::Vnni)
    return call(lanes == 16 ? "llvm.x86.avx512.vpdpbusd.512" : "llvm.x86.avx512.vpdpbusd.256", sumType,
                {sums, codes, vector::BitCastOp::create(b, loc, bytes, activations)});
  if (config.byteDot == ByteDot::Maddubs) {
    Value left = codes, right = vector::BitCastOp::create(b, loc, bytes, activations);
    if (codesAre8Bits) {
      // The magnitude is what is unsigned, the sign goes over to the activation.
      Value flip = splat(arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(-128)), 4 * lanes);
      Value isNegative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, codes, flip);
      Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(bytes));
      Value code = arith::XOrIOp::create(b, loc, codes, flip);
      left = arith::SelectOp::create(b, loc, isNegative, arith::SubIOp::create(b, loc, zero, code), code);
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
  Value left = vector::BitCastOp::create(b, loc, sumType, codes);
  auto shift = [&](int64_t bits) { return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(bits)), lanes); };
  Value mask = shift(255);
  for (int64_t byte = 0; byte < 4; ++byte) {
    Value code = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, left, shift(8 * byte)), mask);
    Value activation = arith::ShLIOp::create(b, loc, activations, shift(24 - 8 * byte));
    activation = arith::ShRSIOp::create(b, loc, activation, shift(24));
    sums = arith::AddIOp::create(b, loc, sums, arith::MulIOp::create(b, loc, code, activation));
  }
  return sums;
}

/// The codes of one half of bytes (`high`: the upper four bits), as they are multiplied.
Value KernelEmitter::unpackCodes(const BlockPanels &panels, Value raw, bool high) {
  if (panels.codeBits == 8)
    return raw;
  auto type = dyn_cast<VectorType>(raw.getType());
  int64_t width = type ? type.getNumElements() : 1;
  auto byte = [&](int64_t value) { return splat(arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(value)), width); };
  Value code = high ? arith::ShRUIOp::create(b, loc, raw, byte(4)).getResult()
                    : arith::AndIOp::create(b, loc, raw, byte(15)).getResult();
  if (panels.format.getElement() != nn::BlockElement::E2M1)
    return code;
  CodeNumbers numbers = numbersOf(panels, config.byteDot);
  if (config.byteDot != ByteDot::Plain && width == 4 * config.lanes) {
    SmallVector<int8_t> table;
    for (int64_t i = 0; i < width; ++i)
      table.push_back(numbers.multiplier * nn::decodeElement(nn::BlockElement::E2M1, i % 16) + numbers.offset);
    Value entries = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef<int8_t>(table)));
    StringRef name = width == 64   ? "llvm.x86.avx512.pshuf.b.512"
                     : width == 32 ? "llvm.x86.avx2.pshuf.b"
                                   : "llvm.x86.ssse3.pshuf.b.128";
    return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), ValueRange{entries, code}).getResults();
  }
  // Magnitudes times two are 0, 1, 2, 3, 4, 6, 8, 12.
  Value magnitude = arith::AndIOp::create(b, loc, code, byte(7));
  Value number = magnitude;
  for (auto [from, more] : {std::pair<int64_t, int64_t>{5, 1}, {6, 1}, {7, 3}}) {
    Value above = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, magnitude, byte(from));
    number = arith::AddIOp::create(b, loc, number, arith::SelectOp::create(b, loc, above, byte(more), byte(0)));
  }
  Value isNegative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, code, byte(8));
  Value offset = byte(numbers.offset);
  return arith::SelectOp::create(b, loc, isNegative, arith::SubIOp::create(b, loc, offset, number),
                                 arith::AddIOp::create(b, loc, offset, number));
}

/// The scales of `lanes` neighbouring rows of a panel, as f32; those of E4M3 are 256 times too small. `pointer` is at
/// those of row 0.
Value KernelEmitter::loadScales(const BlockPanels &panels, Value pointer, Value first, int64_t lanes) {
  Type i8 = b.getI8Type();
  auto constantOf = [&](Type type, int64_t value) {
    return splat(arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value)), lanes);
  };
  switch (panels.format.getScale()) {
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
    return loadAt(pointer, first, panels.format.getScaleType(), lanes);
  }
}

//===-- Numbers -----------------------------------------------------------------------------------------------===//

/// The number at [row, k] of a weight that is stored as codes.
Value KernelEmitter::evaluateCode(const BlockPanels &panels, Value weight, Value row, Value k) {
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  auto integer = [&](int64_t x) -> Value { return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(x)); };
  Value panel = offsetPointer(weight, mul(div(row, constant(kRows)), constant(panels.panelBytes())), i8);
  Value inPanel = rem(row, constant(kRows));
  Value inUnit = rem(k, constant(panels.unitDepth)), inStep = rem(k, constant(kStep));
  Value unit = offsetPointer(
      panel, add(constant(panels.headBytes), mul(div(k, constant(panels.unitDepth)), constant(panels.unitBytes))), i8);
  Value word = panels.codeBits == 4 ? rem(inStep, constant(kStep / 2)) : inStep;
  Value place = add(constant(panels.unitScaleBytes), mul(div(inUnit, constant(kStep)), constant(panels.stepBytes())));
  place = add(place, mul(div(inPanel, constant(16)), constant(panels.stepBytes() / 2)));
  place = add(place, add(mul(div(word, constant(4)), constant(64)), rem(word, constant(4))));
  place = add(place, mul(rem(inPanel, constant(16)), constant(4)));
  Value code = arith::ExtUIOp::create(b, loc, i32, loadAt(unit, place, i8, 1));
  if (panels.codeBits == 4) {
    Value shift = arith::TruncIOp::create(b, loc, i32, mul(div(inStep, constant(kStep / 2)), constant(4)));
    code = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, code, shift), integer(15));
  }
  Value number;
  double factor = scaleFactor(panels);
  if (panels.format.getElement() == nn::BlockElement::E2M1) {
    Value unpacked = unpackCodes(panels, arith::TruncIOp::create(b, loc, i8, code), false);
    CodeNumbers numbers = numbersOf(panels, config.byteDot);
    number = arith::SubIOp::create(b, loc, arith::ExtUIOp::create(b, loc, i32, unpacked), integer(numbers.offset));
    factor /= numbers.multiplier;
  } else {
    number = arith::SubIOp::create(b, loc, code, integer(panels.codeOffset()));
  }
  number = arith::SIToFPOp::create(b, loc, f32, number);
  auto scaleBy = [&](Value scale) { number = arith::MulFOp::create(b, loc, number, scale); };
  if (panels.block) {
    Value block =
        offsetPointer(unit, mul(div(inUnit, constant(panels.block)), constant(kRows * panels.scaleBytes)), i8);
    Value scale = loadScales(panels, block, inPanel, 1);
    scaleBy(factor == 1.0 ? scale : arith::MulFOp::create(b, loc, scale, floatConstant(factor, f32, 1)).getResult());
  }
  if (panels.headBytes)
    scaleBy(loadAt(panel, inPanel, panels.block ? f32 : panels.format.getScaleType(), 1));
  return number;
}

void KernelEmitter::decodePanel(const BlockPanels &panels, Value panel, Value target) {
  int64_t lanes = config.lanes, blocks = blocksOfStep(panels), stepsOfUnit = panels.unitDepth / kStep;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  auto vector = [&](Type type) { return VectorType::get({lanes}, type); };
  CodeNumbers numbers = numbersOf(panels, config.byteDot);
  int64_t offset = panels.codeBits == 8 ? 128 : numbers.offset;
  double factor = scaleFactor(panels) / numbers.multiplier;
  forLoop(constant(0), constant(panels.steps()), constant(1), [&](Value step) {
    Value unit = div(step, constant(stepsOfUnit)), ofUnit = rem(step, constant(stepsOfUnit));
    Value unitPointer =
        offsetPointer(panel, add(constant(panels.headBytes), mul(unit, constant(panels.unitBytes))), i8);
    Value from =
        offsetPointer(unitPointer, add(constant(panels.unitScaleBytes), mul(ofUnit, constant(panels.stepBytes()))), i8);
    Value to = offsetPointer(target, mul(step, constant(kStep * kRows)), f32);
    Value firstBlock = !panels.block          ? constant(0)
                       : panels.block < kStep ? mul(ofUnit, constant(blocks))
                                              : div(ofUnit, constant(panels.block / kStep));
    for (int64_t v = 0; v < kRows / lanes; ++v) {
      SmallVector<Value> scales;
      for (int64_t block = 0; block < blocks; ++block) {
        Value scale;
        if (panels.block)
          scale =
              loadScales(panels,
                         offsetPointer(unitPointer,
                                       mul(add(firstBlock, constant(block)), constant(kRows * panels.scaleBytes)), i8),
                         constant(v * lanes), lanes);
        if (panels.headBytes) {
          Value whole =
              loadAt(panel, constant(v * lanes), panels.block ? Type(f32) : panels.format.getScaleType(), lanes);
          scale = scale ? arith::MulFOp::create(b, loc, scale, whole).getResult() : whole;
        }
        if (factor != 1.0)
          scale = arith::MulFOp::create(b, loc, scale, floatConstant(factor, f32, lanes));
        scales.push_back(scale);
      }
      int64_t lines = panels.codeBits == 4 ? 4 : 8;
      for (int64_t line = 0; line < lines; ++line) {
        int64_t place = v * lanes / 16 * (panels.stepBytes() / 2) + v * lanes % 16 * 4 + 64 * line;
        Value raw = loadAt(from, constant(place), i8, 4 * lanes);
        for (int64_t half = 0; half < (panels.codeBits == 4 ? 2 : 1); ++half) {
          Value words = vector::BitCastOp::create(b, loc, vector(i32), unpackCodes(panels, raw, half));
          for (int64_t byte = 0; byte < 4; ++byte) {
            auto integers = [&](int64_t x) {
              return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(x)), lanes);
            };
            Value code =
                arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, words, integers(8 * byte)), integers(255));
            Value number =
                arith::SIToFPOp::create(b, loc, vector(f32), arith::SubIOp::create(b, loc, code, integers(offset)));
            int64_t k = 16 * half + 4 * line + byte;
            number = arith::MulFOp::create(b, loc, number, scales[k * blocks / kStep]);
            storeAt(number, to, constant(k * kRows + v * lanes), f32, lanes);
          }
        }
      }
    }
  });
}

} // namespace intarsia::cpu
