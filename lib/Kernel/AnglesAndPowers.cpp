//===- AnglesAndPowers.cpp - Powers, roots, angles, hyperbolic functions, erfc --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Coefficients are from math/minimax.py, which prints the errors quoted here, or those of Taylor series.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/MathBuilder.h"
#include "lib/Kernel/VectorMath.h"

using namespace mlir;

namespace intarsia::kernel {
namespace {

// (atan t - t)/t³ in t² on [0, 1], relative error 2.6e-9 before rounding.
constexpr float atanRatio[] = {-0.333332986f, 0.19998531f,    -0.142640159f, 0.109508604f,   -0.0839920864f,
                               0.0578788817f, -0.0310935397f, 0.0108662816f, -0.00178214442f};

// (asin t - t)/t³ in t² on [0, 1/2], relative error 2.8e-10 before rounding.
constexpr float asinRatio[] = {0.166666597f, 0.0750052258f, 0.0445133485f, 0.0318390541f, 0.0143154357f, 0.0376959331f};

// (atanh s)/s in s² on [0, 1/5]: the first term left out is 4e-13.
constexpr double atanhRatio[] = {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15};
// e^w on |w| ≤ ln(2)/2: the first term left out is 7e-12.
constexpr double exponential[] = {1.0,       1.0,       1.0 / 2,    1.0 / 6,     1.0 / 24,
                                  1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880};
// (sin w)/w and cos w in w² on |w| ≤ π/4: the first terms left out are 7e-12 and 4e-13.
constexpr double sine[] = {1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800};
constexpr double cosine[] = {1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600};

// e^(x²) (erfc x)/t in t = 2/(2 + x) on [0, 11.3], relative error 4.6e-10.
constexpr double erfcRatio[] = {0.2820978384017917,  0.28199445397791334,  0.24828557080110036, 0.1641015018155653,
                                0.14992796010340023, -0.24717718393449045, 0.5555709366479666,  -1.102868227099771,
                                1.156571090985593,   -0.6683933361530132,  0.20709765204964764, -0.027208257139057706};

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
constexpr float pi = 3.14159265f, halfPi = 1.57079637f, halfPiLow = -4.37113883e-08f;
constexpr double piF64 = 3.14159265358979323846, ln2F64 = 0.693147180559945309417;

/// The functions of this file on vectors of one shape.
class Functions : public MathBuilder {
public:
  using MathBuilder::MathBuilder;

