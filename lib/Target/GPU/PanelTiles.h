//===- PanelTiles.h - Tiles of quantized weights ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_PANELTILES_H
#define INTARSIA_LIB_TARGET_GPU_PANELTILES_H

#include "lib/Target/GPU/MatrixEmitter.h"

namespace intarsia::gpu {

/// Weights in panels (dialects/Rt/BlockPanels.h) on their way to shared memory. A thread has a step of a row: words of
/// its lines, and scales, are loaded as they are stored some tiles before they are needed, and decoded then.
class PanelTiles : public LoopEmitter {
public:
  PanelTiles(FunctionEmitter &function, MatrixEmitter &matrices, ContractionOpInterface root)
      : LoopEmitter(function), panels(PanelEmitter(function).panelsOf(root.getRight())), function(function),
        memory(function), matrices(matrices), weights(function), root(root) {}

  /// What a thread copies of each tile: a step of 32 elements of a row.
  struct Unit {
    mlir::Value row, step;   ///< in the tile
    mlir::Value ofMatrix;    ///< row of the matrix
    mlir::Value panel, head; ///< of the weight; the scale in the head is null if there is none
  };
  using Store = std::function<void(const Unit &unit, llvm::ArrayRef<mlir::Value> loaded, mlir::Value stage)>;
  /// What threads bring to a stage beside the weight: some values for each unit.
  struct Beside {
    llvm::SmallVector<Unit> units;
    size_t values; ///< of a unit
    std::function<void(const Unit &unit, mlir::Value k, llvm::SmallVectorImpl<mlir::Value> &loaded)> load;
    Store store;
  };
  /// Returns the units of a thread of a tile of rows, of which those below `end` are computed.
  llvm::SmallVector<Unit> unitsOf(const MatrixTiles &tiles, int64_t rows, mlir::Value firstRow, mlir::Value end);
  llvm::SmallVector<Unit> unitsOfWeight(const MatrixTiles &tiles, mlir::Value firstColumn);
  /// Returns the weight as a factor, by its units and what stores one of them to a stage.
  Factor factor(llvm::ArrayRef<Unit> units, Store store, const Beside &beside = {});
  /// Returns the four elements of a word as they are stored: unsigned, in bytes.
  mlir::Value unpackWord(llvm::ArrayRef<mlir::Value> loaded, int64_t number);
  /// Returns what the elements of a block of the unit are multiplied by, `factor` included, and what is added then, or
  /// null.
  std::pair<mlir::Value, mlir::Value> scalesOfUnit(const Unit &unit, llvm::ArrayRef<mlir::Value> loaded, int64_t block,
                                                   double factor);
  /// Returns what columns have as a scale in the heads of panels.
  mlir::Value scalesOfColumns(mlir::Value column, int64_t width);
  /// Returns the blocks of a unit: two where they are shorter than a step.
  int64_t blocksOfUnit() const {
    return panels->block && panels->block < BlockPanels::stepDepth ? BlockPanels::stepDepth / panels->block : 1;
  }
  /// Returns where a chunk of a row lies in a tile.
  mlir::Value chunkPointer(const MatrixTiles &tiles, mlir::Value tile, mlir::Value row, mlir::Value chunk);

  const std::optional<BlockPanels> panels; ///< nothing if the weight is stored as it is multiplied

private:
  int64_t features() { return llvm::cast<mlir::RankedTensorType>(root.getRight().getType()).getDimSize(0); }
  /// Appends what is stored of a unit of the tile at `k`: lines, then scales of its blocks.
  void loadUnit(const Unit &unit, mlir::Value k, llvm::SmallVectorImpl<mlir::Value> &loaded);

  FunctionEmitter &function;
  MemoryEmitter memory;
  MatrixEmitter &matrices;
  PanelEmitter weights;
  ContractionOpInterface root;
};

} // namespace intarsia::gpu

#endif
