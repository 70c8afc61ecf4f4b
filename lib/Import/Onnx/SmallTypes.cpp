//===- SmallTypes.cpp - Elements of 8 bits and fewer that only casts compute with ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formats: https://onnx.ai/onnx/technical/float8.html and float4.html, OCP Microscaling Formats 1.0 (E8M0 and those of
// 6 bits), arXiv 2206.02915 (those without infinities and -0). What casts do:
// https://onnx.ai/onnx/operators/onnx__Cast.html.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/SmallTypes.h"

#include "dialects/Interfaces/ScalarBuilder.h"
#include "lib/Formats/FloatFormats.h"
#include <cmath>

using namespace mlir;

namespace intarsia::onnx {
namespace {

constexpr unsigned bitsOfNan = 0x7FC00000, bitsOfInfinity = 0x7F800000;
constexpr unsigned nanOfPowers = 0xFF;    // of float8e8m0
constexpr unsigned nanWithoutZero = 0x80; // of fnuz, in place of -0
constexpr FloatFormat floatE4M3FNUZ = {3, -7, 0x7F, 240.0f, -1, 8};
constexpr FloatFormat floatE5M2FNUZ = {2, -15, 0x7F, 57344.0f, -1, 8};

const FloatFormat &formatOf(DataType type) {
  switch (type) {
  case DataType::Float8E4M3FN:
    return floatE4M3;
  case DataType::Float8E4M3FNUZ:
    return floatE4M3FNUZ;
  case DataType::Float8E5M2:
    return floatE5M2;
  case DataType::Float8E5M2FNUZ:
    return floatE5M2FNUZ;
  case DataType::Float6E2M3:
    return floatE2M3;
  case DataType::Float6E3M2:
    return floatE3M2;
  default:
    return floatE2M1;
  }
}

bool isPower(DataType type) { return type == DataType::Float8E8M0; }
bool isFnuz(DataType type) { return type == DataType::Float8E4M3FNUZ || type == DataType::Float8E5M2FNUZ; }

/// Returns the bits, without a sign, of numbers above the largest; the largest if it stands for them.
unsigned bitsBeyond(DataType type, const SmallRounding &rounding) {
  const FloatFormat &format = formatOf(type);
  bool isFinite = format.bits < 8;
  return rounding.saturates || isFinite ? format.largestPattern : format.largestPattern + 1;
}

unsigned encodePower(double number, const SmallRounding &rounding) {
  constexpr double least = 0x1p-127, most = 0x1p127;
  if (std::isnan(number))
    return nanOfPowers;
  number = std::fabs(number);
  if (!rounding.saturates && (number < least || number > most))
    return nanOfPowers;
  number = std::clamp(number, least, most);
  int exponent = std::ilogb(number);
  double fraction = std::ldexp(number, -exponent);
  bool isUp = rounding.powers == SmallRounding::Powers::Up        ? fraction > 1
              : rounding.powers == SmallRounding::Powers::Nearest ? fraction >= 1.5
                                                                  : false;
  return unsigned(exponent + 127 + isUp);
}

} // namespace

double decodeSmallFloat(DataType type, unsigned bits) {
  if (isPower(type))
    return decodeE8M0(uint8_t(bits));
  if (isFnuz(type) && bits == nanWithoutZero)
    return std::numeric_limits<double>::quiet_NaN();
  float value = decodeFloat(formatOf(type), bits);
  return std::isnan(value) && (bits & 0x80) ? -double(value) : double(value);
}

unsigned encodeSmallFloat(DataType type, double number, const SmallRounding &rounding) {
  if (isPower(type))
    return encodePower(number, rounding);
  const FloatFormat &format = formatOf(type);
  unsigned sign = unsigned(std::signbit(number)) << (format.bits - 1);
  if (std::isnan(number)) {
    // NaN of formats that have none: 0 of the other sign, as in the standard's tests.
    if (format.bits < 8)
      return sign ^ (1u << (format.bits - 1));
    return isFnuz(type) ? nanWithoutZero : unsigned(format.nan) | sign;
  }
  double magnitude = std::fabs(number);
  unsigned bits = format.largestPattern + 1;
  if (!(magnitude > 2 * double(format.largest))) {
    int exponent = magnitude == 0 ? format.smallestExponent : std::max(std::ilogb(magnitude), format.smallestExponent);
    // The step below the smallest normal number is constant; a carry of the rounded mantissa increments the exponent.
    auto steps = unsigned(std::nearbyint(std::ldexp(magnitude, int(format.mantissaBits) - exponent)));
    bits = steps + (unsigned(exponent - format.smallestExponent) << format.mantissaBits);
  }
  if (bits > format.largestPattern)
    bits = bitsBeyond(type, rounding);
  if (isFnuz(type))
    return bits == nanWithoutZero || bits == 0 ? bits : bits | sign;
  return bits | sign;
}

std::optional<Element> castElement(const Element &element, DataType from, DataType to, const SmallRounding &rounding) {
  if (from == to)
    return element;
  // A size of the call may be too large for fewer bits, and wraps there.
  if (element.isSize())
    return isInteger(to) && (bitsOf(to) >= 32 || isBool(from)) ? std::optional(element) : std::nullopt;
  Element number = isSmallFloat(from) ? Element::ofReal(decodeSmallFloat(from, unsigned(element.integer))) : element;
  return isSmallFloat(to) ? Element(int64_t(encodeSmallFloat(to, number.number(), rounding))) : number;
}

//===-- In bodies of elementwise ops --------------------------------------------------------------------------===//

static Integer widen(ScalarBuilder &s, Value byte) { return {s, arith::ExtUIOp::create(s, s.getI32Type(), byte)}; }

static Value narrow(ScalarBuilder &s, Integer bits) { return arith::TruncIOp::create(s, s.getI8Type(), bits); }

Value decodeSmallFloat(OpBuilder &builder, Location at, Value byte, DataType type) {
  ScalarBuilder s(at, builder);
  Integer bits = widen(s, byte);
  if (isPower(type)) {
    Integer power = choose(bits == 0, 0x00400000, bits << 23);
    return s.fromBits(choose(bits == nanOfPowers, bitsOfNan, power));
  }
  const FloatFormat &format = formatOf(type);
  int64_t signBit = 1ll << (format.bits - 1), smallestNormal = 1ll << format.mantissaBits;
  Integer magnitude = bits & (signBit - 1);
  Integer sign = ((bits & signBit) << (32 - format.bits));
  // An exponent of 1 is the smallest one.
  Integer normal = (magnitude << (23 - format.mantissaBits)) + (int64_t(126 + format.smallestExponent) << 23);
  Value step = s.f32(std::ldexp(1.0f, format.smallestExponent - int(format.mantissaBits)));
  Integer subnormal(s, s.bits(s.mul(s.toFloat(magnitude), step)));
  Integer number = choose(magnitude < smallestNormal, subnormal, normal);
  if (isFnuz(type))
    return s.fromBits(choose(bits == nanWithoutZero, bitsOfNan, number | sign));
  if (format.largestPattern < signBit - 1) {
    bool hasInfinity = type == DataType::Float8E5M2;
    Integer special = hasInfinity ? choose(magnitude == format.largestPattern + 1, Integer(s, s.i32(bitsOfInfinity)),
                                           Integer(s, s.i32(bitsOfNan)))
                                  : Integer(s, s.i32(bitsOfNan));
    number = choose(magnitude <= format.largestPattern, number, special);
  }
  return s.fromBits(number | sign);
}

/// The bits of float8e8m0 are the exponent of f32, which has 2^-127 as a subnormal number.
static Integer encodePower(ScalarBuilder &s, Integer magnitude, const SmallRounding &rounding) {
  constexpr int64_t least = 0x00400000, smallestNormal = 0x00800000, most = 0x7F000000, fraction = 0x007FFFFF;
  Integer one(s, s.i32(1)), zero(s, s.i32(0));
  Integer power = magnitude >> 23, subnormal = zero;
  if (rounding.powers == SmallRounding::Powers::Up) {
    power = (magnitude + fraction) >> 23;
    subnormal = choose(magnitude <= least, zero, one);
  } else if (rounding.powers == SmallRounding::Powers::Nearest) {
    power = (magnitude + least) >> 23;
    subnormal = choose(magnitude < least + least / 2, zero, one);
  }
  Integer bits = choose(magnitude < smallestNormal, subnormal, smaller(power, nanOfPowers - 1));
  Integer isNan = bitsOfInfinity < magnitude;
  if (!rounding.saturates)
    isNan = isNan | (magnitude < least) | (most < magnitude);
  return choose(isNan, nanOfPowers, bits);
}

Value encodeSmallFloat(OpBuilder &builder, Location at, Value number, DataType type, const SmallRounding &rounding) {
  ScalarBuilder s(at, builder);
  Integer bits(s, s.bits(number)), magnitude = bits & 0x7FFFFFFF;
  if (isPower(type))
    return narrow(s, encodePower(s, magnitude, rounding));
  const FloatFormat &format = formatOf(type);
  int64_t smallestNormal = format.smallestExponent + 127; // as the exponent of an f32
  Integer sign = bits >> 31, exponent = magnitude >> 23;
  // Bits of the mantissa that are rounded off: more below the smallest normal number, where the step is constant.
  Integer raised = larger(exponent, smallestNormal);
  Integer dropped = smaller(raised - exponent + int64_t(23 - format.mantissaBits), 31);
  Integer mantissa = (magnitude & 0x007FFFFF) | 0x00800000;
  Integer half = (Integer(1) << dropped) >> 1, isOdd = (mantissa >> dropped) & 1;
  Integer steps = (mantissa + half - 1 + isOdd) >> dropped;
  Integer rounded = steps + ((raised - smallestNormal) << format.mantissaBits);
  Integer isBeyond = format.largestPattern < rounded, isNan = bitsOfInfinity < magnitude;
  Integer kept = choose(isBeyond, bitsBeyond(type, rounding), rounded);
  Integer top = sign << (format.bits - 1);
  if (isFnuz(type)) {
    if (!rounding.saturates)
      isNan = isNan | isBeyond;
    return narrow(s, choose(isNan, nanWithoutZero, choose(kept == 0, 0, kept | top)));
  }
  if (format.nan >= 0)
    return narrow(s, choose(isNan, format.nan, kept) | top);
  return narrow(s, choose(isNan, top ^ (1ll << (format.bits - 1)), kept | top));
}

Value wrapSmallInteger(OpBuilder &builder, Location at, Value byte, DataType type) {
  ScalarBuilder s(at, builder);
  Integer bits(s, byte);
  if (isUnsigned(type))
    return bits & ((1 << bitsOf(type)) - 1);
  Integer above = 8 - int64_t(bitsOf(type));
  Value count = arith::ConstantOp::create(s, s.getI8IntegerAttr(int8_t(8 - bitsOf(type))));
  return arith::ShRSIOp::create(s, bits << above, count);
}

Value narrowToOdd(OpBuilder &builder, Location at, Value number) {
  ScalarBuilder s(at, builder);
  Value nearest = arith::TruncFOp::create(s, s.getF32Type(), number);
  Value back = arith::ExtFOp::create(s, s.getF64Type(), nearest);
  Integer bits(s, s.bits(nearest));
  Integer isLarger(s, arith::CmpFOp::create(s, arith::CmpFPredicate::OGT, s.abs(back), s.abs(number)));
  Integer isInexact(s, arith::CmpFOp::create(s, arith::CmpFPredicate::ONE, back, number));
  Integer towardsZero = choose(isLarger, bits - 1, bits);
  return s.fromBits(choose(isInexact, towardsZero | 1, bits));
}

} // namespace intarsia::onnx
