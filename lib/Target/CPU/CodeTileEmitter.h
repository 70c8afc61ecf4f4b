//===- CodeTileEmitter.h - Register tiles of quantized weights and activations ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_CODETILEEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_CODETILEEMITTER_H

#include "lib/Target/CPU/CodeEmitter.h"

namespace intarsia::cpu {

/// Products of rows that are rounded to 8 bits by panels of codes.
class CodeTileEmitter : public CodeEmitter {
public:
  using CodeEmitter::CodeEmitter;

  /// Returns the nn.quantize to 8 bits that a product's input comes from, in this kernel; null if there is none.
  static nn::QuantizeOp quantizedInput(mlir::Value input);

protected:
  struct RecordScale {
    mlir::Value inverse, scale;
  };
  mlir::Value magnitudes(mlir::Value value);
  RecordScale scaleOfRecord(const BlockPanels &panels, mlir::Value largest);
  void writeRecord(const BlockPanels &panels, llvm::ArrayRef<mlir::Value> values, RecordScale scale,
                   mlir::Value record);
  void quantizeRow(nn::QuantizeOp activations, const BlockPanels &panels, const RowScope &row, mlir::Value records);
  /// Steps of 32 k's that share a scale of activations.
  static int64_t stepsOfScale(nn::QuantizeOp activations);
  mlir::Value addScaled(mlir::Value total, mlir::Value products, mlir::Value weightScale, mlir::Value minimum,
                        mlir::Value codeSum, mlir::Value scale);
  void emitDecodeRows(const BlockPanels &panels, int64_t group, mlir::Value count, mlir::Value panel,
                      mlir::Value records, mlir::Value sums);
  void emitDecodeTile(const BlockPanels &panels, int64_t group, int64_t rows, mlir::Value panel, mlir::Value records,
                      mlir::Value sums);
  void unpackPanel(const BlockPanels &panels, mlir::Value panel, mlir::Value begin, mlir::Value end, mlir::Value codes,
                   mlir::Value scales);
  void emitCodeTile(const BlockPanels &panels, int64_t group, mlir::Value codes, mlir::Value scales,
                    mlir::Value records, mlir::Value steps, mlir::Value sums, mlir::Value isFirst, mlir::Value ahead,
                    mlir::Value bytesAhead);
};

} // namespace intarsia::cpu

#endif
