//===- VectorMath.cpp - Elementary functions as vector arithmetic ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Coefficients are from math/minimax.py, which prints the errors quoted here.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "lib/Kernel/MathBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::kernel {
namespace {

// Polynomials, constant first, all coefficients f32.

// e^r on |r| ≤ ln(2)/2, 1.05 and 0.025 ulp before rounding; the weight is the unit of the last place of the result.
constexpr float exp5[] = {1.0f, 0.999999464f, 0.499991238f, 0.166682363f, 0.0419002511f, 0.00825619418f};
constexpr float exp6[] = {1.0f, 1.0f, 0.499999553f, 0.166665435f, 0.0416798368f, 0.00836620294f, 0.00130943325f};

// e^r on [-ln(2)/2, ln 2], 0.015 ulp before rounding. The upper end is for arguments above 127.5 ln 2.
constexpr float exp7[] = {1.0f,          1.0f,           0.499999732f,  0.166666642f,
                          0.0416711867f, 0.00832833443f, 0.0013690528f, 0.000244185358f};

// 2^r on |r| ≤ 1/2, 1.06 and 0.025 ulp before rounding.
constexpr float exp2Degree5[] = {1.0f, 0.693146825f, 0.240222335f, 0.0555089787f, 0.00967186876f, 0.00132235081f};
constexpr float exp2Degree6[] = {1.0f,           0.693147182f,  0.240226313f,   0.0555036552f,
                                 0.00962068979f, 0.0013386705f, 0.000146535458f};

// 2^r on [-1/2, 1], 0.015 ulp before rounding. The upper end is for arguments above 127.5.
constexpr float exp2Degree7[] = {1.0f,           0.693147182f,   0.240226358f,    0.0555040315f,
                                 0.00961949863f, 0.00133263681f, 0.000151026965f, 1.92554635e-05f};

// (e^r - 1 - r)/r² on |r| ≤ ln(2)/2, relative error of e^r - 1 1.3e-8 before rounding.
constexpr float expm1Ratio[] = {0.5f, 0.16666536f, 0.0416666642f, 0.00836708583f, 0.00139177113f};

// q with 2 Φ(-a) = 2^(a q(a)) on [0, 5.4], error of the exponent 3.2e-8 (1 + exponent). Φ is the normal distribution
// function. The last coefficient is negative: beyond 5.4 the exponent goes on falling.
constexpr float normalTail[] = {-1.15110528f,     -0.459209383f,   -0.0524792671f,   0.00700481236f, -4.70004306e-05f,
                                -0.000257830485f, 7.04928825e-05f, -1.00256339e-05f, 7.7987022e-07f, -2.61362523e-08f};
// The bounds where that exponent is -126 and -127, at which the power of two is computed as zero.
constexpr float normalTailEnd126 = 11.2319531f, normalTailEnd127 = 11.2497972f;

// log2(e)·2 √(2/π) and 0.044715 of it: the tanh form of gelu is x/(1 + 2^-(x (c + d x²))). The exponent is -100 and 128
// at the two bounds; there the power is nothing beside 1, and infinite.
constexpr float geluTanhLinear = 2.302208198f, geluTanhCubic = 0.1029432396f;
constexpr float geluTanhEnd = 9.15262756f, geluTanhStart = -10.0609663f;

// (erf x)/x - 1 in x² on [0, 1], relative error 1.2e-9 before rounding.
constexpr float erfRatio[] = {0.128379166f,   -0.376126289f,    0.112835817f,   -0.0268533472f,
                              0.00518716453f, -0.000799784786f, 7.80687697e-05f};

// (log(1 + f) - f)/f² on [-1/3, 1/3], relative error of the logarithm 4.5e-9 before rounding.
constexpr float logRatio[] = {-0.49999997f, 0.333331972f,  -0.249999493f, 0.200114474f, -0.166743934f,
                              0.13989751f,  -0.122730352f, 0.140596107f,  -0.124926418f};

// (sin r - r)/r³ in r² on [0, π/2], relative error of the sine 6.1e-9 before rounding.
constexpr float sinRatio[] = {-0.166666597f, 0.00833306927f, -0.000198097623f, 2.6060909e-06f};

// π as a sum of f32 numbers. The parts are cut off, not rounded: with equal signs -0 stays -0.
constexpr float piHigh = 0x1.921fb4p+1f, piMiddle = 0x1.4442dp-23f, piLow = 0x1.846988p-47f;

// The largest argument of sin and cos for which x - nπ with the three parts above is exact to an ulp of the remainder:
// n must have few enough bits that n·piHigh and x, of the same grid, differ by a number that f32 holds.
constexpr float largestCodyWaite = 1.0e5f;

// log2(e) - log2E, log10(e), and log10(2) as the sum of two f32 numbers.
constexpr float log2ELow = 1.92596303e-08f, log10E = 0.434294482f;
constexpr float log10Of2High = 0.301029996f, log10Of2Low = -1.43209889e-08f;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// sin(remainder)·(-1)^parity, where the parity is the lowest bit of an integer. The sign is set aside because
/// r + r³ P(r²) makes +0 of -0; r (1 + r² P(r²)), which does not, was 2.5 instead of 2.1 ulp off.
Value sinWithParity(MathBuilder &e, Value remainder, Value parity) {
  Value r = e.abs(remainder);
  Value square = e.mul(r, r);
  Value sine = e.fma(e.mul(r, square), e.polynomial(square, sinRatio), r);
  Value sign = arith::AndIOp::create(e.builder, e.location, e.bits(remainder), e.i32(0x80000000));
  sign = arith::XOrIOp::create(e.builder, e.location, sign, e.shiftLeft(parity, 31));
  return e.fromBits(arith::XOrIOp::create(e.builder, e.location, e.bits(sine), sign));
}

Value emitSinOrCos(OpBuilder &builder, Location location, Value x, bool cosine) {
  MathBuilder e(builder, location, x);
  // x = nπ + r gives sin x = (-1)^n sin r, and x = (n - 1/2)π + r gives cos x = (-1)^n sin r.
  Value magic = e.f32(roundingMagic);
  Value inverse = e.f32(0.318309886f);
  Value sum, multiple;
  if (cosine) {
    // n = round(x/π + 1/2): the half cannot be part of the rounding constant, whose unit is 1.
    sum = e.add(e.fma(x, inverse, e.f32(0.5f)), magic);
    multiple = e.sub(e.sub(sum, magic), e.f32(0.5f));
  } else {
    sum = e.fma(x, inverse, magic);
    multiple = e.sub(sum, magic);
  }
  Value remainder = e.fma(multiple, e.f32(-piHigh), x);
  remainder = e.fma(multiple, e.f32(-piMiddle), remainder);
  remainder = e.fma(multiple, e.f32(-piLow), remainder);
  Value parity = e.bits(sum);

  Value huge = e.compare(arith::CmpFPredicate::OGT, e.abs(x), e.f32(largestCodyWaite));
  Value anyHuge = huge;
  if (e.vector) {
    if (e.vector.getRank() != 1)
      anyHuge = vector::ShapeCastOp::create(builder, location,
                                            VectorType::get({e.vector.getNumElements()}, builder.getI1Type()), anyHuge);
    anyHuge = vector::ReductionOp::create(builder, location, vector::CombiningKind::OR, anyHuge);
  }
  auto branch = scf::IfOp::create(builder, location, TypeRange{remainder.getType(), parity.getType()}, anyHuge,
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value turns = e.halfTurns(x);
    if (cosine)
      turns = e.add(turns, e.f64(0.5));
    Value wideMagic = e.f64(roundingMagicF64);
    Value wideSum = e.add(turns, wideMagic);
    Value fraction = e.sub(turns, e.sub(wideSum, wideMagic));
    Value angle =
        arith::TruncFOp::create(builder, location, remainder.getType(), e.mul(fraction, e.f64(3.14159265358979323846)));
    Value wideBits = arith::BitcastOp::create(builder, location, e.shaped(builder.getI64Type()), wideSum);
    Value hugeParity = arith::TruncIOp::create(builder, location, parity.getType(), wideBits);
    scf::YieldOp::create(builder, location,
                         ValueRange{e.select(huge, angle, remainder), e.select(huge, hugeParity, parity)});
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, location, ValueRange{remainder, parity});
  }
  return sinWithParity(e, branch.getResult(0), branch.getResult(1));
}

} // namespace

