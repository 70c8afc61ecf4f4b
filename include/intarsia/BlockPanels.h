//===- BlockPanels.h - How the codes of a quantized weight lie in memory ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A matrix [N, K] in a block format, as kernels read it: ceil(N / 32) panels of 32 rows (output features, the columns
// of the product), one after another.
//
//   panel   head, then units along K
//   head    per row what holds for all of K: the scale of formats with one for the row; the scale of the tensor (f32)
//           where the format has one. Else empty.
//   unit    `unitDepth` k's: the scales of its blocks [block][row], then its steps
//   step    32 k's of 32 rows; for each half of the rows (0 to 15, 16 to 31) lines of 64 bytes. The four bytes of a row
//           are neighbours, as instructions that add up four products of bytes want them.
//           4 bits: line i of 4, byte row * 4 + j: k = 4 i + j in the low bits, k = 16 + 4 i + j in the high ones
//           8 bits: line i of 8, byte row * 4 + j: k = 4 i + j
//
// Everything begins at a multiple of 64 bytes. Integer codes are stored with an offset that makes them unsigned. Rows
// beyond N and k's beyond K are zeros of the format.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_BLOCKPANELS_H
#define INTARSIA_BLOCKPANELS_H

#include "dialects/Nn/Nn.h"
#include <optional>

namespace intarsia {

/// Sizes in bytes unless the name says other.
struct BlockPanels {
  static constexpr int64_t rows = 32;      ///< of a panel: weightPanelWidth
  static constexpr int64_t stepDepth = 32; ///< k's of a step

  /// The panels of rows of `depth` numbers; none for formats that no kernel reads: those along another axis than the
  /// last, and elements that are neither 4-bit integers or e2m1 nor 8-bit integers.
  static std::optional<BlockPanels> of(nn::BlockFormatAttr format, int64_t depth);

  nn::BlockFormatAttr format;
  int64_t depth;      ///< k's
  int64_t codeBits;   ///< 4 or 8
  int64_t scaleBytes; ///< of one scale
  int64_t block;      ///< k's that share a scale; 0: all
  int64_t unitDepth;  ///< k's
  int64_t unitScaleBytes, unitBytes;
  int64_t headBytes;
  int64_t units;

  int64_t stepBytes() const { return rows * stepDepth * codeBits / 8; }
  int64_t steps() const { return units * unitDepth / stepDepth; }
  int64_t panelBytes() const { return headBytes + units * unitBytes; }
  /// What is added to integer codes when they are stored.
  int64_t codeOffset() const;

  /// Where a step's codes begin, from the beginning of its panel.
  int64_t stepBegin(int64_t step) const;
  /// Where the scales of the step's first block begin, from the beginning of its panel.
  int64_t scalesBegin(int64_t step) const;

  /// Puts a row of a panel where it belongs: what BlockCodec::encodeRow gives. `panel` was zeroed by `clear`.
  void store(llvm::ArrayRef<uint8_t> codes, llvm::ArrayRef<uint8_t> scales, float tensorScale, int64_t row,
             uint8_t *panel) const;
  /// Makes all rows of a panel zeros of the format.
  void clear(uint8_t *panel) const;
};

} // namespace intarsia

#endif
