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

/// The kind of code that computes an op of the math dialect.
enum class MathKind {
  Polynomial,  ///< `emitMathFunction` emits a polynomial; operands must be f32
  Arithmetic,  ///< `emitMathFunction` emits arithmetic on operands of any type
  Instruction, ///< processors have an instruction for it
  Rounding,    ///< some processors have an instruction for it
  None         ///< it is not supported
};

/// Returns the kind of an op.
MathKind mathKind(mlir::Operation *op);

/// Emits a polynomial, arithmetic or a rounding for operands that are scalars or vectors. Null for other ops.
mlir::Value emitMathFunction(mlir::OpBuilder &builder, mlir::Location location, mlir::Operation *op,
                             mlir::ValueRange operands);

} // namespace intarsia::kernel

#endif
