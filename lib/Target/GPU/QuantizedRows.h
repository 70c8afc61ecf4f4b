//===- QuantizedRows.h - Where kernels of GPUs have rows that are quantized --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The first launch of a linear with quantized input writes its rows to the scratch of the kernel's launches:
//
//   values  [row][paddedDepth], zeros behind the last feature: i8, integers or E4M3; or E2M1, of which a word has eight
//           features, number j in the low bits of byte j and number 4 + j in its high ones; or f16 or bf16, elements of
//           E2M1 by the scales of their blocks
//   blocks  i8 [row][block], scales of blocks of E2M1 as they are stored
//   scales  f32 [row][step], of 32 features each, also where several steps have the same; of E4M3, and of E2M1 with
//           scales in E4M3, [row]
//   sums    f32 [row][step], of a step's values times its scale, where the weight has minima
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_QUANTIZEDROWS_H
#define INTARSIA_LIB_TARGET_GPU_QUANTIZEDROWS_H

#include "lib/Target/GPU/FunctionEmitter.h"
#include "lib/Target/GPU/KernelRoots.h"

namespace intarsia::gpu {

struct QuantizedRows {
  enum class Values {
    Integers,
    E4M3,
    E2M1,
    Dequantized ///< E2M1 where an architecture does not multiply it: each is exact in the type of 16 bits
  };
  static constexpr int64_t stepDepth = BlockPanels::stepDepth;
  /// Features of a tile of integers.
  static constexpr int64_t tileDepth = 64;
  /// Features of a tile of E2M1: what an instruction of CDNA 4 multiplies, and two of NVIDIA's.
  static constexpr int64_t tileDepthOfE2M1 = 128;

  /// Returns the rows of a linear's input; nothing if it is not quantized in the kernel, or not beside a weight that
  /// kernels multiply by integers, or, if it is quantized to floats, by those.
  static std::optional<QuantizedRows> of(rt::KernelOp kernel, nn::LinearOp linear, const Architecture &architecture);

  nn::QuantizeOp quantize;
  int64_t depth; ///< features
  Values values;
  bool hasSums;
  bool hasRowScales;     ///< a scale for each row, which sums get
  int64_t block;         ///< features of a block
  mlir::Type type;       ///< of a value
  mlir::AffineExpr rows; ///< in the kernel's sizes

  /// Returns features of a row: it ends with a whole tile.
  int64_t paddedDepth() const {
    return int64_t(llvm::alignTo(depth, values == Values::E2M1 ? tileDepthOfE2M1 : tileDepth));
  }
  int64_t rowBytes() const { return paddedDepth() * type.getIntOrFloatBitWidth() / 8; }
  /// Scales of a row in f32.
  int64_t steps() const { return values == Values::Integers ? paddedDepth() / stepDepth : int64_t(hasRowScales); }
  /// Scales of blocks of a row.
  int64_t blocks() const { return values == Values::E2M1 ? paddedDepth() / block : 0; }
  // Offsets in the scratch.
  mlir::AffineExpr blocksBegin() const { return rows * rowBytes(); }
  mlir::AffineExpr scalesBegin() const { return rows * (rowBytes() + blocks()); }
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