  Value isLess(Value a, Value b) { return compare(arith::CmpFPredicate::OLT, a, b); }
  Value isMore(Value a, Value b) { return compare(arith::CmpFPredicate::OGT, a, b); }
  Value isEqual(Value a, Value b) { return compare(arith::CmpFPredicate::OEQ, a, b); }
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, location, a, b); }
  Value either(Value a, Value b) { return arith::OrIOp::create(builder, location, a, b); }
  Value i64(int64_t value) { return splat(builder.getI64IntegerAttr(value)); }
  /// True for negative numbers and -0.
  Value hasSign(Value a) {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, bits(a), i32(0));
  }

  /// log2 of a positive finite f64 that is an f32 number, with a relative error below 1e-11.
  Value log2F64(Value x) {
    Type i64Type = shaped(builder.getI64Type());
    Value whole = arith::BitcastOp::create(builder, location, i64Type, x);
    // x = 2^n m with m in [2/3, 4/3), log m = 2 atanh((m - 1)/(m + 1)).
    Value offset = arith::SubIOp::create(builder, location, whole, i64(0x3fe5555555555555));
    Value n = arith::ShRSIOp::create(builder, location, offset, i64(52));
    Value shifted = arith::ShLIOp::create(builder, location, n, i64(52));
    Value m = arith::BitcastOp::create(builder, location, x.getType(),
                                       arith::SubIOp::create(builder, location, whole, shifted));
    Value s = div(sub(m, f64(1.0)), add(m, f64(1.0)));
    Value log = mul(s, polynomialF64(mul(s, s), atanhRatio));
    // Conversions of i64 are no vector instructions below AVX-512, those of i32 are.
    Value narrow = arith::TruncIOp::create(builder, location, shaped(builder.getI32Type()), n);
    Value exponent = arith::SIToFPOp::create(builder, location, x.getType(), narrow);
    return fma(log, f64(2.0 / ln2F64), exponent);
  }

  /// 2^t for an f64 t that is not NaN.
  Value exp2F64(Value t) {
    // Beyond 200 f32 has 0 and inf.
    t = select(compare(arith::CmpFPredicate::OLT, t, f64(200.0)), t, f64(200.0));
    t = select(compare(arith::CmpFPredicate::OGT, t, f64(-200.0)), t, f64(-200.0));
    Value magic = f64(roundingMagicF64 + 1023.0);
    Value sum = add(t, magic);
    Value fraction = polynomialF64(mul(sub(t, sub(sum, magic)), f64(ln2F64)), exponential);
    Value whole = arith::BitcastOp::create(builder, location, shaped(builder.getI64Type()), sum);
    Value power = arith::BitcastOp::create(builder, location, fraction.getType(),
                                           arith::ShLIOp::create(builder, location, whole, i64(52)));
    return mul(fraction, power);
  }

  /// x^y for an f64 y that is not NaN; isInteger and isOdd describe y.
  Value power(Value x, Value y, Value isInteger, Value isOdd) {
    Value magnitude = abs(x), zero = f32(0.0f), one = f32(1.0f);
    // Logarithms of 0 and inf that give 0 and inf with any y but 0.
    Value log = log2F64(f64Of(magnitude));
    log = select(isEqual(magnitude, zero), f64(-1e60), log);
    log = select(isEqual(magnitude, f32(infinity)), f64(1e60), log);
    // ±inf as a large number, so that it gives 1 with a base of 1.
    Value exponent = select(compare(arith::CmpFPredicate::OLT, y, f64(1e60)), y, f64(1e60));
    exponent = select(compare(arith::CmpFPredicate::OGT, exponent, f64(-1e60)), exponent, f64(-1e60));
    Value result = f32Of(exp2F64(mul(log, exponent)));
    result = select(both(isOdd, hasSign(x)), neg(result), result);
    Value isFinite = isMore(x, f32(-infinity));
    Value isComplex =
        both(both(isLess(x, zero), isFinite), arith::XOrIOp::create(builder, location, isInteger, trueValue()));
    result = select(isComplex, f32(nan), result);
    result = select(compare(arith::CmpFPredicate::UNO, x, x), x, result);
    Value isOne = either(isEqual(x, one), compare(arith::CmpFPredicate::OEQ, y, f64(0.0)));
    return select(isOne, one, result);
  }

  Value trueValue() { return splat(builder.getBoolAttr(true)); }

  /// atan t on [0, 1].
  Value atanOfFraction(Value t) {
    Value square = mul(t, t);
    return fma(mul(t, square), polynomial(square, atanRatio), t);
  }

  /// asin t on [0, 1/2].
  Value asinOfHalf(Value t) {
    Value square = mul(t, t);
    return fma(mul(t, square), polynomial(square, asinRatio), t);
  }

  /// e^|x|/2 where that is large.
  Value halfExponential(Value magnitude) {
    Value root = emitExp(builder, location, mul(magnitude, f32(0.5f)));
    return mul(mul(root, f32(0.5f)), root);
  }
};

} // namespace

Value emitPow(OpBuilder &builder, Location location, Value x, Value y) {
  Functions e(builder, location, x);
  // From 2^24 on all f32 numbers are even integers.
  Value bounded = e.select(e.isLess(e.abs(y), e.f32(0x1p25f)), y, e.f32(0x1p25f));
  Value integer = arith::FPToSIOp::create(builder, location, e.shaped(builder.getI32Type()), bounded);
  Value isInteger = e.isEqual(arith::SIToFPOp::create(builder, location, x.getType(), integer), bounded);
  Value isOdd = e.both(isInteger, arith::TruncIOp::create(builder, location, e.shaped(builder.getI1Type()), integer));
  Value result = e.power(x, e.f64Of(y), isInteger, isOdd);
  // NaN as the exponent: not even 1^NaN is one.
  Value isNaN = e.compare(arith::CmpFPredicate::UNO, y, y);
  return e.select(e.both(isNaN, e.compare(arith::CmpFPredicate::UNE, x, e.f32(1.0f))), y, result);
}

Value emitIntegerPower(OpBuilder &builder, Location location, Value x, Value n) {
  Functions e(builder, location, x);
  Value y = arith::SIToFPOp::create(builder, location, e.shaped(builder.getF64Type()), n);
  Value isOdd = getElementTypeOrSelf(n.getType()).isInteger(1)
                    ? n
                    : arith::TruncIOp::create(builder, location, e.shaped(builder.getI1Type()), n).getResult();
  return e.power(x, y, e.trueValue(), isOdd);
}

