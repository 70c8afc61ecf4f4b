//===- TileEmitter.h - Register tiles, and panels that are packed at run time -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_TILEEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_TILEEMITTER_H

#include "lib/Target/CPU/FunctionEmitter.h"

namespace intarsia::cpu {

/// A loop around the depth of a tile: `a` and `b` go on by so many elements with each turn.
struct TileSegments {
  mlir::Value count, aStep, bStep;
};

/// One register tile: sum over k of a(r, k) * b(k, c), where a(r, k) is at a + r * aRow + k * aColumn and b(k, c) at
/// b + k * bRow + c. The sums are stored to `out` (f32, rows of kPanelWidth). Strides in elements.
struct TileOperands {
  mlir::Value a, aRow, aColumn;
  mlir::Type aType;
  mlir::Value b, bRow;
  mlir::Type bType;
  mlir::Value depth;
  llvm::SmallVector<TileSegments, 3> segments; ///< the sum goes on over these, outermost first
  mlir::Value out, outRow;
  int64_t quantizedBits = 0; ///< b is quantized values of so many bits (#nn.cache_format), bRow in bytes; 0: elements
  bool accumulate = false;   ///< start from what `out` holds
  mlir::Value prefetch;      ///< brought into the second-level cache meanwhile, `prefetchStep` bytes for each k
  mlir::Value prefetchStep;
};

/// Takes sums of a register tile: a vector of columns, from `column` on, of a row.
using TileFinish = llvm::function_ref<llvm::LogicalResult(int64_t row, int64_t column, mlir::Value sums)>;

/// Multiplies rows by panels of kPanelWidth columns.
class TileEmitter : public LoopEmitter {
public:
  explicit TileEmitter(FunctionEmitter &function) : LoopEmitter(function), config(function.config), memory(function) {}

  void emitTile(const TileOperands &operands, int64_t rows, int64_t columns); // columns: a multiple of lanes
  /// emitTile for a number of rows known at run time, 1 … config.rows, and all columns of a panel.
  void emitTileRows(const TileOperands &operands, mlir::Value rows, int64_t columns);
  /// The same, but tiles whose number of rows is in `finished` hand their sums to `finish` in registers. Other tiles
  /// are stored to `out`; `fromOut` then goes on with them.
  llvm::LogicalResult emitTileRows(const TileOperands &operands, mlir::Value rows, int64_t columns,
                                   llvm::ArrayRef<int64_t> finished, TileFinish finish,
                                   llvm::function_ref<llvm::LogicalResult()> fromOut);
  /// Writes b(k, c) for k < depth, c < panelWidth as a dense f32 panel, zero where c >= columns; the element is at
  /// source + k * stride + c.
  void packRows(mlir::Value panel, mlir::Value source, mlir::Value stride, mlir::Type type, mlir::Value depth,
                mlir::Value columns, int64_t panelWidth);
  /// A panel whose element (k, c) is at source + c * stride + k (stride in elements).
  void packTransposed(mlir::Value panel, mlir::Value source, mlir::Value stride, mlir::Type type, mlir::Value depth,
                      mlir::Value columns, mlir::Value scale);
  /// Returns true if a tile of so many rows waits for its weights alone, on a processor that reads them fastest in the
  /// order of their addresses. It then prefetches nothing but prefetchNextPage().
  bool readsInOrder(int64_t rows) const { return rows <= config.inOrderRows; }
  /// Asks for the line that lies a page behind one that is about to be read: the processor's prefetchers do not leave a
  /// page. One for each 4 to 32 lines is enough.
  void prefetchNextPage(mlir::Value pointer);
  llvm::SmallVector<mlir::Value> transpose(llvm::ArrayRef<mlir::Value> rows);
  /// Loads `lanes` quantized values of a cache's row from `column` on, as f32. `row` is the offset of the row in bytes.
  mlir::Value loadQuantized(mlir::Value pointer, mlir::Value row, int64_t column, int64_t bits);

private:
  llvm::LogicalResult emitTile(const TileOperands &operands, int64_t rows, int64_t columns, TileFinish finish);
  llvm::SmallVector<mlir::Value> addProducts(const TileOperands &operands, int64_t rows, int64_t firstColumn,
                                             int64_t vectors, mlir::ValueRange initial);
  llvm::SmallVector<mlir::Value> addSegments(const TileOperands &operands, llvm::ArrayRef<TileSegments> segments,
                                             int64_t rows, int64_t firstColumn, int64_t vectors,
                                             mlir::ValueRange initial);
  llvm::SmallVector<mlir::Value> addDots(const TileOperands &operands, mlir::Value start, int64_t rows, int64_t vectors,
                                         mlir::Value k, bool pair, bool prefetches, mlir::ValueRange running);
  bool usesBf16Dot(const TileOperands &operands);

  const TileConfig &config;
  MemoryEmitter memory;
};

} // namespace intarsia::cpu

#endif
