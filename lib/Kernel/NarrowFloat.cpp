//===- NarrowFloat.cpp - Floats of one and two bytes without instructions for them --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/MemoryEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::kernel {

namespace {
/// Arithmetic on the bits of f32, for scalars and vectors alike.
struct Bits {
  OpBuilder &b;
  Location loc;
  int64_t width;

  Type shaped(Type element) const { return width == 1 ? element : Type(VectorType::get({width}, element)); }
  Value constant(uint32_t value) const {
    auto type = shaped(b.getI32Type());
    Attribute scalar = b.getI32IntegerAttr(static_cast<int32_t>(value));
    if (auto vector = dyn_cast<VectorType>(type))
      scalar = DenseElementsAttr::get(vector, scalar);
    return arith::ConstantOp::create(b, loc, cast<TypedAttr>(scalar));
  }
  Value of(Value f32) const { return arith::BitcastOp::create(b, loc, shaped(b.getI32Type()), f32); }
  Value asFloat(Value bits) const { return arith::BitcastOp::create(b, loc, shaped(b.getF32Type()), bits); }
  Value add(Value x, Value y) const { return arith::AddIOp::create(b, loc, x, y); }
  Value conjunction(Value x, Value y) const { return arith::AndIOp::create(b, loc, x, y); }
  Value disjunction(Value x, Value y) const { return arith::OrIOp::create(b, loc, x, y); }
  Value left(Value x, uint32_t by) const { return arith::ShLIOp::create(b, loc, x, constant(by)); }
  Value right(Value x, uint32_t by) const { return arith::ShRUIOp::create(b, loc, x, constant(by)); }
  Value above(Value x, uint32_t limit) const {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, x, constant(limit));
  }
  Value select(Value condition, Value yes, Value no) const {
    return arith::SelectOp::create(b, loc, condition, yes, no);
  }
  Value store(Value bits, Type type) const {
    Value narrow = arith::TruncIOp::create(b, loc, shaped(b.getI16Type()), bits);
    return arith::BitcastOp::create(b, loc, shaped(type), narrow);
  }
};
} // namespace

Value MemoryEmitter::widen(Value value, Type compute, int64_t width) {
  Type stored = getElementTypeOrSelf(value.getType());
  if (!stored.isBF16() && (!stored.isF16() || code->instructions.convertsF16))
    return arith::ExtFOp::create(b, loc, vectorOf(compute, width), value);
  Bits bits{b, loc, width};
  Value raw = arith::BitcastOp::create(b, loc, vectorOf(b.getI16Type(), width), value);
  raw = arith::ExtUIOp::create(b, loc, vectorOf(b.getI32Type(), width), raw);
  // An fpext of bf16 becomes the same shift; but LLVM moves floor and its like before an fpext, and rounds the result
  // to bf16 by a library call.
  if (stored.isBF16())
    return bits.asFloat(bits.left(raw, 16));
  // Exponent and mantissa, moved to those of an f32, are 2^-112 times the value, subnormals included.
  Value magnitude = bits.left(bits.conjunction(raw, bits.constant(0x7fff)), 13);
  Value finite =
      bits.of(arith::MulFOp::create(b, loc, bits.asFloat(magnitude), floatConstant(0x1p112, compute, width)));
  Value special = bits.disjunction(magnitude, bits.constant(0x7f800000));
  Value result = bits.select(bits.above(magnitude, (0x7c00u << 13) - 1), special, finite);
  return bits.asFloat(bits.disjunction(result, bits.left(bits.conjunction(raw, bits.constant(0x8000)), 16)));
}

Value MemoryEmitter::narrow(Value value, Type stored, int64_t width) {
  bool software =
      (stored.isBF16() && !code->instructions.convertsBf16) || (stored.isF16() && !code->instructions.convertsF16);
  if (!software)
    return arith::TruncFOp::create(b, loc, vectorOf(stored, width), value);
  Bits bits{b, loc, width};
  Value x = bits.of(value);
  Value magnitude = bits.conjunction(x, bits.constant(0x7fffffff));
  Value isNaN = bits.above(magnitude, 0x7f800000);
  if (stored.isBF16()) {
    // Ties to even: half of the last kept bit less one, and one more if that bit is odd. A NaN stays one.
    Value odd = bits.conjunction(bits.right(x, 16), bits.constant(1));
    Value rounded = bits.right(bits.add(bits.add(x, bits.constant(0x7fff)), odd), 16);
    Value quiet = bits.disjunction(bits.right(x, 16), bits.constant(0x40));
    return bits.store(bits.select(isNaN, quiet, rounded), stored);
  }
  Value odd = bits.conjunction(bits.right(magnitude, 13), bits.constant(1));
  Value normal = bits.right(bits.add(bits.add(magnitude, bits.constant(0xc8000fff)), odd), 13);
  // Below 2^-14 the unit is 2^-24: adding 0.5 as f32 rounds to it, ties to even.
  Value shifted = arith::AddFOp::create(b, loc, bits.asFloat(magnitude), floatConstant(0.5, b.getF32Type(), width));
  Value subnormal = arith::SubIOp::create(b, loc, bits.of(shifted), bits.constant(0x3f000000));
  Value large = bits.select(isNaN, bits.constant(0x7e00), bits.constant(0x7c00));
  Value result = bits.select(bits.above(magnitude, 0x387fffff), normal, subnormal);
  result = bits.select(bits.above(magnitude, 0x477fffff), large, result);
  Value sign = bits.right(bits.conjunction(x, bits.constant(0x80000000)), 16);
  return bits.store(bits.disjunction(result, sign), stored);
}