Value emitCbrt(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  // A third of the exponent, of a normal number: an error of 5 %.
  Value magnitude = e.abs(x);
  Value subnormal = e.isLess(magnitude, e.f32(0x1p-126f));
  Value scaled = e.select(subnormal, e.mul(magnitude, e.f32(0x1p24f)), magnitude);
  Value third = e.mul(arith::SIToFPOp::create(builder, location, x.getType(), e.bits(scaled)), e.f32(1.0f / 3));
  Value begin = arith::AddIOp::create(builder, location,
                                      arith::FPToSIOp::create(builder, location, e.shaped(builder.getI32Type()), third),
                                      e.i32(0x2a5137a0));
  // Halley's steps, each of which cubes the error.
  Value wide = e.f64Of(scaled), root = e.f64Of(e.fromBits(begin));
  for (int step = 0; step < 2; ++step) {
    Value cube = e.mul(e.mul(root, root), root);
    root = e.mul(root, e.div(e.fma(wide, e.f64(2.0), cube), e.fma(cube, e.f64(2.0), wide)));
  }
  Value result = e.mul(e.f32Of(root), e.select(subnormal, e.f32(0x1p-8f), e.f32(1.0f)));
  Value isPlain = e.both(e.isLess(magnitude, e.f32(infinity)), e.isMore(magnitude, e.f32(0.0f)));
  return e.select(isPlain, e.withSign(result, x), x);
}

Value emitTan(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  // x = n π/2 + w.
  Value turns = e.halfTurns(x);
  Value magic = e.f64(roundingMagicF64);
  Value sum = e.fma(turns, e.f64(2.0), magic);
  Value w = e.mul(e.fma(e.sub(sum, magic), e.f64(-0.5), turns), e.f64(piF64));
  Value square = e.mul(w, w);
  Value sin = e.mul(w, e.polynomialF64(square, sine)), cos = e.polynomialF64(square, cosine);
  Value whole = arith::BitcastOp::create(builder, location, e.shaped(builder.getI64Type()), sum);
  Value isOdd = arith::TruncIOp::create(builder, location, e.shaped(builder.getI1Type()), whole);
  Value result = e.f32Of(e.div(e.select(isOdd, e.neg(cos), sin), e.select(isOdd, sin, cos)));
  return e.select(e.isEqual(x, e.f32(0.0f)), x, result);
}

Value emitAtan(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  Value magnitude = e.abs(x), one = e.f32(1.0f);
  Value isLarge = e.isMore(magnitude, one);
  Value angle = e.atanOfFraction(e.select(isLarge, e.div(one, magnitude), magnitude));
  Value complement = e.add(e.sub(e.f32(halfPi), angle), e.f32(halfPiLow));
  return e.withSign(e.select(isLarge, complement, angle), x);
}

Value emitAtan2(OpBuilder &builder, Location location, Value y, Value x) {
  Functions e(builder, location, x);
  Value rise = e.abs(y), run = e.abs(x), zero = e.f32(0.0f);
  Value isSteep = e.isMore(rise, run);
  Value smaller = e.select(isSteep, run, rise), larger = e.select(isSteep, rise, run);
  // 0/0 is no angle, inf/inf one half of a right angle.
  Value isZero = e.isEqual(larger, zero);
  Value ratio = e.div(smaller, e.select(isZero, e.f32(1.0f), larger));
  ratio = e.select(e.isEqual(smaller, e.f32(infinity)), e.f32(1.0f), ratio);
  Value angle = e.atanOfFraction(ratio);
  angle = e.select(isSteep, e.add(e.sub(e.f32(halfPi), angle), e.f32(halfPiLow)), angle);
  angle = e.select(e.hasSign(x), e.add(e.sub(e.f32(pi), angle), e.f32(2 * halfPiLow)), angle);
  Value isNaN = e.compare(arith::CmpFPredicate::UNO, x, y);
  return e.select(isNaN, e.f32(nan), e.withSign(angle, y));
}

Value emitAsin(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  // Above 1/2: asin t = π/2 - 2 asin √((1 - t)/2).
  Value magnitude = e.abs(x);
  Value isLarge = e.isMore(magnitude, e.f32(0.5f));
  Value root = math::SqrtOp::create(builder, location, e.fma(magnitude, e.f32(-0.5f), e.f32(0.5f)));
  Value angle = e.asinOfHalf(e.select(isLarge, root, magnitude));
  Value complement = e.add(e.fma(angle, e.f32(-2.0f), e.f32(halfPi)), e.f32(halfPiLow));
  return e.withSign(e.select(isLarge, complement, angle), x);
}

