//===- GgufBlocks.cpp - Blocks of GGUF files as loops -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts: block_q4_0, block_q4_K, … in ggml-common.h of https://github.com/ggml-org/ggml. The operations and their
// order are those of quants.dequantize in the `gguf` package, so that the values are equal bit for bit.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Reference/OpReferences.h"

#include <algorithm>

using namespace mlir;

namespace intarsia::reference {
namespace {

/// The block that an element is in, inside the loop over the elements of the result.
struct Block {
  ScalarBuilder &b;
  Value blocks;
  SmallVector<Value> row; ///< indices of the row that the block is in
  Integer start;          ///< its first byte in the row
  Value levels, scales;   ///< tables of the format; null if it has none

  Integer byte(Integer offset) const {
    SmallVector<Value> indices = row;
    indices.push_back(start + offset);
    return b.toIndexUnsigned(tensor::ExtractOp::create(b, blocks, indices));
  }
  Integer twoBytes(int64_t offset) const { return byte(offset) | byte(offset + 1) << 8; }
  Integer signedByte(Integer offset) const { return (byte(offset) ^ 128) - 128; }
  /// Code i of those in pairs of 16 in 16 bytes: the first 16 are in the low halves.
  Integer nibble(Integer offset, Integer i) const { return byte(offset + i % 16) >> (i / 16 * 4) & 15; }
  Value half(int64_t offset) const { return b.halfToFloat(twoBytes(offset)); }
  Value level(Integer quantized) const { return b.lookUp(levels, quantized); }
  Value scale(Integer quantized) const { return b.lookUp(scales, quantized); }
  Value times(Value scale, Integer quantized) const { return b.mul(scale, b.toFloat(quantized)); }
};

//===-- Blocks of 32 -------------------------------------------------------------------------------------------===//

Value decodeQ4_0(const Block &block, Integer i) { return block.times(block.half(0), block.nibble(2, i) - 8); }

Value decodeQ4_1(const Block &block, Integer i) {
  return block.b.add(block.times(block.half(0), block.nibble(4, i)), block.half(2));
}

/// Four low bits behind the 32 fifth bits, which begin at `offset`.
Integer fiveBits(const Block &block, int64_t offset, Integer i) {
  return block.nibble(offset + 4, i) | (block.byte(offset + i / 8) >> (i % 8) & 1) << 4;
}

Value decodeQ5_0(const Block &block, Integer i) { return block.times(block.half(0), fiveBits(block, 2, i) - 16); }

Value decodeQ5_1(const Block &block, Integer i) {
  return block.b.add(block.times(block.half(0), fiveBits(block, 4, i)), block.half(2));
}

Value decodeQ8_0(const Block &block, Integer i) { return block.times(block.half(0), block.signedByte(2 + i)); }

Value decodeIQ4_NL(const Block &block, Integer i) {
  return block.b.mul(block.half(0), block.level(block.nibble(2, i)));
}

Value decodeMXFP4(const Block &block, Integer i) {
  return block.b.mul(block.scale(block.byte(0)), block.level(block.nibble(1, i)));
}

//===-- Blocks of 64 and 256 -----------------------------------------------------------------------------------===//

Value decodeNVFP4(const Block &block, Integer i) {
  Integer quantized = block.byte(4 + i / 16 * 8 + i % 8) >> (i % 16 / 8 * 4) & 15;
  return block.b.mul(block.scale(block.byte(i / 16)), block.level(quantized));
}

/// The two bits of element i; 128 elements share 32 bytes.
Integer twoBits(const Block &block, int64_t offset, Integer i) {
  return block.byte(offset + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
}

/// The four bits of element i; 64 elements share 32 bytes.
Integer fourBits(const Block &block, int64_t offset, Integer i) {
  return block.byte(offset + i / 64 * 32 + i % 32) >> (i % 64 / 32 * 4) & 15;
}

Value decodeQ2_K(const Block &block, Integer i) {
  Integer packed = block.byte(i / 16);
  Value scale = block.times(block.half(80), packed & 15), minimum = block.times(block.half(82), packed >> 4);
  return block.b.sub(block.times(scale, twoBits(block, 16, i)), minimum);
}

Value decodeQ3_K(const Block &block, Integer i) {
  Integer part = i / 16;
  Integer low = block.byte(96 + part % 8) >> (part / 8 * 4) & 15,
          high = block.byte(104 + part % 4) >> (part / 4 * 2) & 3;
  Value scale = block.times(block.half(108), (low | high << 4) - 32);
  Integer isHigh = block.byte(i % 32) >> (i / 32) & 1;
  return block.times(scale, twoBits(block, 32, i) - 4 + isHigh * 4);
}

/// `scale * quantized - minimum` with the scales and minima of 32 elements each that q4_k and q5_k begin with.
Value withMinimum(const Block &block, Integer i, Integer quantized) {
  Integer part = i / 32, pair = part % 4, isFirst = part < 4;
  Integer a = block.byte(4 + pair), c = block.byte(8 + pair), both = block.byte(12 + pair);
  Integer scaleCode = choose(isFirst, a & 63, (both & 15) | (a >> 2 & 48));
  Integer minimumCode = choose(isFirst, c & 63, both >> 4 | (c >> 2 & 48));
  Value scale = block.times(block.half(0), scaleCode), minimum = block.times(block.half(2), minimumCode);
  return block.b.sub(block.times(scale, quantized), minimum);
}

Value decodeQ4_K(const Block &block, Integer i) { return withMinimum(block, i, fourBits(block, 16, i)); }

Value decodeQ5_K(const Block &block, Integer i) {
  Integer high = block.byte(16 + i % 32) >> (i / 32) & 1;
  return withMinimum(block, i, fourBits(block, 48, i) | high << 4);
}

Value decodeQ6_K(const Block &block, Integer i) {
  Integer low = block.byte(i / 128 * 64 + i % 64) >> (i % 128 / 64 * 4) & 15;
  Integer high = block.byte(128 + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
  Value scale = block.times(block.half(208), block.signedByte(192 + i / 16));
  return block.times(scale, (low | high << 4) - 32);
}

/// Five values in a byte; the block has runs of 32, 16 and 4 bytes, each of which holds the values of one digit in base
/// 3 one after another. The power of 3 moves a digit to the front, in 8 bits; times 3 it is carried out of them.
Value decodeTQ1_0(const Block &block, Integer i) {
  constexpr int64_t ofFirst = 32 * 5, ofSecond = 16 * 5;
  Integer isFirst = i < ofFirst, isSecond = i < ofFirst + ofSecond;
  Integer inSecond = i - ofFirst, inLast = i - (ofFirst + ofSecond);
  Integer digit = choose(isFirst, i / 32, choose(isSecond, inSecond / 16, inLast / 4));
  Integer byte = choose(isFirst, i % 32, choose(isSecond, inSecond % 16 + 32, inLast % 4 + 48));
  Integer power = {block.b, block.b.index(81)};
  for (auto [number, value] : {std::pair<int64_t, int64_t>{3, 27}, {2, 9}, {1, 3}, {0, 1}})
    power = choose(digit <= number, value, power);
  return block.times(block.half(52), ((block.byte(byte) * power & 255) * 3 >> 8) - 1);
}

Value decodeTQ2_0(const Block &block, Integer i) { return block.times(block.half(64), twoBits(block, 0, i) - 1); }

Value decodeIQ4_XS(const Block &block, Integer i) {
  Integer part = i / 32, low = block.byte(4 + part / 2) >> (part % 2 * 4) & 15;
  Integer high = block.twoBytes(2) >> (part * 2) & 3;
  Value scale = block.times(block.half(0), (low | high << 4) - 32);
  return block.b.mul(scale, block.level(block.nibble(8 + part * 16, i % 32)));
}

//===-- Values without scales ----------------------------------------------------------------------------------===//

Value floatOf(const Block &block, Integer bits) {
  Value narrow = arith::IndexCastOp::create(block.b, block.b.getI32Type(), bits);
  return block.b.fromBits(narrow);
}

Value decodeF32(const Block &block, Integer) { return floatOf(block, block.twoBytes(0) | block.twoBytes(2) << 16); }
Value decodeF16(const Block &block, Integer) { return block.half(0); }
Value decodeBF16(const Block &block, Integer) { return floatOf(block, block.twoBytes(0) << 16); }

//===-- The table of formats -----------------------------------------------------------------------------------===//

constexpr float fourBitFloats[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; // E2M1, doubled
constexpr float nonlinearLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Half of an E8M0 scale: the levels of E2M1 are doubled. In this format 255 is 2^128, not NaN.
float halfOfE8M0(uint8_t bits) { return bits == 255 ? 0x1p127f : nn::decodeScale(nn::BlockScale::E8M0, bits) / 2; }

/// Half of an E4M3 scale without its sign. The bit pattern of NaN means zero in this format, and 480 with a sign.
float halfOfUnsignedE4M3(uint8_t bits) {
  if ((bits & 0x7f) == 0x7f)
    return bits == 0x7f ? 0 : 240;
  return nn::decodeScale(nn::BlockScale::E4M3, bits & 0x7f) / 2;
}

struct Format {
  std::string_view keyword;
  Value (*decode)(const Block &block, Integer i);
  const float *levels = nullptr; ///< 16
  float (*scaleOf)(uint8_t bits) = nullptr;
};

constexpr Format formats[] = {
    {"f32", decodeF32},
    {"f16", decodeF16},
    {"bf16", decodeBF16},
    {"q4_0", decodeQ4_0},
    {"q4_1", decodeQ4_1},
    {"q5_0", decodeQ5_0},
    {"q5_1", decodeQ5_1},
    {"q8_0", decodeQ8_0},
    {"q2_k", decodeQ2_K},
    {"q3_k", decodeQ3_K},
    {"q4_k", decodeQ4_K},
    {"q5_k", decodeQ5_K},
    {"q6_k", decodeQ6_K},
    {"tq1_0", decodeTQ1_0},
    {"tq2_0", decodeTQ2_0},
    {"iq4_nl", decodeIQ4_NL, nonlinearLevels},
    {"iq4_xs", decodeIQ4_XS, nonlinearLevels},
    {"mxfp4", decodeMXFP4, fourBitFloats, halfOfE8M0},
    {"nvfp4", decodeNVFP4, fourBitFloats, halfOfUnsignedE4M3},
};

constexpr const Format *formatOf(const GgmlType &type) {
  for (const Format &format : formats)
    if (format.keyword == type.keyword)
      return &format;
  return nullptr;
}
static_assert(std::ranges::all_of(ggmlTypes,
                                  [](const GgmlType &type) { return type.isDecoded == (formatOf(type) != nullptr); }));

} // namespace

Value buildDequantizedBlocks(ReferenceBuilder &builder, Value blocks, const GgmlType &type) {
  const Format &format = *formatOf(type);
  Value levels, scales;
  if (format.levels)
    levels = builder.table(ArrayRef(format.levels, 16));
  if (format.scaleOf) {
    SmallVector<float> values;
    for (unsigned bits = 0; bits != 256; ++bits)
      values.push_back(format.scaleOf(bits));
    scales = builder.table(values);
  }
  MixedSizes sizes = builder.sizesOf(blocks);
  sizes.back() = builder.scaled(sizes.back(), type.bytes, type.elements);
  return builder.parallel(sizes, builder.getF32Type(), {}, [&](ScalarBuilder &b, ValueRange) {
    SmallVector<Value> row;
    for (unsigned dimension = 0; dimension + 1 != sizes.size(); ++dimension)
      row.push_back(b.indexOf(dimension));
    Integer element = b.indexOf(sizes.size() - 1);
    Block block = {b, blocks, row, element / type.elements * type.bytes, levels, scales};
    return format.decode(block, element % type.elements);
  });
}

} // namespace intarsia::reference
