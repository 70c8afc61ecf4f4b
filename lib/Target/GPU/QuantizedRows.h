//===- QuantizedRows.h - Where kernels of GPUs have rows that are quantized to 8 bits ----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The first launch of a linear with quantized input writes its rows to the scratch of the kernel's launches:
//
//   values  i8 [row][paddedDepth], integers or E4M3, zeros behind the last feature
//   scales  f32 [row][step], of 32 features each, also where several steps have the same; of E4M3 [row]
//   sums    f32 [row][step], of a step's values times its scale, where the weight has minima
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_QUANTIZEDROWS_H
#define INTARSIA_LIB_TARGET_GPU_QUANTIZEDROWS_H

#include "lib/Target/GPU/FunctionEmitter.h"

namespace intarsia::gpu {

struct QuantizedRows {
  /// Features of a tile of integers: rows end with a whole one.
  static constexpr int64_t tileDepth = 64;
  static constexpr int64_t stepDepth = BlockPanels::stepDepth;

  /// Returns the rows of a linear's input; nothing if it is not quantized in the kernel, or not beside a weight that
  /// kernels multiply by integers, or, if it is quantized to floats, by those.
  static std::optional<QuantizedRows> of(rt::KernelOp kernel, nn::LinearOp linear);

  nn::QuantizeOp quantize;
  int64_t depth; ///< features
  bool hasSums;
  bool areFloats;        ///< E4M3, a scale for each row
  mlir::AffineExpr rows; ///< in the kernel's sizes

  int64_t paddedDepth() const { return llvm::alignTo(depth, tileDepth); }
  /// Scales of a row.
  int64_t steps() const { return areFloats ? 1 : paddedDepth() / stepDepth; }
  // Offsets in the scratch.
  mlir::AffineExpr scalesBegin() const { return rows * paddedDepth(); }
  mlir::AffineExpr sumsBegin() const { return scalesBegin() + rows * (steps() * 4); }
  mlir::AffineExpr bytes() const {
    mlir::AffineExpr end = hasSums ? sumsBegin() + rows * (steps() * 4) : sumsBegin();
    return end.ceilDiv(tileDepth) * tileDepth;
  }
};

/// Emits the launch that quantizes the rows, with what precedes them in the kernel.
Emitter makeQuantizeRowsKernel(rt::KernelOp kernel, const QuantizedRows &rows, const Architecture &architecture);

} // namespace intarsia::gpu

#endif
