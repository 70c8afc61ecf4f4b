//===- MathFunctions.h - The math dialect's functions as arithmetic ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_MATHFUNCTIONS_H
#define INTARSIA_LIB_KERNEL_MATHFUNCTIONS_H

#include "mlir/IR/Builders.h"

namespace intarsia::kernel {

/// How devices compute an op of the math dialect.
enum class MathKind {
  Polynomial,  ///< by `emitMathFunction`, in f32 alone
  Arithmetic,  ///< by `emitMathFunction`
  Instruction, ///< as it is
  Rounding,    ///< by instructions that some processors lack
  None
};

MathKind mathKind(mlir::Operation *op);

/// Emits a polynomial, arithmetic or a rounding for operands that are scalars or vectors. Null for other ops.
mlir::Value emitMathFunction(mlir::OpBuilder &builder, mlir::Location location, mlir::Operation *op,
                             mlir::ValueRange operands);

} // namespace intarsia::kernel

#endif
