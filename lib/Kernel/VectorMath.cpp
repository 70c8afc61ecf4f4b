//===- VectorMath.cpp - Elementary functions as vector arithmetic ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Coefficients are from math/minimax.py, which prints the errors quoted here.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include <limits>
#include <optional>

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

constexpr float log2E = 1.44269504f;
// ln 2 and π as sums of f32 numbers (Cody and Waite, Software Manual for the Elementary Functions, 1980). With fused
// multiply-adds the parts need no trailing zeros. Those of π are cut off, not rounded: with equal signs -0 stays -0.
constexpr float ln2High = 0.693147182f, ln2Low = -1.90465421e-09f;
constexpr float piHigh = 0x1.921fb4p+1f, piMiddle = 0x1.4442dp-23f, piLow = 0x1.846988p-47f;

// 1.5·2^23: adding it rounds a number below 2^22 to an integer and leaves that integer in the low bits of the sum.
constexpr float roundingMagic = 12582912.0f;
constexpr double roundingMagicF64 = 6755399441055744.0; // 1.5·2^52, the same for f64

// The largest argument of sin and cos for which x - nπ with the three parts above is exact to an ulp of the remainder:
// n must have few enough bits that n·piHigh and x, of the same grid, differ by a number that f32 holds.
constexpr float largestCodyWaite = 1.0e5f;

// 1/π cut into seven pieces of 28 bits: the product of a piece and an f32 number is exact in f64. Together 196 bits:
// 128 for the largest exponent, and 68 behind the point, for f32 arguments come as close as 2^-30 to a multiple of π/2.
constexpr int inversePiPieces = 7;
constexpr double inversePi[inversePiPieces] = {0xA2F9836p-29,  0xE4E4415p-57,  0x29FC275p-85, 0x7D1F534p-113,
                                               0xDDC0DB6p-141, 0x295993Cp-169, 0x439041Fp-197};

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Builds arithmetic on f32 or vectors of it; integers and f64 take the shape of the argument. It has as many methods
/// as the polynomials have kinds of ops: each is one op.
class Emitter {
public:
  Emitter(OpBuilder &builder, Location location, Value like)
      : builder(builder), location(location), vector(dyn_cast<VectorType>(like.getType())) {
    assert(getElementTypeOrSelf(like.getType()).isF32() && "vector math is f32");
  }

  Type shaped(Type element) { return vector ? Type(VectorType(vector).clone(element)) : element; }
  Value splat(TypedAttr scalar) {
    TypedAttr value = scalar;
    if (vector)
      value = DenseElementsAttr::get(cast<ShapedType>(shaped(scalar.getType())), Attribute(scalar));
    return arith::ConstantOp::create(builder, location, value);
  }
  Value f32(float value) { return splat(builder.getF32FloatAttr(value)); }
  Value f64(double value) { return splat(builder.getF64FloatAttr(value)); }
  Value i32(uint32_t value) { return splat(builder.getI32IntegerAttr(static_cast<int32_t>(value))); }