Value emitAcos(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  Value magnitude = e.abs(x);
  Value isLarge = e.isMore(magnitude, e.f32(0.5f)), isNegative = e.isLess(x, e.f32(0.0f));
  Value root = math::SqrtOp::create(builder, location, e.fma(magnitude, e.f32(-0.5f), e.f32(0.5f)));
  Value angle = e.asinOfHalf(e.select(isLarge, root, magnitude));
  Value twice = e.mul(angle, e.f32(2.0f));
  Value large = e.select(isNegative, e.add(e.sub(e.f32(pi), twice), e.f32(2 * halfPiLow)), twice);
  Value small = e.add(e.sub(e.f32(halfPi), e.select(isNegative, e.neg(angle), angle)), e.f32(halfPiLow));
  return e.select(isLarge, large, small);
}

Value emitErfc(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  // From 11 on f32 has 0.
  Value magnitude = e.f64Of(e.select(e.isLess(e.abs(x), e.f32(11.0f)), e.abs(x), e.f32(11.0f)));
  Value t = e.div(e.f64(2.0), e.add(magnitude, e.f64(2.0)));
  Value power = e.exp2F64(e.mul(e.mul(magnitude, magnitude), e.f64(-1.0 / ln2F64)));
  Value tail = e.mul(e.mul(power, t), e.polynomialF64(t, erfcRatio));
  Value isNegative = e.isLess(x, e.f32(0.0f));
  Value result = e.f32Of(e.select(isNegative, e.sub(e.f64(2.0), tail), tail));
  return e.select(e.compare(arith::CmpFPredicate::UNO, x, x), x, result);
}

Value emitSinh(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  // With m = e^|x| - 1: sinh |x| = (m + m/(m + 1))/2.
  Value magnitude = e.abs(x);
  Value m = emitExpm1(builder, location, magnitude);
  Value small = e.mul(e.add(m, e.div(m, e.add(m, e.f32(1.0f)))), e.f32(0.5f));
  Value result = e.select(e.isMore(magnitude, e.f32(20.0f)), e.halfExponential(magnitude), small);
  return e.withSign(result, x);
}

Value emitCosh(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  // With m = e^|x| - 1: cosh x = 1 + m²/(2 (m + 1)).
  Value magnitude = e.abs(x);
  Value m = emitExpm1(builder, location, magnitude);
  Value half = e.mul(m, e.f32(0.5f));
  Value small = e.fma(half, e.div(m, e.add(m, e.f32(1.0f))), e.f32(1.0f));
  return e.select(e.isMore(magnitude, e.f32(20.0f)), e.halfExponential(magnitude), small);
}

Value emitAsinh(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  // log(t + √(t² + 1)) as log1p of what exceeds 1; from 4096 on that is log(2t).
  Value t = e.abs(x), one = e.f32(1.0f), square = e.mul(t, t);
  Value root = math::SqrtOp::create(builder, location, e.add(square, one));
  Value small = emitLog1p(builder, location, e.add(t, e.div(square, e.add(root, one))));
  Value large = e.add(emitLog(builder, location, t), e.f32(ln2High));
  return e.withSign(e.select(e.isMore(t, e.f32(4096.0f)), large, small), x);
}

Value emitAcosh(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  Value t = e.sub(x, e.f32(1.0f));
  Value root = math::SqrtOp::create(builder, location, e.mul(t, e.add(t, e.f32(2.0f))));
  Value small = emitLog1p(builder, location, e.add(t, root));
  Value large = e.add(emitLog(builder, location, x), e.f32(ln2High));
  Value result = e.select(e.isMore(x, e.f32(4096.0f)), large, small);
  return e.select(e.isLess(x, e.f32(1.0f)), e.f32(nan), result);
}

Value emitAtanh(OpBuilder &builder, Location location, Value x) {
  Functions e(builder, location, x);
  Value t = e.abs(x);
  Value ratio = e.div(e.mul(t, e.f32(2.0f)), e.sub(e.f32(1.0f), t));
  Value result = e.mul(emitLog1p(builder, location, ratio), e.f32(0.5f));
  return e.withSign(result, x);
}

} // namespace intarsia::kernel