// E4M3 (arXiv 2209.05433, table 1): exponent bias 7, no infinities, NaN is 0x7f.

Value MemoryEmitter::widenE4M3(Value bytes, int64_t width) {
  Type f32 = b.getF32Type(), i16 = vectorOf(b.getI16Type(), width);
  if (code->instructions.convertsF16) {
    // Moved to those of an f16, they are 2^-8 times the value, subnormals included, which instructions convert at
    // full speed. The sign comes twice and goes once.
    auto constant16 = [&](uint16_t value) -> Value {
      Attribute scalar = b.getI16IntegerAttr(static_cast<int16_t>(value));
      if (auto vector = dyn_cast<VectorType>(i16))
        scalar = DenseElementsAttr::get(vector, scalar);
      return arith::ConstantOp::create(b, loc, cast<TypedAttr>(scalar));
    };
    Value half = arith::ShLIOp::create(b, loc, arith::ExtSIOp::create(b, loc, i16, bytes), constant16(7));
    half = arith::AndIOp::create(b, loc, half, constant16(0xbfff));
    Value magnitude = arith::AndIOp::create(b, loc, half, constant16(0x3fff));
    Value isNaN = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, magnitude, constant16(0x3f80));
    half = arith::SelectOp::create(b, loc, isNaN, constant16(0x7e00), half);
    half = arith::BitcastOp::create(b, loc, vectorOf(b.getF16Type(), width), half);
    return arith::MulFOp::create(b, loc, widen(half, f32, width), floatConstant(0x1p8, f32, width));
  }
  Bits bits{b, loc, width};
  Value raw = arith::ExtUIOp::create(b, loc, vectorOf(b.getI32Type(), width), bytes);
  Value magnitude = bits.conjunction(raw, bits.constant(0x7f));
  Value result =
      arith::MulFOp::create(b, loc, bits.asFloat(bits.left(magnitude, 20)), floatConstant(0x1p120, f32, width));
  result = bits.select(bits.above(magnitude, 0x7e), bits.constant(0x7fc00000), bits.of(result));
  return bits.asFloat(bits.disjunction(result, bits.left(bits.conjunction(raw, bits.constant(0x80)), 24)));
}

Value MemoryEmitter::narrowE4M3(Value value, int64_t width) {
  Bits bits{b, loc, width};
  Value x = bits.of(value);
  Value magnitude = bits.conjunction(x, bits.constant(0x7fffffff));
  // As narrow() to f16: 20 bits go, the exponent's bias is 120 less, and below 2^-6 the unit is 2^-9.
  Value odd = bits.conjunction(bits.right(magnitude, 20), bits.constant(1));
  Value normal = bits.right(bits.add(bits.add(magnitude, bits.constant(0xc407ffff)), odd), 20);
  Value shifted = arith::AddFOp::create(b, loc, bits.asFloat(magnitude), floatConstant(0x1p14, b.getF32Type(), width));
  Value subnormal = arith::SubIOp::create(b, loc, bits.of(shifted), bits.constant(0x46800000));
  Value result = bits.select(bits.above(magnitude, 0x3c7fffff), normal, subnormal);
  result = bits.select(bits.above(magnitude, 0x43e00000), bits.constant(0x7e), result);
  result = bits.select(bits.above(magnitude, 0x7f800000), bits.constant(0x7f), result);
  Value sign = bits.right(bits.conjunction(x, bits.constant(0x80000000)), 24);
  return arith::TruncIOp::create(b, loc, vectorOf(b.getI8Type(), width), bits.disjunction(result, sign));
}

// E2M1 and its scales (OCP Microscaling Formats 1.0, sections 5.3.3, 5.4.1 and 6.3; nn.quantize says how they are
// chosen).

namespace {
/// A magnitude of E2M1 while it is rounded: steps between neighbours in the last bits of a sum.
struct RoundedE2M1 {
  Value exponent; ///< of an f32, of which the steps are those
  Value rounder;  ///< bits of a number with such steps in its last bits
  Value sum;      ///< f32: magnitude and rounder
};
} // namespace