Value emitExp(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  // 2^128 is not an f32 number: n stops at 127, the remainder goes up to ln 2 for finite results, and beyond those the
  // polynomial, all of whose coefficients are positive, grows past 2.
  auto [power, fraction] = e.exp(e.atLeast(e.f32(-88.0f), x), 1.0f, exp7, 127);
  return e.mul(fraction, power);
}

Value emitExpNonPositive(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  auto [power, fraction] = e.exp(e.atLeast(e.f32(-88.0f), x), 1.0f, exp5);
  return e.mul(fraction, power);
}

Value emitExp2(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  Value argument = e.atLeast(e.f32(-127.0f), x);
  auto [n, power] = e.splitPowerOfTwo(argument, e.f32(1.0f), 127);
  return e.mul(e.polynomial(e.sub(argument, n), exp2Degree7), power);
}

Value emitExpm1(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  // 2^n (e^r - 1) + (2^n - 1), halved until the end: 2^128 is not an f32 number. Below -18 the result is -1.
  Value argument = e.atLeast(e.f32(-18.0f), x);
  auto [n, half] = e.splitPowerOfTwo(argument, e.f32(log2E), 128, -1);
  Value remainder = e.fma(n, e.f32(-ln2High), argument);
  remainder = e.fma(n, e.f32(-ln2Low), remainder);
  Value small = e.fma(e.mul(remainder, remainder), e.polynomial(remainder, expm1Ratio), remainder);
  Value result = e.mul(e.fma(half, small, e.sub(half, e.f32(0.5f))), e.f32(2.0f));
  return e.select(e.compare(arith::CmpFPredicate::OEQ, x, e.f32(0.0f)), x, result); // -0 stays -0
}

