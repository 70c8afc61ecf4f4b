//===- Layouts.h - Tensors as layouts store them ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_ASSEMBLE_LAYOUTS_H
#define INTARSIA_LIB_ASSEMBLE_LAYOUTS_H

#include "dialects/Rt/Rt.h"
#include "lib/Formats/DecodeBlocks.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace intarsia::assemble {

/// Elements in memory, `stride` elements apart, which need not be aligned.
struct StoredRun {
  const char *data;
  int64_t stride = 1;
};

/// How a layout stores a tensor: as pieces of equal size, each of whole rows.
class TensorStorage {
public:
  virtual ~TensorStorage() = default;

  /// What the layout adds to the name of a tensor: ".panels32".
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

/// The place of a row of quantized values.
struct QuantizedTarget {
  const TensorStorage &storage;
  int64_t row; ///< of the piece
  char *piece;
};

/// Returns the storage of a tensor of `type`, whose elements the archive calls `dtype`.
llvm::Expected<std::unique_ptr<TensorStorage>> makeStorage(rt::LayoutAttr layout, mlir::RankedTensorType type,
                                                           llvm::StringRef dtype);

/// Returns the product of sizes, nullopt if it does not fit in 64 bits.
std::optional<int64_t> productOf(llvm::ArrayRef<int64_t> sizes);

} // namespace intarsia::assemble

#endif
