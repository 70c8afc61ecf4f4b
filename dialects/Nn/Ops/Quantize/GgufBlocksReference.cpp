//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Layouts: block_q4_0, block_q4_K, … in ggml-common.h of https://github.com/ggml-org/ggml. The operations and their
// order are those of quants.dequantize in the `gguf` package, so that the values are equal bit for bit.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"
#include "lib/Formats/Codebooks.h"

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
  Value levels, scales;   ///< tables of the format, that of a codebook in `levels`; null if it has none

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

//===-- Blocks of 256 with codebooks ---------------------------------------------------------------------------===//

Integer fourBytes(const Block &block, Integer offset) {
  return block.byte(offset) | block.byte(offset + 1) << 8 | block.byte(offset + 2) << 16 | block.byte(offset + 3) << 24;
}

/// Sign i of eight as 1 or -1. Seven are the bits of a number, the eighth makes the count of minuses even.
Integer evenSign(Integer number, Integer i) {
  Integer folded = number ^ number >> 4;
  folded = folded ^ folded >> 2;
  Integer parity = (folded ^ folded >> 1) & 1;
  return 1 - ((number | parity << 7) >> i & 1) * 2;
}

Integer storedSign(const Block &block, int64_t offset, Integer i) {
  return 1 - (block.byte(offset + i / 8) >> (i % 8) & 1) * 2;
}

/// `half * (0.5 + number) * step`, the scale of a part.
Value fineScale(const Block &block, Integer number, float step) {
  Value steps = block.b.add(block.b.f32(0.5f), block.b.toFloat(number));
  return block.b.mul(block.b.mul(block.half(0), steps), block.b.f32(step));
}

/// The scale of 16 values of iq2_xs and iq2_s.
Value scaleOf16(const Block &block, int64_t offset, Integer i) {
  return fineScale(block, block.byte(offset + i / 32) >> (i % 32 / 16 * 4) & 15, 0.25f);
}

Value decodeIQ2_XXS(const Block &block, Integer i) {
  Integer part = i / 32 * 8 + 2, packed = fourBytes(block, part + 4);
  Value level = block.level(block.byte(part + i % 32 / 8) * 8 + i % 8);
  Integer sign = evenSign(packed >> (i % 32 / 8 * 7) & 127, i % 8);
  return block.times(block.b.mul(fineScale(block, packed >> 28, 0.25f), level), sign);
}

Value decodeIQ2_XS(const Block &block, Integer i) {
  Integer at = i / 8 * 2 + 2, packed = block.byte(at) | block.byte(at + 1) << 8;
  Value level = block.level((packed & 511) * 8 + i % 8);
  return block.times(block.b.mul(scaleOf16(block, 66, i), level), evenSign(packed >> 9, i % 8));
}

Value decodeIQ2_S(const Block &block, Integer i) {
  Integer high = block.byte(66 + i / 32) >> (i % 32 / 8 * 2) & 3;
  Value level = block.level((block.byte(2 + i / 8) | high << 8) * 8 + i % 8);
  return block.times(block.b.mul(scaleOf16(block, 74, i), level), storedSign(block, 34, i));
}

Value decodeIQ3_XXS(const Block &block, Integer i) {
  Integer packed = fourBytes(block, 66 + i / 32 * 4);
  Value level = block.level(block.byte(2 + i / 4) * 4 + i % 4);
  Integer sign = evenSign(packed >> (i % 32 / 8 * 7) & 127, i % 8);
  return block.times(block.b.mul(fineScale(block, packed >> 28, 0.5f), level), sign);
}

Value decodeIQ3_S(const Block &block, Integer i) {
  Integer high = block.byte(66 + i / 32) >> (i % 32 / 4) & 1;
  Value level = block.level((block.byte(2 + i / 4) | high << 8) * 4 + i % 4);
  Value scale = block.times(block.half(0), (block.byte(106 + i / 64) >> (i % 64 / 32 * 4) & 15) * 2 + 1);
  return block.times(block.b.mul(scale, level), storedSign(block, 74, i));
}

/// `scale * (level + 1/8)`, or minus an eighth if a bit is set.
Value movedLevel(const Block &block, Value scale, Integer vector, Integer isDown, Integer i) {
  Value move = block.b.mul(block.b.toFloat(1 - isDown * 2), block.b.f32(0.125f));
  return block.b.mul(scale, block.b.add(block.level(vector * 8 + i % 8), move));
}

Value decodeIQ1_S(const Block &block, Integer i) {
  Integer at = i / 32 * 2 + 34, packed = block.byte(at) | block.byte(at + 1) << 8;
  Integer vector = block.byte(2 + i / 8) | (packed >> (i % 32 / 8 * 3) & 7) << 8;
  Value scale = block.times(block.half(0), (packed >> 12 & 7) * 2 + 1);
  return movedLevel(block, scale, vector, packed >> 15, i);
}

Value decodeIQ1_M(const Block &block, Integer i) {
  auto scales = [&](Integer quarter) { return block.byte(48 + quarter * 2) | block.byte(49 + quarter * 2) << 8; };
  Integer half = block.twoBytes(48) >> 12 | block.twoBytes(50) >> 12 << 4 | block.twoBytes(52) >> 12 << 8 |
                 block.twoBytes(54) >> 12 << 12;
  Integer packed = block.byte(32 + i / 16) >> (i % 16 / 8 * 4) & 15;
  Integer vector = block.byte(i / 8) | (packed & 7) << 8;
  Integer scale = scales(i / 64) >> (i % 64 / 16 * 3) & 7;
  return movedLevel(block, block.times(block.b.halfToFloat(half), scale * 2 + 1), vector, packed >> 3, i);
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
  const float *levels = nullptr; ///< 16 without a codebook
  float (*scaleOf)(uint8_t bits) = nullptr;
  ArrayRef<uint16_t> codebook = {}; ///< vectors of levels
  unsigned bits = 0;                ///< of a level in it
};

constexpr float levelsOfIQ1[4] = {-1, 0, 1}, levelsOfIQ2[4] = {8, 25, 43};
constexpr float levelsOfIQ3XXS[8] = {4, 12, 20, 28, 36, 44, 52, 62}, levelsOfIQ3S[8] = {1, 3, 5, 7, 9, 11, 13, 15};

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
    {"iq1_s", decodeIQ1_S, levelsOfIQ1, nullptr, gguf::codebooks::iq1, 2},
    {"iq1_m", decodeIQ1_M, levelsOfIQ1, nullptr, gguf::codebooks::iq1, 2},
    {"iq2_xxs", decodeIQ2_XXS, levelsOfIQ2, nullptr, gguf::codebooks::iq2_xxs, 2},
    {"iq2_xs", decodeIQ2_XS, levelsOfIQ2, nullptr, gguf::codebooks::iq2_xs, 2},
    {"iq2_s", decodeIQ2_S, levelsOfIQ2, nullptr, gguf::codebooks::iq2_s, 2},
    {"iq3_xxs", decodeIQ3_XXS, levelsOfIQ3XXS, nullptr, gguf::codebooks::iq3_xxs, 4},
    {"iq3_s", decodeIQ3_S, levelsOfIQ3S, nullptr, gguf::codebooks::iq3_s, 4},
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
  if (!format.codebook.empty()) {
    SmallVector<float> values;
    for (uint16_t vector : format.codebook)
      for (unsigned i = 0; i != 16; i += format.bits)
        values.push_back(format.levels[vector >> i & ((1 << format.bits) - 1)]);
    levels = builder.table(values);
  } else if (format.levels) {
    levels = builder.table(ArrayRef(format.levels, 16));
  }
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