Value emitErf(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  // |x| > 1: 1 - erfc(|x|) = 1 - 2Φ(-√2 |x|); below, where that cancels, a polynomial of its own.
  Value magnitude = e.abs(x);
  Value argument = e.atMost(e.f32(normalTailEnd127), e.mul(magnitude, e.f32(1.41421356f)));
  auto [power, fraction] = e.exp2OfProduct(argument, e.polynomial(argument, normalTail), 0, exp2Degree5);
  Value large = e.withSign(e.fma(e.neg(power), fraction, e.f32(1.0f)), x);
  Value small = e.fma(x, e.polynomial(e.mul(x, x), erfRatio), x);
  return e.select(e.compare(arith::CmpFPredicate::OLT, magnitude, e.f32(1.0f)), small, large);
}

Value emitTanh(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  // With m = e^(2|x|) - 1: tanh |x| = m/(m + 2). m = 2^n (e^r - 1) + (2^n - 1) does not cancel for n = 0. From 9.02
  // on the result is 1; n stays below 27, for which one part of ln 2 is enough.
  Value twice = e.mul(e.atMost(e.f32(9.02f), e.abs(x)), e.f32(2.0f));
  auto [n, power] = e.splitPowerOfTwo(twice, e.f32(log2E));
  Value remainder = e.fma(n, e.f32(-ln2High), twice);
  Value small = e.fma(e.mul(remainder, remainder), e.polynomial(remainder, expm1Ratio), remainder);
  Value m = e.fma(power, small, e.sub(power, e.f32(1.0f)));
  return e.withSign(e.div(m, e.add(m, e.f32(2.0f))), x);
}

Value emitSigmoid(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  Value clamped = e.atMost(e.f32(88.0f), e.atLeast(e.f32(-89.0f), x)); // e^89 is inf here, its reciprocal 0
  auto [power, fraction] = e.exp(clamped, -1.0f, exp6);
  Value one = e.f32(1.0f);
  return e.div(one, e.fma(fraction, power, one));
}

Value emitSilu(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  // The numerator keeps the lower clamp: -89/inf is the limit at -inf, where x itself would give NaN.
  Value numerator = e.atLeast(e.f32(-89.0f), x);
  auto [power, fraction] = e.exp(e.atMost(e.f32(88.0f), numerator), -1.0f, exp6);
  return e.div(numerator, e.fma(fraction, power, e.f32(1.0f)));
}

Value emitGelu(OpBuilder &builder, Location location, Value x, nn::GeluForm form) {
  MathBuilder e(builder, location, x);
  if (form == nn::GeluForm::Tanh) {
    // (1 + tanh u)/2 = 1/(1 + e^(-2u)).
    Value numerator = e.atLeast(e.f32(geluTanhStart), x);
    Value a = e.atMost(e.f32(geluTanhEnd), numerator);
    Value slope = e.fma(e.mul(a, a), e.f32(-geluTanhCubic), e.f32(-geluTanhLinear));
    auto [power, fraction] = e.exp2OfProduct(a, slope, 0, exp2Degree6);
    return e.div(numerator, e.fma(fraction, power, e.f32(1.0f)));
  }
  // x Φ(x) = max(x, 0) - |x| Φ(-|x|): one form for both signs, no cancellation, no division. Φ(-a) as a power of two
  // whose exponent is a polynomial needs no rounded square, unlike e^(-a²/2) times a polynomial.
  Value a = e.atMost(e.f32(normalTailEnd126), e.abs(x));
  auto [power, fraction] = e.exp2OfProduct(a, e.polynomial(a, normalTail), -1, exp2Degree5);
  return e.fma(e.neg(e.mul(a, power)), fraction, e.atLeast(e.f32(0.0f), x));
}

