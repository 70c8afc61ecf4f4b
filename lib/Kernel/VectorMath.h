//===- VectorMath.h - Elementary functions as vector arithmetic ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every function takes and returns f32 or vector<N x f32>, any N, and is straight-line arith / math / vector code that
// becomes instructions on x86-64 with FMA (x86-64-v3 and later) and on AArch64: no call into a math library. sin and
// cos contain one scf.if, for arguments above 1e5 in any lane, hence must be emitted before scf is lowered. NaN gives
// NaN, -0 and +0 are told apart where the function does. The result does not depend on N.
//
// Largest error over all 2^32 arguments, measured by test/unit/Target/CPU/VectorMathTest.cpp against f64: in units of
// the last place of the exact result where that is at least as large as the third column says, and absolute below. The
// number of instructions is for a vector that fits one register of x86-64-v4, without loading constants.
//
//   function     ulp    from |result|   error below   error of results up to 1   instructions
//   exp          0.99   1.2e-38         8.4e-39       4.9e-8                     15
//   exp, x ≤ 0   1.93   1.2e-38         8.4e-39       1.1e-7                     12
//   erf          1.35   0                             8.0e-8                     32
//   tanh         2.52   0                             9.0e-8                     17 + division
//   sigmoid      2.49   1.2e-38         4.2e-39       9.0e-8                     14 + division
//   silu         2.46   5e-37           3.7e-37       9.0e-8                     14 + division
//   gelu, erf    31.2   1e-6            1.8e-12       6.7e-8                     23
//   gelu, tanh   20.3   1e-6            1.3e-12       1.0e-7                     15 + division
//   log          0.93   0                             5.5e-8                     27
//   sin          2.12   0                             1.3e-7                     18, above 1e5 80
//   cos          3.09   0                             1.3e-7                     20, above 1e5 80
//   rsqrt        1.50   0                             8.9e-8                     square root + division
//
// Results below 2^-126 of these are off by at most 2^-149, except exp2, whose error there is that of exp. The functions
// with a star are computed in f64.
//
//   function     ulp    error of results up to 1       function     ulp    error of results up to 1
//   exp2         0.87   5.1e-8                         asin         1.89   1.2e-7
//   expm1        1.50   5.9e-8                         acos         1.27   6.6e-8
//   log2         1.80   6.6e-8                         atan         1.39   8.3e-8
//   log10        2.57   5.2e-8                         atan2        1.53   8.0e-8
//   log1p        1.67   7.0e-8                         sinh, cosh   2.97   9.7e-8
//   pow *        0.51   3.0e-8                         asinh        2.00   9.9e-8
//   cbrt *       0.51   3.0e-8                         acosh        2.89   1.1e-7
//   tan *        1.68   3.0e-8                         atanh        2.37   9.1e-8
//   erfc *       0.51   3.1e-8
//
// The ulp of gelu are those of its negative tail near -5, where results are a few 1e-6: the exponent of the power of
// two that gives the tail is itself a rounded number. No result of gelu up to 1 is more than 1.0e-7 off.
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_VECTORMATH_H
#define INTARSIA_LIB_KERNEL_VECTORMATH_H

#include "dialects/Nn/Nn.h"
#include "mlir/IR/Builders.h"

namespace intarsia::kernel {

/// e^x. inf above 88.7228; results below 2^-126 are subnormal or zero, zero below -87.69.
mlir::Value emitExp(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// e^x for x ≤ 0 or -inf, as softmax needs it; meaningless above 88. Exactly 1 at 0 and exactly 0 below -87.69;
/// between there and -87.34 subnormal.
mlir::Value emitExpNonPositive(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// The error function.
mlir::Value emitErf(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// The hyperbolic tangent.
mlir::Value emitTanh(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// 1 / (1 + e^-x). Zero below -88.38, where the function is subnormal.
mlir::Value emitSigmoid(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// x / (1 + e^-x). -0 below -88.38 (the function: above -3.8e-37), also for -inf, its limit.
mlir::Value emitSilu(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// x/2 (1 + erf(x/√2)) or x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))). The sum in the formula, which cancels in the
/// negative tail, is not computed. ±0 at -inf.
mlir::Value emitGelu(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x, nn::GeluForm form);

/// The natural logarithm, subnormals included. -inf at ±0, NaN below.
mlir::Value emitLog(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// Sine and cosine of radians, for every finite f32. NaN at ±inf.
mlir::Value emitSin(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitCos(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// 2^x, e^x - 1 and the logarithms, as exp and log: results below 2^-126 are subnormal or zero.
mlir::Value emitExp2(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitExpm1(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitLog2(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitLog10(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
/// log(1 + x). -inf at -1, NaN below.
mlir::Value emitLog1p(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// 1 / √x by a square root and a division, both exactly rounded. ±inf at ±0.
mlir::Value emitRsqrt(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

// The functions below are in AnglesAndPowers.cpp. pow, cbrt, tan and erfc are computed in f64.

/// x^y as C and NumPy have it: 1 for y = 0 and for x = 1 whatever the other is, NaN for negative finite x and y that
/// is no integer.
mlir::Value emitPow(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x, mlir::Value y);
/// x^n of integers of any width.
mlir::Value emitIntegerPower(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x, mlir::Value n);
/// The real third root.
mlir::Value emitCbrt(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
/// The tangent of radians, for every finite f32. NaN at ±inf.
mlir::Value emitTan(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
/// Angles in radians. asin and acos are NaN beyond ±1.
mlir::Value emitAtan(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitAsin(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitAcos(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
/// The angle of the point (x, y), as C and NumPy have it for zeros of both signs and for infinities.
mlir::Value emitAtan2(mlir::OpBuilder &builder, mlir::Location location, mlir::Value y, mlir::Value x);
/// 1 - erf x, without its cancellation.
mlir::Value emitErfc(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitSinh(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitCosh(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitAsinh(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
/// NaN below 1.
mlir::Value emitAcosh(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
/// ±inf at ±1, NaN beyond.
mlir::Value emitAtanh(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

} // namespace intarsia::kernel

#endif