  Value add(Value a, Value b) { return arith::AddFOp::create(builder, location, a, b); }
  Value sub(Value a, Value b) { return arith::SubFOp::create(builder, location, a, b); }
  Value mul(Value a, Value b) { return arith::MulFOp::create(builder, location, a, b); }
  Value div(Value a, Value b) { return arith::DivFOp::create(builder, location, a, b); }
  Value neg(Value a) { return arith::NegFOp::create(builder, location, a); }
  Value abs(Value a) { return math::AbsFOp::create(builder, location, a); }
  Value fma(Value a, Value b, Value c) { return math::FmaOp::create(builder, location, a, b, c); }
  /// An f64 rounded to an integer, ties to even, by additions: not every variant has an instruction for it. 2^52 with
  /// the sign of a has a unit of 1; numbers of that magnitude are integers.
  Value roundEvenF64(Value a) {
    Value magic = f64(0x1p52);
    Value isSmall = compare(arith::CmpFPredicate::OLT, abs(a), magic);
    Value signedMagic = withSign(magic, a);
    return select(isSmall, sub(add(a, signedMagic), signedMagic), a);
  }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return arith::CmpFOp::create(builder, location, predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, location, condition, a, b);
  }
  /// The larger (smaller) of a constant and x, x where that is NaN. This form of comparison and selection is exactly
  /// what maxps and minps compute; arith.maximumf and arith.maxnumf take three or more instructions on x86.
  Value atLeast(Value bound, Value x) { return select(compare(arith::CmpFPredicate::OGT, bound, x), bound, x); }
  Value atMost(Value bound, Value x) { return select(compare(arith::CmpFPredicate::OLT, bound, x), bound, x); }

  Value bits(Value a) { return arith::BitcastOp::create(builder, location, shaped(builder.getI32Type()), a); }
  Value fromBits(Value a) { return arith::BitcastOp::create(builder, location, shaped(builder.getF32Type()), a); }
  Value shiftLeft(Value a, uint32_t by) { return arith::ShLIOp::create(builder, location, a, i32(by)); }

  /// Horner's scheme, one fused multiply-add a degree.
  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value y = f32(coefficients.back());
    for (float c : llvm::reverse(coefficients.drop_back()))
      y = fma(y, x, f32(c));
    return y;
  }

  /// a with the sign of b, where a has no sign bit set.
  Value withSign(Value a, Value b) { return math::CopySignOp::create(builder, location, a, b); }

  struct PowerOfTwo {
    Value n;
    Value power;
  };
  /// n = round(x·factor), at most `largest`, and 2^n, from the sum with roundingMagic. n = -127 gives 0, 128 inf.
  PowerOfTwo splitPowerOfTwo(Value x, Value factor, std::optional<int> largest = std::nullopt) {
    Value magic = f32(roundingMagic + 127.0f);
    Value sum = fma(x, factor, magic);
    if (largest)
      sum = atMost(f32(roundingMagic + 127.0f + static_cast<float>(*largest)), sum);
    return {sub(sum, magic), fromBits(shiftLeft(bits(sum), 23))};
  }

  struct Product {
    Value power;
    Value fraction;
  };

  /// e^(sign·x) as two factors, for sign·x in [-88, 89]; the first is inf for n = 128, that is above 88.376.
  Product exp(Value x, float sign, ArrayRef<float> coefficients, std::optional<int> largest = std::nullopt) {
    auto [n, power] = splitPowerOfTwo(x, f32(sign * log2E), largest);
    Value remainder = fma(n, f32(-sign * ln2High), x);
    remainder = fma(n, f32(-sign * ln2Low), remainder);
    SmallVector<float> signedCoefficients(coefficients);
    if (sign < 0) // the remainder is that of x, not of -x
      for (size_t i = 1; i < signedCoefficients.size(); i += 2)
        signedCoefficients[i] = -signedCoefficients[i];
    return {power, polynomial(remainder, signedCoefficients)};
  }

  /// 2^(a·slope + exponent) as two factors, |a·slope + exponent| ≤ 128. The product is used unrounded twice, so that
  /// large exponents cost no accuracy.
  Product exp2OfProduct(Value a, Value slope, int exponent, ArrayRef<float> coefficients) {
    Value magic = f32(roundingMagic + static_cast<float>(127 + exponent));
    Value sum = fma(slope, a, magic);
    Value power = fromBits(shiftLeft(bits(sum), 23));
    return {power, polynomial(fma(slope, a, sub(magic, sum)), coefficients)};
  }

  /// sin(remainder)·(-1)^parity, where the parity is the lowest bit of an integer. The sign is set aside because
  /// r + r³ P(r²) makes +0 of -0; r (1 + r² P(r²)), which does not, was 2.5 instead of 2.1 ulp off.
  Value sinWithParity(Value remainder, Value parity) {
    Value r = abs(remainder);
    Value square = mul(r, r);
    Value sine = fma(mul(r, square), polynomial(square, sinRatio), r);
    Value sign = arith::AndIOp::create(builder, location, bits(remainder), i32(0x80000000));
    sign = arith::XOrIOp::create(builder, location, sign, shiftLeft(parity, 31));
    return fromBits(arith::XOrIOp::create(builder, location, bits(sine), sign));
  }

  OpBuilder &builder;
  Location location;
  VectorType vector;
};

/// x/π reduced to [-1, 1] modulo 2, in f64, for any finite x.
Value reduceHuge(Emitter &e, Value x) {
  Value wide = arith::ExtFOp::create(e.builder, e.location, e.shaped(e.builder.getF64Type()), x);
  Value sum;
  for (double piece : inversePi) {
    // Exact: a product has 52 bits, and as long as it is above 1 the sum so far is a multiple of its lowest one.
    sum = sum ? e.fma(wide, e.f64(piece), sum) : e.mul(wide, e.f64(piece));
    sum = e.fma(e.roundEvenF64(e.mul(sum, e.f64(0.5))), e.f64(-2.0), sum);
  }
  return sum;
}

Value emitSinOrCos(OpBuilder &builder, Location location, Value x, bool cosine) {
  Emitter e(builder, location, x);
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
    Value turns = reduceHuge(e, x);
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
  return e.sinWithParity(branch.getResult(0), branch.getResult(1));
}

} // namespace

Value emitExp(OpBuilder &builder, Location location, Value x) {
  Emitter e(builder, location, x);
  // 2^128 is not an f32 number: n stops at 127, the remainder goes up to ln 2 for finite results, and beyond those the
  // polynomial, all of whose coefficients are positive, grows past 2.
  auto [power, fraction] = e.exp(e.atLeast(e.f32(-88.0f), x), 1.0f, exp7, 127);
  return e.mul(fraction, power);
}