/// log x = n ln 2 + log(1 + f) for positive finite x.
struct LogParts {
  Value n;
  Value small; ///< log(1 + f)
};

static LogParts splitLog(MathBuilder &e, Value x) {
  // x = 2^n (1 + f), 1 + f in [2/3, 4/3); subnormals are scaled by 2^23 first.
  Value subnormal = e.compare(arith::CmpFPredicate::OLT, x, e.f32(0x1p-126f));
  Value scaled = e.select(subnormal, e.mul(x, e.f32(0x1p23f)), x);
  Value base = e.select(subnormal, e.f32(-23.0f), e.f32(0.0f));
  Value bits = e.bits(scaled);
  Value offset = arith::SubIOp::create(e.builder, e.location, bits, e.i32(0x3f2aaaab));
  Value exponent = arith::ShRSIOp::create(e.builder, e.location, offset, e.i32(23));
  Value fraction =
      e.sub(e.fromBits(arith::SubIOp::create(e.builder, e.location, bits, e.shiftLeft(exponent, 23))), e.f32(1.0f));
  Value n = e.add(arith::SIToFPOp::create(e.builder, e.location, x.getType(), exponent), base);
  return {n, e.fma(e.mul(fraction, fraction), e.polynomial(fraction, logRatio), fraction)};
}

/// Returns a logarithm of any x; `finite` is the one of positive finite x.
static Value logOfAny(MathBuilder &e, Value x, Value finite) {
  // NaN and inf pass by x + x; zero and negative numbers, for which the bits above mean nothing, come last.
  Value positive = e.select(e.compare(arith::CmpFPredicate::OLT, x, e.f32(infinity)), finite, e.add(x, x));
  Value zeroOrLess = e.select(e.compare(arith::CmpFPredicate::OEQ, x, e.f32(0.0f)), e.f32(-infinity),
                              e.f32(std::numeric_limits<float>::quiet_NaN()));
  return e.select(e.compare(arith::CmpFPredicate::UGT, x, e.f32(0.0f)), positive, zeroOrLess);
}

Value emitLog(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  auto [n, small] = splitLog(e, x);
  return logOfAny(e, x, e.fma(n, e.f32(ln2High), small));
}

Value emitLog2(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  auto [n, small] = splitLog(e, x);
  return logOfAny(e, x, e.fma(small, e.f32(log2E), e.fma(small, e.f32(log2ELow), n)));
}

Value emitLog10(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  auto [n, small] = splitLog(e, x);
  Value low = e.fma(n, e.f32(log10Of2Low), e.mul(small, e.f32(log10E)));
  return logOfAny(e, x, e.fma(n, e.f32(log10Of2High), low));
}

Value emitLog1p(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  // log(1 + x) of the rounded sum, and what the rounding has taken, to the first order.
  Value one = e.f32(1.0f);
  Value sum = e.add(x, one);
  Value lost = e.div(e.sub(x, e.sub(sum, one)), sum);
  Value isSmall = e.compare(arith::CmpFPredicate::OLT, e.abs(lost), one); // no NaN of 0/0 at -1, or of inf - inf
  Value result = e.add(emitLog(builder, location, sum), e.select(isSmall, lost, e.f32(0.0f)));
  return e.select(e.compare(arith::CmpFPredicate::OEQ, x, e.f32(0.0f)), x, result);
}

Value emitSin(OpBuilder &builder, Location location, Value x) { return emitSinOrCos(builder, location, x, false); }

Value emitCos(OpBuilder &builder, Location location, Value x) { return emitSinOrCos(builder, location, x, true); }

Value emitRsqrt(OpBuilder &builder, Location location, Value x) {
  MathBuilder e(builder, location, x);
  return e.div(e.f32(1.0f), math::SqrtOp::create(builder, location, x));
}

} // namespace intarsia::kernel
