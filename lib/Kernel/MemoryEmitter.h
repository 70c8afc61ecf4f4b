//===- MemoryEmitter.h - Elements in memory, and as they are computed with --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_MEMORYEMITTER_H
#define INTARSIA_LIB_KERNEL_MEMORYEMITTER_H

#include "lib/Kernel/LoopEmitter.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace intarsia::kernel {

/// Loads and stores vectors of elements. All floating-point values are computed in f32 (f64 stays f64), whatever is
/// stored.
class MemoryEmitter : public LoopEmitter {
public:
  explicit MemoryEmitter(const LoopEmitter &loops) : LoopEmitter(loops) {}

  static mlir::Type computeType(mlir::Type element);
  static mlir::Type storedType(mlir::Type element);
  mlir::Value load(mlir::Value pointer, mlir::Value offset, mlir::Type elementType, int64_t width);
  void store(mlir::Value value, mlir::Value pointer, mlir::Value offset, mlir::Type elementType, int64_t width);
  /// Stored → computed and back, rounding to nearest even, by instructions or (NarrowFloat.cpp) by integer arithmetic.
  mlir::Value widen(mlir::Value value, mlir::Type compute, int64_t width);
  mlir::Value narrow(mlir::Value value, mlir::Type stored, int64_t width);
  /// Bit patterns of E4M3, whose elements have the type f8E4M3FN here and take a byte.
  mlir::Value widenE4M3(mlir::Value bytes, int64_t width);
  mlir::Value narrowE4M3(mlir::Value value, int64_t width);
  /// Returns the nearest elements of E2M1, ties to even, the largest where values are beyond it and zero where they are
  /// NaN: their values in f32, or their bit patterns in i32.
  mlir::Value roundE2M1(mlir::Value value, int64_t width);
  mlir::Value narrowE2M1(mlir::Value value, int64_t width);
  /// The scale of a block of E2M1 as nn.quantize chooses it.
  struct BlockScale {
    mlir::Value pattern; ///< i8, as it is stored
    mlir::Value stored;  ///< f32, its value
    mlir::Value whole;   ///< f32, by the scale of the row where there is one
  };
  /// Returns the scale of a block by its largest magnitude, f32: E8M0, or E4M3 by the scale of the row, if that is not
  /// null.
  BlockScale scaleE2M1(mlir::Value largest, mlir::Value ofRow);
  /// Returns the scale of a row of blocks with scales in E4M3 by its largest magnitude; NaN if that is not finite.
  mlir::Value rowScaleE2M1(mlir::Value largest);
  /// Returns values by a scale, zeros where this is zero.
  mlir::Value quotient(mlir::Value values, mlir::Value scale, int64_t width);
  /// Returns the bytes that the address of a vector is a multiple of: at least those of an element.
  int64_t vectorAlignment(mlir::Value address, mlir::Type stored, int64_t width);
  mlir::Value at(mlir::Value pointer, mlir::Value elements, mlir::Type elementType);
};

} // namespace intarsia::kernel

#endif
