//===- QuantizedTileEmitter.h - Register tiles of quantized weights and activations -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_QUANTIZEDTILEEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_QUANTIZEDTILEEMITTER_H

#include "lib/Target/CPU/QuantizedWeightEmitter.h"
#include "lib/Target/CPU/TileEmitter.h"

namespace intarsia::cpu {

/// A register tile of an unpacked panel.
struct QuantizedTile {
  const BlockPanels &panels;
  int64_t group; ///< steps that share a scale of activations
  mlir::Value unpacked, scales;
  mlir::Value records, steps;
  mlir::Value sums, isFirst;     ///< [rows][32] f32, which begin here if isFirst
  mlir::Value ahead, bytesAhead; ///< brought into the second-level cache meanwhile, bytes for each step
};

/// Multiplies rows that are quantized to 8 bits by panels of quantized weights.
class QuantizedTileEmitter : public LoopEmitter {
public:
  explicit QuantizedTileEmitter(FunctionEmitter &function)
      : LoopEmitter(function), config(function.config), memory(function), weights(function), quantizedWeights(function),
        registerTiles(function) {}

  void emitDecodeRows(const BlockPanels &panels, int64_t group, mlir::Value count, mlir::Value panel,
                      mlir::Value records, mlir::Value sums);
  void unpackPanel(const BlockPanels &panels, mlir::Value panel, mlir::Value begin, mlir::Value end,
                   mlir::Value unpacked, mlir::Value scales);

  void emitQuantizedTile(const QuantizedTile &tile);

private:
  mlir::Value fieldOf(const BlockPanels &panels, mlir::Value record, int64_t r, int64_t byte);
  mlir::Value addScaled(mlir::Value total, mlir::Value products, mlir::Value weightScale, mlir::Value minimum,
                        mlir::Value activationSum, mlir::Value scale);

  // A tile whose weights are unpacked in registers.
  struct DecodeTile {
    const BlockPanels &panels;
    int64_t group, rows; ///< `group` steps share a scale of activations
    mlir::Value panel, records, sums;
  };
  void emitDecodeTile(const DecodeTile &tile);
  llvm::SmallVector<mlir::Value> addDecodedUnits(const DecodeTile &tile, llvm::ArrayRef<mlir::Value> zeros,
                                                 mlir::Value begin, mlir::Value end);
  void addDecodedStep(const DecodeTile &tile, mlir::Value unitPointer, mlir::Value stepOfUnit, mlir::Value record,
                      llvm::SmallVector<mlir::Value> &next);
  void addDecodedProducts(const DecodeTile &tile, mlir::Value packedVector, mlir::Value record, bool apart,
                          llvm::SmallVector<mlir::Value> &low, llvm::SmallVector<mlir::Value> &high);
  void prefetchStep(const DecodeTile &tile, mlir::Value unitPointer, mlir::Value stepOfUnit);
  void touchScales(const DecodeTile &tile, mlir::Value unitPointer);

  // A tile of an unpacked panel.
  llvm::SmallVector<mlir::Value> addUnpackedSteps(const QuantizedTile &tile, int64_t first, mlir::Value begin,
                                                  mlir::Value end, llvm::ArrayRef<mlir::Value> initial);
  void addUnpackedBlock(const QuantizedTile &tile, int64_t first, mlir::Value step, int64_t block, mlir::Value record,
                        mlir::Value unpackedStep, llvm::SmallVector<mlir::Value> &next);
  llvm::SmallVector<mlir::Value> loadSums(const QuantizedTile &tile, int64_t first, mlir::Value zero,
                                          mlir::Value begins);
  void storeSums(const QuantizedTile &tile, int64_t first, llvm::ArrayRef<mlir::Value> totals);

  const TileConfig &config;
  MemoryEmitter memory;
  PanelEmitter weights;
  QuantizedWeightEmitter quantizedWeights;
  TileEmitter registerTiles;
};

} // namespace intarsia::cpu

#endif
