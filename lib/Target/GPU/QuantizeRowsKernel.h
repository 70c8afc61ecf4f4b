//===- QuantizeRowsKernel.h - The launch that quantizes rows -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_QUANTIZEROWSKERNEL_H
#define INTARSIA_LIB_TARGET_GPU_QUANTIZEROWSKERNEL_H

#include "lib/Target/GPU/QuantizedRows.h"

namespace intarsia::gpu {

/// Quantizes rows to scratch: a warp a span of a row, or whole rows where something of them has to be known first.
class QuantizeRowsKernel final : public KernelEmitter {
public:
  QuantizeRowsKernel(rt::KernelOp kernel, const QuantizedRows &quantized, const Architecture &architecture)
      : KernelEmitter(kernel, architecture), quantized(quantized), input(this->quantized.quantize.getInput()),
        width(areBlocks(quantized) ? wordFeatures : BlockPanels::superBlock / architecture.warpSize) {}

private:
  /// Features of a word of E2M1.
  static constexpr int64_t wordFeatures = 8;

  static bool areBlocks(const QuantizedRows &quantized) {
    return quantized.values == QuantizedRows::Values::E2M1 || quantized.values == QuantizedRows::Values::Dequantized;
  }
  void chooseShape(KernelShape &shape) override;
  mlir::LogicalResult run() override;
  bool hasRowStatistics();
  /// Returns features that a warp quantizes at a time: at least the longest block.
  int64_t span() const { return width * architecture.warpSize; }
  /// Returns this lane's first feature of a span.
  mlir::Value featureOf(mlir::Value begin) { return add(begin, mul(function.lane, constant(width))); }
  /// Returns this lane's elements from feature `k` on; those behind the last feature are zeros.
  Element elementsAt(const RowScope &row, mlir::Value k);
  /// Returns this lane's elements from feature `k` of a row on, and the bits of their magnitudes.
  mlir::FailureOr<mlir::Value> loadSpan(const RowScope &row, mlir::Value k);
  mlir::Value magnitudes(mlir::Value elements);
  /// Returns the largest magnitude of neighbouring lanes.
  mlir::Value largestOf(mlir::Value bits, int64_t lanes);
  /// Returns the largest magnitude of a row: NaN or infinity if it has one.
  mlir::FailureOr<mlir::Value> largestOfRow(const RowScope &row, int64_t spans);

  // What begins at a feature of a row is quantized to integers; to E4M3; and to E2M1, by the scale of the row if that
  // is not null.
  mlir::LogicalResult quantizeSpan(const RowScope &row, mlir::Value begin);
  mlir::LogicalResult quantizeToE4M3(const RowScope &row, mlir::Value begin, mlir::Value scale);
  mlir::LogicalResult quantizeBlocks(const RowScope &row, mlir::Value begin, mlir::Value ofRow);
  /// Quantizes a row that has a scale.
  mlir::LogicalResult quantizeRow(const RowScope &row, int64_t spans);
  mlir::Value scaleE4M3(mlir::Value largest);

  mlir::Value integers(int64_t value, int64_t count) { return splat(word(value), count); }

  RowEmitter rowEmitter{function, tensors};
  QuantizedRows quantized;
  mlir::Value input;
  int64_t width; ///< features of a lane
};

} // namespace intarsia::gpu

#endif
