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

/// Returns true if blocks of weights in a format have zero points: integers without a sign.
inline bool haveZeroPoints(nn::BlockElement element) { return element == nn::BlockElement::U4; }
inline bool haveZeroPoints(nn::BlockFormatAttr weights) { return haveZeroPoints(weights.getElement()); }

/// Quantizes rows of f32 to values and scales of a block format, and dequantizes them: bit for bit the results of
/// `nn.quantize` and `nn.dequantize` along the last axis, at the speed of memory. Calls on one codec may run at the
/// same time.
///
/// Each quantized value and zero point has its own byte and uses the low bits (4, or 8; signed ones in two's
/// complement); the other bits are zero. Scales are the bytes of their type, little-endian, `scaleBytes()` each.
class BlockCodec {
public:
  /// Makes the codec of a combination that `nn.block_format` allows. `block`: elements that share a scale, 0 for the
  /// row.
  BlockCodec(nn::BlockElement element, nn::BlockScale scale, int64_t block, bool withZeroPoints = false);
  explicit BlockCodec(nn::BlockFormatAttr format, bool withZeroPoints = false)
      : BlockCodec(format.getElement(), format.getScale(), format.getBlock(), withZeroPoints) {}

  /// Returns the number of scales (and zero points) of a row with so many elements. The last block may be short.
  size_t blockCount(size_t rowSize) const { return block == 0 ? 1 : (rowSize + block - 1) / block; }
  size_t scaleBytes() const;
  /// Returns the number of zero points of a row with so many elements: 0 if the codec has none.
  size_t zeroPointCount(size_t rowSize) const { return withZeroPoints ? blockCount(rowSize) : 0; }
  /// Returns true if the format has a scale for the whole tensor: NVFP4.
  bool hasTensorScale() const { return element == nn::BlockElement::E2M1 && scale == nn::BlockScale::E4M3; }

  /// Returns the largest magnitude in a row; NaN or infinity if the row has one.
  static float largestMagnitude(llvm::ArrayRef<float> row);
  /// Returns NVFP4's scale of a tensor with this largest magnitude.
  static float tensorScaleOf(float largestMagnitude) { return largestMagnitude / (448.0f * 6.0f); }

  /// Encodes a row: quantized values [row], scales [blockCount * scaleBytes], and zero points [blockCount] if the codec
  /// has them. `tensorScale` is read if the format has one. Returns the index of the first value that cannot be
  /// quantized: NaN, infinity, or the largest of a block whose scale is too large for the type of scales; the outputs
  /// are then invalid.
  [[nodiscard]] std::optional<size_t> encodeRow(llvm::ArrayRef<float> row, float tensorScale,
                                                llvm::MutableArrayRef<uint8_t> quantized,
                                                llvm::MutableArrayRef<uint8_t> scales,
                                                llvm::MutableArrayRef<uint8_t> zeroPoints = {}) const;

  /// Decodes a row. Bits of a quantized value above those of the format are ignored.
  void decodeRow(llvm::ArrayRef<uint8_t> quantized, llvm::ArrayRef<uint8_t> scales, llvm::ArrayRef<uint8_t> zeroPoints,
                 float tensorScale, llvm::MutableArrayRef<float> row) const;

  /// Encodes numbers that are divided by their scales: the nearest elements, as encodeRow() rounds them.
  void encodeElements(llvm::ArrayRef<float> ratios, llvm::MutableArrayRef<uint8_t> quantized) const;
  /// Returns the number that a quantized value means, before scaling.
  float elementValue(uint8_t quantized) const { return elementValues[quantized]; }
  /// Writes the scale nearest to a wanted one (of E8M0 the power of two below it) and returns its value, multiplied by
  /// the tensor's scale if the format has one; infinity if it is too large for the type of scales.
  float encodeScale(float wanted, float tensorScale, uint8_t *bytes) const;

private:
  float readScale(const uint8_t *bytes) const;

  nn::BlockElement element;
  nn::BlockScale scale;
  size_t block;
  bool withZeroPoints;
  /// The decoded value of each byte.
  std::array<float, 256> elementValues;
  /// The decoded scale of each byte, for scales of one byte.
  std::array<float, 256> scaleValues;
};

} // namespace intarsia

#endif