Value emitExpNonPositive(OpBuilder &builder, Location location, Value x) {
  Emitter e(builder, location, x);
  auto [power, fraction] = e.exp(e.atLeast(e.f32(-88.0f), x), 1.0f, exp5);
  return e.mul(fraction, power);
}

Value emitErf(OpBuilder &builder, Location location, Value x) {
  Emitter e(builder, location, x);
  // |x| > 1: 1 - erfc(|x|) = 1 - 2Φ(-√2 |x|); below, where that cancels, a polynomial of its own.
  Value magnitude = e.abs(x);
  Value argument = e.atMost(e.f32(normalTailEnd127), e.mul(magnitude, e.f32(1.41421356f)));
  auto [power, fraction] = e.exp2OfProduct(argument, e.polynomial(argument, normalTail), 0, exp2Degree5);
  Value large = e.withSign(e.fma(e.neg(power), fraction, e.f32(1.0f)), x);
  Value small = e.fma(x, e.polynomial(e.mul(x, x), erfRatio), x);
  return e.select(e.compare(arith::CmpFPredicate::OLT, magnitude, e.f32(1.0f)), small, large);
}

Value emitTanh(OpBuilder &builder, Location location, Value x) {
  Emitter e(builder, location, x);
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
  Emitter e(builder, location, x);
  Value clamped = e.atMost(e.f32(88.0f), e.atLeast(e.f32(-89.0f), x)); // e^89 is inf here, its reciprocal 0
  auto [power, fraction] = e.exp(clamped, -1.0f, exp6);
  Value one = e.f32(1.0f);
  return e.div(one, e.fma(fraction, power, one));
}

Value emitSilu(OpBuilder &builder, Location location, Value x) {
  Emitter e(builder, location, x);
  // The numerator keeps the lower clamp: -89/inf is the limit at -inf, where x itself would give NaN.
  Value numerator = e.atLeast(e.f32(-89.0f), x);
  auto [power, fraction] = e.exp(e.atMost(e.f32(88.0f), numerator), -1.0f, exp6);
  return e.div(numerator, e.fma(fraction, power, e.f32(1.0f)));
}

Value emitGelu(OpBuilder &builder, Location location, Value x, nn::GeluForm form) {
  Emitter e(builder, location, x);
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

Value emitLog(OpBuilder &builder, Location location, Value x) {
  Emitter e(builder, location, x);
  // x = 2^n (1 + f), 1 + f in [2/3, 4/3); subnormals are scaled by 2^23 first.
  Value subnormal = e.compare(arith::CmpFPredicate::OLT, x, e.f32(0x1p-126f));
  Value scaled = e.select(subnormal, e.mul(x, e.f32(0x1p23f)), x);
  Value base = e.select(subnormal, e.f32(-23.0f), e.f32(0.0f));
  Value bits = e.bits(scaled);
  Value offset = arith::SubIOp::create(builder, location, bits, e.i32(0x3f2aaaab));
  Value exponent = arith::ShRSIOp::create(builder, location, offset, e.i32(23));
  Value fraction =
      e.sub(e.fromBits(arith::SubIOp::create(builder, location, bits, e.shiftLeft(exponent, 23))), e.f32(1.0f));
  Value n = e.add(arith::SIToFPOp::create(builder, location, x.getType(), exponent), base);
  Value small = e.fma(e.mul(fraction, fraction), e.polynomial(fraction, logRatio), fraction);
  Value finite = e.fma(n, e.f32(ln2High), small);
  // NaN and inf pass by x + x; zero and negative numbers, for which the bits above mean nothing, come last.
  Value positive = e.select(e.compare(arith::CmpFPredicate::OLT, x, e.f32(infinity)), finite, e.add(x, x));
  Value zeroOrLess = e.select(e.compare(arith::CmpFPredicate::OEQ, x, e.f32(0.0f)), e.f32(-infinity),
                              e.f32(std::numeric_limits<float>::quiet_NaN()));
  return e.select(e.compare(arith::CmpFPredicate::UGT, x, e.f32(0.0f)), positive, zeroOrLess);
}

Value emitSin(OpBuilder &builder, Location location, Value x) { return emitSinOrCos(builder, location, x, false); }

Value emitCos(OpBuilder &builder, Location location, Value x) { return emitSinOrCos(builder, location, x, true); }

Value emitRsqrt(OpBuilder &builder, Location location, Value x) {
  Emitter e(builder, location, x);
  return e.div(e.f32(1.0f), math::SqrtOp::create(builder, location, x));
}

} // namespace intarsia::kernel
