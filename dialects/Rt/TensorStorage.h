//===- TensorStorage.h - Tensors as layouts store them ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_RT_TENSORSTORAGE_H
#define INTARSIA_DIALECTS_RT_TENSORSTORAGE_H

#include "lib/Formats/DecodeBlocks.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>
#include <vector>

namespace intarsia::rt {

/// Elements in memory, `stride` elements apart, which need not be aligned.
struct StoredRun {
  const char *data;
  int64_t stride = 1;
};

/// How a layout stores a tensor: as pieces of equal size, each of whole rows.
class TensorStorage {
public:
  virtual ~TensorStorage() = default;

  /// The layout appends this suffix to the name of a tensor: ".panels32".
  std::string suffix;
  /// Element type and shape in the file.
  std::string dtype;
  std::vector<int64_t> shape;
  /// True if elements stand in row-major order, so that a piece may be any number of them.
  bool isInOrder = false;
  /// True if rows are stored as quantized values.
  bool isQuantized = false;
  int64_t pieces = 0, pieceBytes = 0;

  /// The rows that a piece stores, of the tensor's last dimension.
  struct Rows {
    int64_t first, last;
  };
  virtual Rows rowsOf(int64_t piece) const = 0;
  /// Stores the rows of a piece, whose memory is zero.
  virtual void storeRows(llvm::ArrayRef<StoredRun> rows, char *piece) const = 0;
  /// Initialises a piece of quantized values.
  virtual void clear(char *piece) const {}
  /// Stores a row of a piece as BlockCodec::encodeRow gives it.
  virtual void storeQuantized(llvm::ArrayRef<uint8_t> values, llvm::ArrayRef<uint8_t> scales, float tensorScale,
                              int64_t row, char *piece) const {}
  /// Stores a block of a row of a piece, the `number`th of the row.
  virtual void storeBlock(const gguf::BlockParts &parts, int64_t number, int64_t row, char *piece) const {}
};

/// The location in storage of a row of quantized values.
struct QuantizedTarget {
  const TensorStorage &storage;
  int64_t row; ///< of the piece
  char *piece;
};

} // namespace intarsia::rt

#endif
