//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_QUANTIZE_BLOCKCODEC_H
#define INTARSIA_QUANTIZE_BLOCKCODEC_H

#include "dialects/Nn/Nn.h"
#include "llvm/ADT/ArrayRef.h"
#include <array>
#include <optional>

namespace intarsia {

/// Rows of f32 as codes and scales of a block format, and back: the numbers of `nn.quantize` and `nn.dequantize` along
/// the last axis, bit for bit, at the speed of memory. Calls on one codec may run at the same time.
///
/// Codes and zero points lie one in a byte, in its low bits (4, or 8; signed ones in two's complement), the others
/// zero. Scales are the bytes of their type, little-endian, `scaleBytes()` each.
class BlockCodec {
public:
  /// A combination that `nn.block_format` knows. `block` is the number of elements that share a scale, 0 for the row.
  BlockCodec(nn::BlockElement element, nn::BlockScale scale, int64_t block, bool withZeroPoints = false);
  explicit BlockCodec(nn::BlockFormatAttr format, bool withZeroPoints = false)
      : BlockCodec(format.getElement(), format.getScale(), format.getBlock(), withZeroPoints) {}

  /// Scales (and zero points) of a row with so many elements. The last block may be short.
  size_t blockCount(size_t rowSize) const { return block == 0 ? 1 : (rowSize + block - 1) / block; }
  size_t scaleBytes() const;
  /// Whether a scale for the whole tensor belongs to the format: NVFP4.
  bool hasTensorScale() const { return element == nn::BlockElement::E2M1 && scale == nn::BlockScale::E4M3; }

  /// Returns the largest magnitude in a row; NaN or infinity if the row has one.
  static float largestMagnitude(llvm::ArrayRef<float> row);
  /// NVFP4's scale of a tensor with this largest magnitude.
  static float tensorScaleOf(float largestMagnitude) { return largestMagnitude / (448.0f * 6.0f); }

  /// Codes [row], scales [blockCount * scaleBytes], and zero points [blockCount] where the codec has them.
  /// `tensorScale` is read if the format has one. Gives the index of the first number that has no code: NaN, infinity,
  /// or the largest of a block whose scale is too large for the type of scales; what was written is then no row.
  [[nodiscard]] std::optional<size_t> encodeRow(llvm::ArrayRef<float> row, float tensorScale,
                                                llvm::MutableArrayRef<uint8_t> codes,
                                                llvm::MutableArrayRef<uint8_t> scales,
                                                llvm::MutableArrayRef<uint8_t> zeroPoints = {}) const;

  /// The inverse. Bits of a code above those of the format are ignored.
  void decodeRow(llvm::ArrayRef<uint8_t> codes, llvm::ArrayRef<uint8_t> scales, llvm::ArrayRef<uint8_t> zeroPoints,
                 float tensorScale, llvm::MutableArrayRef<float> row) const;

private:
  float readScale(const uint8_t *bytes) const;

  nn::BlockElement element;
  nn::BlockScale scale;
  size_t block;
  bool withZeroPoints;
  /// Decoded numbers of all bytes.
  std::array<float, 256> numbers;
  /// Decoded scales of all bytes, where scales have one.
  std::array<float, 256> scaleNumbers;
};

} // namespace intarsia

#endif
