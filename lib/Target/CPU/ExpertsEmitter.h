//===- ExpertsEmitter.h - Rows multiplied by the matrices of experts --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_EXPERTSEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_EXPERTSEMITTER_H

#include "lib/Target/CPU/QuantizedPanels.h"
#include "lib/Target/CPU/QuantizedTileEmitter.h"

namespace intarsia::cpu {

/// One of the two weights: matrices [rows, depth].
struct Matrices {
  mlir::Value value;
  int64_t rows, depth;
  std::optional<BlockPanels> quantized; ///< how they are stored, if quantized
  bool isInputQuantized;                ///< the left operand is records
  int64_t group = 1;                    ///< steps of it that share a scale
  std::optional<Storage> stored;
  bool packed = false;
  mlir::Type type; ///< of elements as they are multiplied

  int64_t panels() const { return llvm::divideCeil(rows, kPanelWidth); }
  /// Bytes of a row of the left operand.
  int64_t bytesOfRow() const { return isInputQuantized ? rowBytes(*quantized) : std::max<int64_t>(depth, 1) * 4; }
};

/// Multiplies rows by panels of the experts' matrices, as they are stored.
class ExpertsEmitter : public LoopEmitter {
public:
  ExpertsEmitter(FunctionEmitter &function, TensorEmitter &tensors, nn::ExpertsOp root)
      : LoopEmitter(function), config(function.config), function(function), memory(function), tensors(tensors),
        quantizedWeights(function), registerTiles(function), quantizedTiles(function), root(root) {}

  mlir::LogicalResult findMatrices(Matrices &matrices);
  void makeRoomForPanels(llvm::ArrayRef<const Matrices *> weights);
  int64_t blockRows(const Matrices &matrices) const;
  /// Rows that are read and written beyond the last: register tiles take as many as they are made for.
  int64_t roomForRows() const { return std::max(config.quantizedRows, config.decodeRows); }

  /// Emits `body` for the columns of a panel that are features.
  template <typename BodyFn>
  Outcome<BodyFn, mlir::Value, int64_t> forColumns(mlir::Value panel, int64_t features, BodyFn body) {
    mlir::Value columns = min(sub(constant(features), mul(panel, constant(kPanelWidth))), constant(kPanelWidth));
    return vectorLoop(features % kPanelWidth ? columns : constant(kPanelWidth), body);
  }
  mlir::Value panelOf(const Matrices &matrices, mlir::Value matrix, mlir::Value panel);
  void multiplyByPanel(const Matrices &matrices, mlir::Value a, mlir::Value right, mlir::Value count, mlir::Value out);
  mlir::Value sumAt(const Matrices &matrices, mlir::Value from, mlir::Value c, mlir::Value panel, int64_t width);

  mlir::Value sums;

private:
  void emitQuantizedPanel(const Matrices &matrices, mlir::Value records, mlir::Value panel, mlir::Value count,
                          mlir::Value out);
  void multiplyUnpacked(const Matrices &matrices, mlir::Value records, mlir::Value panel, mlir::Value count,
                        mlir::Value out);

  const TileConfig &config;
  FunctionEmitter &function;
  MemoryEmitter memory;
  TensorEmitter &tensors;
  QuantizedWeightEmitter quantizedWeights;
  TileEmitter registerTiles;
  QuantizedTileEmitter quantizedTiles;
  nn::ExpertsOp root;
  /// A panel as it is multiplied: f32, or the unpacked elements and scales of config.unpackedSteps steps.
  mlir::Value packedPanel, unpacked, scales;
};

} // namespace intarsia::cpu

#endif
