//===- VectorMath.h - Elementary functions as vector arithmetic ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every function takes and returns f32 or vector<N x f32>, any N, and is straight-line arith / math / vector code that
// becomes instructions on x86-64 with FMA (x86-64-v3 and later) and on AArch64: no call into a math library. sin and
// cos contain one scf.if, for arguments above 1e5 in any lane, hence must be emitted before scf is lowered. NaN gives
// NaN, -0 and +0 are told apart where the function does.
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_VECTORMATH_H
#define INTARSIA_LIB_TARGET_CPU_VECTORMATH_H

#include "dialects/Nn/Nn.h"
#include "mlir/IR/Builders.h"

namespace intarsia::cpu {

/// e^x. inf above 88.7228; results below 2^-126 are subnormal or zero, zero below -87.69.
mlir::Value emitExp(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// e^x for x ≤ 0 or -inf, as softmax needs it; meaningless above 88. Exactly 1 at 0 and exactly 0 below -87.69; between
/// there and -87.34 subnormal.
mlir::Value emitExpNonPositive(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// The error function.
mlir::Value emitErf(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// The hyperbolic tangent.
mlir::Value emitTanh(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// 1 / (1 + e^-x). Zero below -88.38, where the function is subnormal.
mlir::Value emitSigmoid(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// x / (1 + e^-x). -0 below -88.38 (the function: above -3.8e-37), also for -inf, its limit.
mlir::Value emitSilu(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// x/2 (1 + erf(x/√2)) or x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))). Both keep their relative error in the negative
/// tail, where the sum 1 + erf of the formula cancels. ±0 at -inf.
mlir::Value emitGelu(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x, nn::GeluForm form);

/// The natural logarithm, subnormals included. -inf at ±0, NaN below.
mlir::Value emitLog(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// Sine and cosine of radians, for every finite f32. NaN at ±inf.
mlir::Value emitSin(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
mlir::Value emitCos(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

/// 1 / √x by a square root and a division, both exactly rounded. ±inf at ±0.
mlir::Value emitRsqrt(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

} // namespace intarsia::cpu

#endif
