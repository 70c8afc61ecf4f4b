//===- SmallTypes.h - Elements of 8 bits and fewer that only casts compute with -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floats of 8, 6 and 4 bits are bytes in IR that have their bits, integers of 4 and 2 bits are bytes of which the low
// bits count. Other ops move them; Cast, QuantizeLinear and DequantizeLinear convert them, by arithmetic on the bits.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_SMALLTYPES_H
#define INTARSIA_IMPORT_ONNX_SMALLTYPES_H

#include "lib/Import/Onnx/GraphValue.h"

namespace intarsia::onnx {

/// How numbers become floats of 8 bits and fewer. The others round to nearest, ties to even.
struct SmallRounding {
  enum class Powers { Up, Down, Nearest };

  bool saturates = true;      ///< false: numbers that are too large become infinities, or NaN
  Powers powers = Powers::Up; ///< of float8e8m0, whose numbers are powers of two
};

/// Returns the value of the bits of a small float.
double decodeSmallFloat(DataType type, unsigned bits);
/// Returns the bits of a number as a small float.
unsigned encodeSmallFloat(DataType type, double number, const SmallRounding &rounding);

/// Returns an element as Cast converts it from one type to another, before it is rounded to types that are not small;
/// nullopt for a size of the call that the type may not hold.
std::optional<Element> castElement(const Element &element, DataType from, DataType to, const SmallRounding &rounding);

// The same in bodies of elementwise ops.

/// Returns the value of a byte of a small float as f32.
mlir::Value decodeSmallFloat(mlir::OpBuilder &builder, mlir::Location at, mlir::Value byte, DataType type);
/// Returns an f32 as a byte of a small float.
mlir::Value encodeSmallFloat(mlir::OpBuilder &builder, mlir::Location at, mlir::Value number, DataType type,
                             const SmallRounding &rounding);
/// Returns the value of the low bits of a byte as a byte: integers of 4 and 2 bits wrap.
mlir::Value wrapSmallInteger(mlir::OpBuilder &builder, mlir::Location at, mlir::Value byte, DataType type);
/// Returns an f64 as an f32 whose last bit is set where it is inexact, so that rounding it again to fewer bits gives
/// what rounding the f64 gives.
mlir::Value narrowToOdd(mlir::OpBuilder &builder, mlir::Location at, mlir::Value number);

} // namespace intarsia::onnx

#endif