/// Rounds the magnitude of an element, which is clamped. NaN becomes zero.
static RoundedE2M1 roundMagnitude(const Bits &bits, Value value) {
  constexpr uint32_t largest = 0x40c00000, exponentOfOne = 127, infinity = 0x7f800000;
  Value x = bits.of(value), magnitude = bits.conjunction(x, bits.constant(0x7fffffff));
  Value isNaN = bits.above(magnitude, infinity);
  magnitude = bits.select(bits.above(magnitude, largest), bits.constant(largest), magnitude);
  magnitude = bits.select(isNaN, bits.constant(0), magnitude);
  RoundedE2M1 rounded;
  // Below 1 the step stays that of 1, a half.
  rounded.exponent = arith::MaxUIOp::create(bits.b, bits.loc, bits.right(magnitude, 23), bits.constant(exponentOfOne));
  // 1.5 * 2^(e + 22) has steps of 2^(e - 1) in its last bit, as E2M1 has from 2^e on: a sum is rounded to them, to
  // even.
  rounded.rounder =
      bits.disjunction(bits.left(bits.add(rounded.exponent, bits.constant(22)), 23), bits.constant(0x400000));
  rounded.sum = arith::AddFOp::create(bits.b, bits.loc, bits.asFloat(magnitude), bits.asFloat(rounded.rounder));
  return rounded;
}

Value MemoryEmitter::roundE2M1(Value value, int64_t width) {
  Bits bits{b, loc, width};
  RoundedE2M1 rounded = roundMagnitude(bits, value);
  Value magnitude = arith::SubFOp::create(b, loc, rounded.sum, bits.asFloat(rounded.rounder));
  Value sign = bits.conjunction(bits.of(value), bits.constant(0x80000000));
  return bits.asFloat(bits.disjunction(bits.of(magnitude), sign));
}

Value MemoryEmitter::narrowE2M1(Value value, int64_t width) {
  Bits bits{b, loc, width};
  RoundedE2M1 rounded = roundMagnitude(bits, value);
  Value steps = arith::SubIOp::create(b, loc, bits.of(rounded.sum), rounded.rounder);
  // Each exponent has two patterns, and those of 1 come behind the two below it.
  Value before = bits.left(arith::SubIOp::create(b, loc, rounded.exponent, bits.constant(127)), 1);
  Value sign = bits.left(bits.right(bits.of(value), 31), 3);
  return bits.disjunction(bits.add(steps, before), sign);
}

Value MemoryEmitter::quotient(Value values, Value scale, int64_t width) {
  Type f32 = b.getF32Type();
  Value isZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, scale, floatConstant(0.0, f32, 1));
  Value divisor = arith::SelectOp::create(b, loc, isZero, floatConstant(1.0, f32, 1), scale);
  Value ratios = arith::DivFOp::create(b, loc, values, splat(divisor, width));
  return arith::SelectOp::create(b, loc, splat(isZero, width), floatConstant(0.0, f32, width), ratios);
}

Value MemoryEmitter::rowScaleE2M1(Value largest) {
  Type f32 = b.getF32Type();
  Value infinity = floatConstant(std::numeric_limits<double>::infinity(), f32, 1);
  Value isFinite = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, largest, infinity);
  Value scale = arith::DivFOp::create(b, loc, largest, floatConstant(floatE4M3.largest * floatE2M1.largest, f32, 1));
  return arith::SelectOp::create(b, loc, isFinite, scale,
                                 floatConstant(std::numeric_limits<double>::quiet_NaN(), f32, 1));
}

MemoryEmitter::BlockScale MemoryEmitter::scaleE2M1(Value largest, Value ofRow) {
  Bits bits{b, loc, 1};
  BlockScale scale;
  if (ofRow) {
    Value ratio = arith::DivFOp::create(b, loc, largest, floatConstant(floatE2M1.largest, b.getF32Type(), 1));
    scale.pattern = narrowE4M3(quotient(ratio, ofRow, 1), 1);
    scale.stored = widenE4M3(scale.pattern, 1);
    scale.whole = arith::MulFOp::create(b, loc, scale.stored, ofRow);
    return scale;
  }
  // The exponent of the largest magnitude, less that of 6. 0 is 2^-127, a subnormal, and 255 is NaN.
  constexpr uint32_t exponentOfLargest = 2, nan = 255, smallest = 0x00400000, nanOfF32 = 0x7fc00000;
  Value exponent = bits.right(bits.of(largest), 23);
  Value isFinite = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, exponent, bits.constant(nan));
  Value lower = arith::SubIOp::create(b, loc, exponent, bits.constant(exponentOfLargest));
  lower = arith::MaxSIOp::create(b, loc, lower, bits.constant(0));
  Value power = arith::MaxUIOp::create(b, loc, bits.left(lower, 23), bits.constant(smallest));
  scale.pattern = arith::TruncIOp::create(b, loc, b.getI8Type(), bits.select(isFinite, lower, bits.constant(nan)));
  scale.stored = bits.asFloat(bits.select(isFinite, power, bits.constant(nanOfF32)));
  scale.whole = scale.stored;
  return scale;
}

} // namespace intarsia::kernel
