//===- BlockPanels.h - How the values of a quantized weight lie in memory ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A matrix [N, K] in a block format, as kernels read it: panels of 32 rows (output features, the columns of the
// GEMM), or of another multiple of 16 rows, one after another.
//
//   panel   head, then units along K
//   head    the scales that hold for all of K, for each row: the scale of the row and the scale of the tensor (f32), if
//           the format has them; else empty
//   unit    `unitDepth` k's: the scales of its blocks, then its steps
//   scales  [block][row]; behind them minima [block][row] where the format has them. Formats with scales of scales have
//           scale [row] and minimum [row] of the unit in f16, then those of blocks as integers: 8 bits [block][row]; or
//           6 bits each, lower four bits of both in a byte [block][row] (the minimum's high), upper two of two blocks
//           in a byte [block / 2][row] (scale, minimum of the even block, then of the odd one, from the lowest bits on)
//   step    32 k's of all rows; for every 16 rows (0 to 15, 16 to 31) lines of 64 bytes. The four bytes of a row
//           are neighbours, as instructions that add up four products of bytes need them: byte row * 4 + j. Word w of 8
//           holds k = 4 w + j.
//           2 bits: line i of 2 with word 4 i + p in bits 2 p
//           4 bits: line i of 4, words i in the low bits and 4 + i in the high ones
//           5 bits: the lines of the lower four bits, then a line with the fifth bit of word w in bit w
//           6 bits: the lines of the lower four bits, then line i of 2 with the upper two of word 4 i + p in bits 2 p
//           8 bits: line i of 8, word i
//
// Everything begins at a multiple of 64 bytes; in panels of an odd number of 16 rows at one of 32 bytes, so that their
// units are no deeper than those of 32 rows. Integers are stored with an offset that makes them unsigned. Rows
// beyond N and k's beyond K are zeros of the format. Formats with zero points have them, negated and in the type of the
// scales, where others have minima: a minimum is their product with the scale, which f32 holds exactly.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_RT_BLOCKPANELS_H
#define INTARSIA_DIALECTS_RT_BLOCKPANELS_H

#include "dialects/Nn/Nn.h"
#include "lib/Formats/FloatFormats.h"
#include <optional>

namespace intarsia {

namespace gguf {
struct BlockParts;
}

/// The layout of the panels of one weight. Sizes are in bytes unless the name says otherwise.
struct BlockPanels : QuantizedBlocks {
  static constexpr int64_t rows = 32;      ///< rows of a panel of processors: two 512-bit vectors of f32
  static constexpr int64_t lineRows = 16;  ///< rows of a line
  static constexpr int64_t stepDepth = 32; ///< k's of a step
  static constexpr int64_t words = 8;      ///< words of a step, four k's each
  /// k's that share a scale of the block scales: QK_K of ggml.
  static constexpr int64_t superBlock = 256;

  /// Returns the layout of rows of `depth` values in the format of a matrix. Returns nullopt without a format; for one
  /// that has no QuantizedBlocks, or has them along another axis than the last; and for a width that is no multiple of
  /// 16.
  static std::optional<BlockPanels> of(BlockFormatAttrInterface format, int64_t depth, int64_t width = rows);

  /// Returns the format of elements that are floats; null for integers.
  const FloatFormat *floatFormat() const { return isE2M1 ? &floatE2M1 : isE4M3 ? &floatE4M3 : nullptr; }

  /// Returns the number of lines with the lower four bits of two words, 0 if elements have fewer bits. Elements have
  /// fewer than 8.
  int64_t lowLines() const { return elementBits < 4 ? 0 : words / 2; }
  /// Returns how many bits of an element lie in lines of their own, behind the low lines.
  int64_t highBits() const { return elementBits < 4 ? elementBits : elementBits - 4; }
  /// Returns the position of those bits in the element.
  int64_t highBegin() const { return elementBits < 4 ? 0 : 4; }

  bool hasZeroPoints = false; ///< minima are stored as zero points, negated
  int64_t width = rows;       ///< rows of a panel
  int64_t depth;              ///< k's
  int64_t scaleBytes;         ///< bytes of one `scale`
  int64_t unitDepth;          ///< k's
  int64_t unitScaleBytes, unitBytes;
  int64_t headBytes;
  int64_t units;

  /// Returns the number of bytes of which heads, scales of units and steps begin at a multiple.
  int64_t alignment() const { return width % rows == 0 ? 64 : 32; }
  int64_t stepBytes() const { return width * stepDepth * elementBits / 8; }
  int64_t steps() const { return units * unitDepth / stepDepth; }
  int64_t panelBytes() const { return headBytes + units * unitBytes; }
  /// Returns the offset of the minima of type `scale` from the beginning of their unit.
  int64_t minimaBegin() const { return width * scaleBytes * (scaleBits ? 1 : unitDepth / block); }
  /// Returns the offset of the integer scales of blocks from the beginning of their unit.
  int64_t integersBegin() const { return width * scaleBytes * (hasMinima ? 2 : 1); }

  /// Returns the offset of a step's quantized values from the beginning of its panel.
  int64_t stepBegin(int64_t step) const;

  /// Stores a row, as BlockCodec::encodeRow gives it, into a panel, which clear() has initialised. Zero points, a byte
  /// for each block, follow the scales; without them they are 0.
  void store(llvm::ArrayRef<uint8_t> quantized, llvm::ArrayRef<uint8_t> scales, float tensorScale, int64_t row,
             uint8_t *panel) const;
  /// Stores a block of ggml into a panel, the `number`th of its row.
  void store(const gguf::BlockParts &parts, int64_t number, int64_t row, uint8_t *panel) const;
  /// Fills all rows of a panel with zeros of the format.
  void clear(uint8_t *panel) const;

private:
  /// Computes the sizes for rows of `k` values.
  void computeSizes(int64_t k);
  /// Stores a zero point of a block, whose scale lies at a byte of its unit.
  void storeZeroPoint(uint8_t zeroPoint, int64_t scaleOffset, uint8_t *unit) const;
  /// Stores the quantized values of a step.
  void storeStep(const uint8_t *quantized, int64_t step, int64_t row, uint8_t *panel) const;
};

} // namespace intarsia

#endif
