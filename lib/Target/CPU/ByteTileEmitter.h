//===- ByteTileEmitter.h - Register tiles of bytes that are added up before they are scaled --------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_BYTETILEEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_BYTETILEEMITTER_H

#include "lib/Target/CPU/ByteRowEmitter.h"
#include "lib/Target/CPU/QuantizedWeightEmitter.h"
#include "lib/Target/CPU/TileEmitter.h"

namespace intarsia::cpu {

/// Some rows (ByteRowLayout) that are multiplied by columns of a panel.
struct ByteTile {
  const ByteRowLayout &layout;
  mlir::Value elements;  ///< the quantized values of the panel
  mlir::Value firstWord; ///< for addWordsBetween(): the word of the panel that the first word of a row is multiplied by
  mlir::Value row;       ///< the first one
  int64_t rowStride;     ///< bytes from a row to the next
  int64_t count;         ///< of rows
  mlir::Value next;      ///< prefetched by addSteps(), `bytesAhead` for each step; null: nothing
  mlir::Value bytesAhead;
};

/// Multiplies rows of bytes by panels of bytes, exactly, in 32 bits.
class ByteTileEmitter : public LoopEmitter {
public:
  explicit ByteTileEmitter(FunctionEmitter &function)
      : LoopEmitter(function), config(function.config), memory(function), registerTiles(function),
        quantizedWeights(function) {}

  /// Returns how many columns a register tile has, in vectors.
  int64_t columnVectors() const { return config.quantizedVectors; }
  /// Returns where the sums of rows begin: vectors of `starts`, one number for each row.
  llvm::SmallVector<mlir::Value> begin(const ByteRowLayout &layout, llvm::ArrayRef<mlir::Value> starts);
  /// Adds the products of steps [begin, end) of the rows, by columns from `first` on, to sums that begin() has made.
  llvm::SmallVector<mlir::Value> addSteps(const ByteTile &tile, mlir::Value begin, mlir::Value end, int64_t first,
                                          mlir::ValueRange sums);
  /// The same of words [begin, end), four k's each, where rows are no whole steps.
  llvm::SmallVector<mlir::Value> addWordsBetween(const ByteTile &tile, mlir::Value begin, mlir::Value end,
                                                 int64_t first, mlir::ValueRange sums);
  /// Returns the integers that sums are, columnVectors() vectors of each row.
  llvm::SmallVector<mlir::Value> finish(const ByteRowLayout &layout, llvm::ArrayRef<mlir::Value> starts,
                                        llvm::ArrayRef<mlir::Value> sums);
  /// Returns the 32-bit number at a byte of a row of the tile.
  mlir::Value fieldOf(mlir::Value pointer, int64_t offset, mlir::Type type);

private:
  void addStepInOrder(const ByteTile &tile, mlir::Value elements, mlir::Value values, int64_t first,
                      llvm::MutableArrayRef<mlir::Value> totals);
  void addBytes(const ByteTile &tile, mlir::Value elements, mlir::Value values, int64_t first, int64_t word,
                llvm::MutableArrayRef<mlir::Value> totals);
  void addWords(const ByteTile &tile, mlir::Value elements, mlir::Value values, int64_t first, int64_t word,
                llvm::MutableArrayRef<mlir::Value> totals);

  const TileConfig &config;
  MemoryEmitter memory;
  TileEmitter registerTiles;
  QuantizedWeightEmitter quantizedWeights;
};

} // namespace intarsia::cpu

#endif
