//===- RecordEmitter.h - Rows of activations quantized to 8 bits ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_RECORDEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_RECORDEMITTER_H

#include "dialects/Rt/BlockPanels.h"
#include "lib/Target/CPU/FunctionEmitter.h"

namespace intarsia::cpu {

struct RecordScale {
  mlir::Value inverse, scale;
};

/// A row that is written as records.
struct QuantizedRow {
  mlir::Value input;
  llvm::SmallVector<mlir::Value> prefix;
  const BlockPanels *panels;
  mlir::Value records;
  int64_t group; ///< steps that share a scale
  /// The first feature of the blocks that have integers of 4 bits; nothing if none have.
  std::optional<int64_t> firstNarrow;
  mlir::Value permuted; ///< the features in the order of their channels, as f32; null if none are said
  mlir::Value factors;  ///< of features, f32; null if there are none
};

/// Quantizes rows to 8 bits, by blocks of 32 or 256 features, and writes them as records (RecordEmitter.cpp).
class RecordEmitter : public LoopEmitter {
public:
  RecordEmitter(FunctionEmitter &function, TensorEmitter &tensors)
      : LoopEmitter(function), config(function.config), function(function), memory(function), tensors(tensors),
        rowEmitter(function, tensors) {}

  /// Returns magnitudes as integers, and the scale of a block from its largest ones.
  mlir::Value magnitudes(mlir::Value value);
  /// `highest` is the integer that the largest magnitude becomes; null: 127.
  RecordScale scaleOfLargest(mlir::Value largest, mlir::Value highest = nullptr);
  /// The same with what elements of weights are multiplied by in the scale.
  RecordScale scaleOfRecord(const BlockPanels &panels, mlir::Value largest, mlir::Value highest = nullptr);
  /// Returns what elements of weights are multiplied by, f32.
  mlir::Value factorOfRecord(const BlockPanels &panels);
  void writeRecord(const BlockPanels &panels, llvm::ArrayRef<mlir::Value> values, RecordScale scale,
                   mlir::Value record);
  /// Writes the records of a row of activations.
  mlir::LogicalResult quantizeRow(nn::QuantizeOp activations, const BlockPanels &panels, const RowScope &row,
                                  mlir::Value records);
  /// Steps of 32 k's that share a scale of activations.
  static int64_t stepsOfScale(nn::QuantizeOp activations);
  /// Returns values times the inverse of their scale as integers, rounded to nearest, ties to even.
  mlir::Value roundToIntegers(mlir::Value values, mlir::Value inverse);
  /// Returns values brought to the range of integers of 8 bits, -128 to 127; NaN becomes -128.
  mlir::Value saturated(mlir::Value values);

  mlir::FailureOr<mlir::Value> fillBuffer(const QuantizedRow &row, mlir::Value buffer, mlir::Value k,
                                          mlir::Value count);

private:
  mlir::LogicalResult permute(QuantizedRow &row, mlir::Value channels);
  Element inputOf(const QuantizedRow &row, mlir::Value k, int64_t width);
  void writeStep(const QuantizedRow &row, mlir::Value step, llvm::ArrayRef<mlir::Value> values, RecordScale scale);
  mlir::LogicalResult writeWholeSteps(const QuantizedRow &row);
  mlir::LogicalResult writeBufferedSteps(const QuantizedRow &row, mlir::Value buffer, mlir::Value begin);

  const TileConfig &config;
  FunctionEmitter &function;
  MemoryEmitter memory;
  TensorEmitter &tensors;
  RowEmitter rowEmitter;
};

} // namespace intarsia::cpu

#endif
