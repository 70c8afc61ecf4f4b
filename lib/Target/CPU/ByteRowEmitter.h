//===- ByteRowEmitter.h - Rows of an input in integers of 8 bits with few scales --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_BYTEROWEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_BYTEROWEMITTER_H

#include "lib/Target/CPU/QuantizedWeightEmitter.h"
#include "lib/Target/CPU/RecordEmitter.h"

namespace intarsia::cpu {

/// How a row lies in the scratch that all threads see: for each group of features that share a scale, where their sums
/// begin (i32), minus the sum of their quantized values times the weight's offset, and their scale (f32); then the
/// quantized values (i8 or i16), zeros beyond the last feature.
struct ByteRowLayout {
  /// Bytes of a group of features before the quantized values.
  static constexpr int64_t groupHead = 8;

  BlockPanels panels;     ///< of a weight that has as many features
  int64_t groupSteps = 1; ///< steps of 32 features that share a scale
  int64_t valueBytes = 1; ///< of a quantized value

  /// Returns the layout of rows whose features share scales in blocks, or have one in all if `block` is 0.
  static ByteRowLayout of(const BlockPanels &panels, int64_t block, ByteDot dot) {
    constexpr int64_t step = BlockPanels::stepDepth;
    return {panels, block ? block / step : std::max<int64_t>(panels.steps(), 1), dot == ByteDot::Maddubs ? 2 : 1};
  }
  int64_t groups() const { return llvm::divideCeil(panels.steps(), groupSteps); }
  int64_t bytes() const { return groups() * groupHead + panels.steps() * BlockPanels::stepDepth * valueBytes; }
  /// Returns true if factors are widened to 16 bits.
  bool widens() const { return valueBytes == 2; }
};

/// Returns true if kernels add up products of bytes of an input in this format, by blocks of 256 features or with one
/// scale for each row.
bool isByteFormat(nn::BlockFormatAttr format);
/// Returns true if panels have integers of 8 bits with one scale for each output feature.
bool areBytePanels(const BlockPanels &panels);

/// Writes rows of an input that is dequantized (`nn.dequantize`) from integers of 8 bits: quantizes them, or copies
/// what another kernel has quantized.
class ByteRowEmitter : public LoopEmitter {
public:
  ByteRowEmitter(FunctionEmitter &function, TensorEmitter &tensors, mlir::Value input)
      : LoopEmitter(function), config(function.config), function(function), memory(function), tensors(tensors),
        rowEmitter(function, tensors), quantizer(function, tensors), quantizedWeights(function),
        activations(input.getDefiningOp<nn::DequantizeOp>()) {}

  /// Returns the nn.quantize of the kernel that the input comes from; null if another kernel has quantized it.
  nn::QuantizeOp quantize() { return activations.getQuantized().getDefiningOp<nn::QuantizeOp>(); }
  nn::BlockFormatAttr format() { return llvm::cast<nn::BlockFormatAttr>(activations.getFormat()); }
  /// Returns true if the scales of the input are known to be 1.
  bool hasUnitScale();
  /// Returns true if the tensor in memory that another kernel has quantized can be copied.
  bool canCopy(const ByteRowLayout &layout);

  /// Writes a row to `record`.
  mlir::LogicalResult writeRow(const ByteRowLayout &layout, const RowScope &row, mlir::Value record);
  /// Writes a row of zeros.
  void clearRow(const ByteRowLayout &layout, mlir::Value record);
  mlir::Value headOf(mlir::Value record, mlir::Value group) {
    return memory.at(record, mul(group, constant(ByteRowLayout::groupHead)), b.getI8Type());
  }
  mlir::Value valuesOf(const ByteRowLayout &layout, mlir::Value record, mlir::Value step);

private:
  mlir::LogicalResult quantizeRow(const ByteRowLayout &layout, const RowScope &row, mlir::Value record);
  mlir::Value copyWholeVectors(const ByteRowLayout &layout, mlir::Value from, mlir::Value begin, mlir::Value end,
                               mlir::Value record);
  void copyRow(const ByteRowLayout &layout, mlir::Value flat, mlir::Value record);
  mlir::LogicalResult quantizeGroup(const ByteRowLayout &layout, const QuantizedRow &row, mlir::Value buffer,
                                    mlir::Value group);
  void quantizeBuffer(const ByteRowLayout &layout, mlir::Value buffer, mlir::Value steps, RecordScale scale,
                      mlir::Value head, mlir::Value values);
  void storeHead(const ByteRowLayout &layout, mlir::Value head, mlir::Value total, mlir::Value scale);
  /// Returns integers of values; a scale without an inverse is 1.
  mlir::Value integersOf(mlir::Value values, RecordScale scale);
  mlir::Type valueType(const ByteRowLayout &layout) { return layout.widens() ? b.getI16Type() : b.getI8Type(); }

  const TileConfig &config;
  FunctionEmitter &function;
  MemoryEmitter memory;
  TensorEmitter &tensors;
  RowEmitter rowEmitter;
  RecordEmitter quantizer;
  QuantizedWeightEmitter quantizedWeights;
  nn::DequantizeOp activations;
};

} // namespace intarsia::cpu

#endif
