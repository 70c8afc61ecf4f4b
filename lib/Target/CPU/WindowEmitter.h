//===- WindowEmitter.h - What the windows of a convolution read -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_WINDOWEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_WINDOWEMITTER_H

#include "lib/Target/CPU/FunctionEmitter.h"

namespace intarsia::cpu {

/// Positions of the result that a tile computes. The dimensions of images are taken for three: planes, rows, columns.
struct ImageBlock {
  mlir::Value image, plane, firstRow, endRow, firstColumn, endColumn;
};

/// The elements that windows read: in scratch with zeros around the image, or where they lie.
struct WindowSource {
  mlir::Value pointer;            ///< where the block's first window begins
  mlir::Value plane, row, column; ///< elements from a position to the next
  mlir::Type type;
};

/// The positions of a window in one dimension that meet the input at a position of the result: those of the window from
/// `first` on in steps of `step`, and of the input from `source` on, counted from where the block's windows begin.
/// All of a window do; of a transposed one each `stride`-th, from the last position of the input to the first.
struct WindowTaps {
  mlir::Value count, first, source;
  int64_t step, sourceStep;
};

/// Finds and copies what the windows of a block of positions read.
class WindowEmitter : public LoopEmitter {
public:
  enum Dimension { Plane, Row, Column };

  WindowEmitter(FunctionEmitter &function, TensorEmitter &tensors, nn::ConvOp root);

  const nn::WindowDimension &window(Dimension dimension) const { return windows[dimension]; }
  /// Positions of the result from one that meets the same positions of a window to the next.
  int64_t phases(Dimension dimension) const { return transposed ? windows[dimension].stride : 1; }
  /// Elements of scratch for blocks of so many rows and columns, whose positions have so many channels.
  int64_t elements(int64_t rows, int64_t columns, int64_t channels) const {
    return reach(Plane, 1) * reach(Row, rows) * reach(Column, columns) * channels;
  }
  mlir::AffineExpr resultSize(Dimension dimension);
  /// Returns the size of the result if it is known to the compiler.
  std::optional<int64_t> knownSize(Dimension dimension);
  mlir::Value inputSize(Dimension dimension);
  bool hasPads() const;
  /// Makes scratch for blocks, if these are copied. Begins a function's use of the emitter.
  void begin(bool copies, int64_t rows, int64_t columns, int64_t channels);
  /// Copies what a block reads of the channels from one on, zeros where that is outside of the image.
  mlir::LogicalResult copy(const ImageBlock &block, mlir::Value firstChannel);
  WindowSource sourceOf(const ImageBlock &block);
  WindowTaps tapsOf(Dimension dimension, mlir::Value position, mlir::Value firstOfBlock);
  /// Indices of the leading dimensions of a tensor of images.
  llvm::SmallVector<mlir::Value> indicesOf(const ImageBlock &block, mlir::Value plane, mlir::Value row,
                                           mlir::Value column);

private:
  /// Positions of the input that so many neighbouring positions of the result read.
  int64_t reach(Dimension dimension, int64_t positions) const;
  /// The first position of the input that a position of the result reads, which may be before the image.
  mlir::Value firstRead(Dimension dimension, mlir::Value position);
  /// Positions that those of the result from one on and before the end read.
  mlir::Value countReads(Dimension dimension, mlir::Value first, mlir::Value end);
  mlir::LogicalResult copyRow(const ImageBlock &block, mlir::Value to, mlir::Value plane, mlir::Value row,
                              mlir::Value firstChannel);
  bool readsPlanes();
  mlir::LogicalResult copyPositions(mlir::Value to, Indices at);
  mlir::Value isInside(mlir::Value index, Dimension dimension);

  FunctionEmitter &function;
  TensorEmitter &tensors;
  MemoryEmitter memory;
  nn::ConvOp root;
  unsigned spatial;  ///< dimensions that windows move along
  unsigned trailing; ///< ones behind them, of one position each
  bool transposed;
  llvm::SmallVector<nn::WindowDimension, 3> windows;
  // Of the function that is being emitted.
  std::optional<Storage> input;
  mlir::Value scratch;
  int64_t channels = 0, rowElements = 0, planeElements = 0; ///< of scratch
};

} // namespace intarsia::cpu

#endif
