//===- DecodeBlocks.cpp - The values that blocks of GGUF files mean -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts: block_q4_0, block_q4_K, … in ggml-common.h of https://github.com/ggml-org/ggml. Products are rounded before
// they are added to, as ggml does: this file is compiled without contraction to fused multiply-add.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/DecodeBlocks.h"

#include "lib/Formats/Codebooks.h"
#include "lib/Formats/FloatFormats.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace intarsia::gguf {
namespace {

uint16_t twoBytes(const uint8_t *bytes) { return bytes[0] | bytes[1] << 8; }

float halfToFloat(const uint8_t *bytes) { return decodeF16(twoBytes(bytes)); }

/// Returns half of an E8M0 scale: the values of MXFP4 are doubled to be integers. In this format 255 is 2^128, not NaN.
float halfOfE8M0(uint8_t e) { return e == 255 ? 0x1p127f : decodeE8M0(e) / 2; }

/// Half of the value of an E4M3 scale, whose sign is not read. In this format the bit pattern of NaN means zero, and
/// with the sign 480, the number that the pattern would be if the format had no NaN.
float halfOfUnsignedE4M3(uint8_t pattern) {
  if ((pattern & 0x7f) == 0x7f)
    return pattern == 0x7f ? 0 : 240;
  return decodeFloat(floatE4M3, pattern & 0x7f) / 2;
}

constexpr int8_t fourBitFloats[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; // E2M1, doubled
constexpr int8_t nonlinearLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Unpacks 32 values of four bits; the first 16 are in the low halves of the bytes.
void takeNibbles(const uint8_t *packed, uint8_t *quantized) {
  for (unsigned i = 0; i < 32; ++i)
    quantized[i] = packed[i % 16] >> (i / 16 * 4) & 15;
}

/// Returns the two bits of element i of 256; 128 elements share 32 bytes.
int twoBits(const uint8_t *quantized, unsigned i) { return quantized[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }

void takeQ4_0(const uint8_t *block, BlockParts &parts) {
  parts.scale = twoBytes(block);
  takeNibbles(block + 2, parts.quantized);
}

void takeQ4_1(const uint8_t *block, BlockParts &parts) {
  parts.scale = twoBytes(block);
  parts.minimum = twoBytes(block + 2);
  takeNibbles(block + 4, parts.quantized);
}

void takeQ8_0(const uint8_t *block, BlockParts &parts) {
  parts.scale = twoBytes(block);
  for (unsigned i = 0; i < 32; ++i)
    parts.quantized[i] = block[2 + i] ^ 128;
}

/// Five values in a byte: 256 / 243 of the number with these digits in base 3, rounded up. Multiplied by a power of 3
/// in 8 bits, the byte has a digit in front, which its product with 3 carries into the bits above.
void takeTQ1_0(const uint8_t *block, BlockParts &parts) {
  constexpr uint8_t powers[5] = {1, 3, 9, 27, 81};
  constexpr struct {
    unsigned bytes, digits;
  } runs[] = {{32, 5}, {16, 5}, {4, 4}};
  parts.scale = twoBytes(block + 52);
  uint8_t *quantized = parts.quantized;
  for (auto [bytes, digits] : runs) {
    for (unsigned i = 0; i < bytes * digits; ++i)
      *quantized++ = uint8_t(block[i % bytes] * powers[i / bytes]) * 3 >> 8;
    block += bytes;
  }
}

void takeTQ2_0(const uint8_t *block, BlockParts &parts) {
  parts.scale = twoBytes(block + 64);
  for (unsigned i = 0; i < 256; ++i)
    parts.quantized[i] = twoBits(block, i);
}

void takeMXFP4(const uint8_t *block, BlockParts &parts) {
  parts.scale = block[0];
  takeNibbles(block + 1, parts.quantized);
}

void takeScalesAndMinima(const uint8_t *block, BlockParts &parts) {
  parts.scale = twoBytes(block);
  parts.minimum = twoBytes(block + 2);
  const uint8_t *packed = block + 4;
  for (unsigned i = 0; i < 4; ++i) {
    parts.scales[i] = packed[i] & 63;
    parts.minima[i] = packed[i + 4] & 63;
    parts.scales[i + 4] = (packed[i + 8] & 15) | (packed[i] >> 2 & 48);
    parts.minima[i + 4] = packed[i + 8] >> 4 | (packed[i + 4] >> 2 & 48);
  }
}

void takeQ4_K(const uint8_t *block, BlockParts &parts) {
  takeScalesAndMinima(block, parts);
  for (unsigned i = 0; i < 256; ++i)
    parts.quantized[i] = block[16 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

void takeQ5_K(const uint8_t *block, BlockParts &parts) {
  takeScalesAndMinima(block, parts);
  for (unsigned i = 0; i < 256; ++i) {
    int low = block[48 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15, high = block[16 + i % 32] >> (i / 32) & 1;
    parts.quantized[i] = low | high << 4;
  }
}

void takeQ6_K(const uint8_t *block, BlockParts &parts) {
  parts.scale = twoBytes(block + 208);
  std::memcpy(parts.scales, block + 192, 16);
  for (unsigned i = 0; i < 256; ++i) {
    int low = block[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
    int high = block[128 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    parts.quantized[i] = low | high << 4;
  }
}

void decodeQ4_0(const uint8_t *block, float *values) {
  BlockParts parts;
  takeQ4_0(block, parts);
  float d = decodeF16(parts.scale);
  for (unsigned i = 0; i < 32; ++i)
    values[i] = d * float(int(parts.quantized[i]) - 8);
}

void decodeQ4_1(const uint8_t *block, float *values) {
  BlockParts parts;
  takeQ4_1(block, parts);
  float d = decodeF16(parts.scale), m = decodeF16(parts.minimum);
  for (unsigned i = 0; i < 32; ++i)
    values[i] = d * float(parts.quantized[i]) + m;
}

void decodeQ5_0(const uint8_t *block, float *values) {
  float d = halfToFloat(block);
  for (unsigned i = 0; i < 32; ++i) {
    int high = block[2 + i / 8] >> (i % 8) & 1, low = block[6 + i % 16] >> (i / 16 * 4) & 15;
    values[i] = d * float((low | high << 4) - 16);
  }
}

void decodeQ5_1(const uint8_t *block, float *values) {
  float d = halfToFloat(block), m = halfToFloat(block + 2);
  for (unsigned i = 0; i < 32; ++i) {
    int high = block[4 + i / 8] >> (i % 8) & 1, low = block[8 + i % 16] >> (i / 16 * 4) & 15;
    values[i] = d * float(low | high << 4) + m;
  }
}

void decodeQ8_0(const uint8_t *block, float *values) {
  BlockParts parts;
  takeQ8_0(block, parts);
  float d = decodeF16(parts.scale);
  for (unsigned i = 0; i < 32; ++i)
    values[i] = float(int(parts.quantized[i]) - 128) * d;
}

void decodeQ2_K(const uint8_t *block, float *values) {
  const uint8_t *scales = block, *quantized = block + 16;
  float d = halfToFloat(block + 80), dmin = halfToFloat(block + 82);
  for (unsigned i = 0; i < 256; ++i) {
    float scale = d * float(scales[i / 16] & 15), minimum = dmin * float(scales[i / 16] >> 4);
    values[i] = scale * float(twoBits(quantized, i)) - minimum;
  }
}

void decodeQ3_K(const uint8_t *block, float *values) {
  const uint8_t *mask = block, *quantized = block + 32, *packed = block + 96;
  float d = halfToFloat(block + 108);
  for (unsigned i = 0; i < 256; ++i) {
    unsigned part = i / 16;
    int low = packed[part % 8] >> (part / 8 * 4) & 15, high = packed[8 + part % 4] >> (part / 4 * 2) & 3;
    float scale = d * float((low | high << 4) - 32);
    int isHigh = mask[i % 32] >> (i / 32) & 1;
    values[i] = scale * float(twoBits(quantized, i) - (isHigh ? 0 : 4));
  }
}

void decodeWithMinima(const BlockParts &parts, float *values) {
  float d = decodeF16(parts.scale), dmin = decodeF16(parts.minimum);
  for (unsigned part = 0; part < 8; ++part) {
    float scale = d * float(parts.scales[part]), minimum = dmin * float(parts.minima[part]);
    for (unsigned i = 0; i < 32; ++i)
      values[part * 32 + i] = scale * float(parts.quantized[part * 32 + i]) - minimum;
  }
}

void decodeQ4_K(const uint8_t *block, float *values) {
  BlockParts parts;
  takeQ4_K(block, parts);
  decodeWithMinima(parts, values);
}

void decodeQ5_K(const uint8_t *block, float *values) {
  BlockParts parts;
  takeQ5_K(block, parts);
  decodeWithMinima(parts, values);
}

void decodeQ6_K(const uint8_t *block, float *values) {
  BlockParts parts;
  takeQ6_K(block, parts);
  float d = decodeF16(parts.scale);
  for (unsigned i = 0; i < 256; ++i) {
    float scale = d * float(int8_t(parts.scales[i / 16]));
    values[i] = scale * float(int(parts.quantized[i]) - 32);
  }
}

void decodeTernary(const BlockParts &parts, float *values) {
  float d = decodeF16(parts.scale);
  for (unsigned i = 0; i < 256; ++i)
    values[i] = d * float(int(parts.quantized[i]) - 1);
}

void decodeTQ1_0(const uint8_t *block, float *values) {
  BlockParts parts;
  takeTQ1_0(block, parts);
  decodeTernary(parts, values);
}

void decodeTQ2_0(const uint8_t *block, float *values) {
  BlockParts parts;
  takeTQ2_0(block, parts);
  decodeTernary(parts, values);
}

void decodeIQ4_NL(const uint8_t *block, float *values) {
  float d = halfToFloat(block);
  for (unsigned i = 0; i < 32; ++i)
    values[i] = d * float(nonlinearLevels[block[2 + i % 16] >> (i / 16 * 4) & 15]);
}

void decodeIQ4_XS(const uint8_t *block, float *values) {
  float d = halfToFloat(block);
  unsigned highs = block[2] | block[3] << 8;
  for (unsigned part = 0; part < 8; ++part) {
    int low = block[4 + part / 2] >> (part % 2 * 4) & 15, high = highs >> (2 * part) & 3;
    float scale = d * float((low | high << 4) - 32);
    for (unsigned i = 0; i < 32; ++i)
      values[part * 32 + i] = scale * float(nonlinearLevels[block[8 + part * 16 + i % 16] >> (i / 16 * 4) & 15]);
  }
}

uint32_t fourBytes(const uint8_t *bytes) { return twoBytes(bytes) | uint32_t(twoBytes(bytes + 2)) << 16; }

/// Returns the signs that a number of seven bits means: these, and an eighth that makes their count even.
uint8_t evenSigns(uint32_t index) { return index | (std::popcount(index) & 1) << 7; }

float withSign(float value, uint8_t signs, unsigned i) { return value * (signs >> i & 1 ? -1.0f : 1.0f); }

/// Decodes eight values: a vector of a codebook, times the scale, with these signs.
void decodeIQ2(uint16_t vector, float scale, uint8_t signs, float *values) {
  constexpr float levels[4] = {8, 25, 43};
  for (unsigned i = 0; i < 8; ++i)
    values[i] = withSign(scale * levels[vector >> 2 * i & 3], signs, i);
}

void decodeIQ2_XXS(const uint8_t *block, float *values) {
  float d = halfToFloat(block);
  for (unsigned part = 0; part < 8; ++part) {
    const uint8_t *vectors = block + 2 + 8 * part;
    uint32_t packed = fourBytes(vectors + 4);
    float scale = d * (0.5f + float(packed >> 28)) * 0.25f;
    for (unsigned i = 0; i < 4; ++i, values += 8)
      decodeIQ2(codebooks::iq2_xxs[vectors[i]], scale, evenSigns(packed >> 7 * i & 127), values);
  }
}

/// Returns the scale of 16 values of iq2_xs and iq2_s.
float scaleOfIQ2(const uint8_t *block, const uint8_t *scales, unsigned part) {
  return halfToFloat(block) * (0.5f + float(scales[part / 2] >> (part % 2 * 4) & 15)) * 0.25f;
}

void decodeIQ2_XS(const uint8_t *block, float *values) {
  for (unsigned i = 0; i < 32; ++i, values += 8) {
    uint16_t packed = twoBytes(block + 2 + 2 * i);
    decodeIQ2(codebooks::iq2_xs[packed & 511], scaleOfIQ2(block, block + 66, i / 2), evenSigns(packed >> 9), values);
  }
}

void decodeIQ2_S(const uint8_t *block, float *values) {
  for (unsigned i = 0; i < 32; ++i, values += 8) {
    unsigned high = block[66 + i / 4] >> (i % 4 * 2) & 3;
    decodeIQ2(codebooks::iq2_s[block[2 + i] | high << 8], scaleOfIQ2(block, block + 74, i / 2), block[34 + i], values);
  }
}

void decodeIQ3_XXS(const uint8_t *block, float *values) {
  constexpr float levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
  float d = halfToFloat(block);
  for (unsigned i = 0; i < 256; ++i) {
    uint32_t packed = fourBytes(block + 66 + i / 32 * 4);
    float scale = d * (0.5f + float(packed >> 28)) * 0.5f;
    uint16_t vector = codebooks::iq3_xxs[block[2 + i / 4]];
    uint8_t signs = evenSigns(packed >> (i % 32 / 8 * 7) & 127);
    values[i] = withSign(scale * levels[vector >> (i % 4 * 4) & 7], signs, i % 8);
  }
}

void decodeIQ3_S(const uint8_t *block, float *values) {
  float d = halfToFloat(block);
  for (unsigned i = 0; i < 256; ++i) {
    float scale = d * float(1 + 2 * (block[106 + i / 64] >> (i % 64 / 32 * 4) & 15));
    unsigned high = block[66 + i / 32] >> (i % 32 / 4) & 1;
    uint16_t vector = codebooks::iq3_s[block[2 + i / 4] | high << 8];
    values[i] = withSign(scale * float(1 + 2 * (vector >> (i % 4 * 4) & 7)), block[74 + i / 8], i % 8);
  }
}

/// Decodes eight values of iq1_s or iq1_m, whose levels -1, 0 and 1 are all moved by an eighth up or down.
void decodeIQ1(unsigned index, float scale, bool isDown, float *values) {
  for (unsigned i = 0; i < 8; ++i)
    values[i] = scale * (float(int(codebooks::iq1[index] >> 2 * i & 3) - 1) + (isDown ? -0.125f : 0.125f));
}

void decodeIQ1_S(const uint8_t *block, float *values) {
  float d = halfToFloat(block);
  for (unsigned i = 0; i < 32; ++i, values += 8) {
    uint16_t packed = twoBytes(block + 34 + i / 4 * 2);
    unsigned high = packed >> (i % 4 * 3) & 7;
    decodeIQ1(block[2 + i] | high << 8, d * float(2 * (packed >> 12 & 7) + 1), packed >> 15, values);
  }
}

void decodeIQ1_M(const uint8_t *block, float *values) {
  const uint8_t *scales = block + 48; // four times four scales of three bits, and four bits of the block's scale
  unsigned d = 0;
  for (unsigned i = 0; i < 4; ++i)
    d |= twoBytes(scales + 2 * i) >> 12 << 4 * i;
  for (unsigned i = 0; i < 32; ++i, values += 8) {
    unsigned part = i / 2, scale = twoBytes(scales + part / 4 * 2) >> (part % 4 * 3) & 7;
    unsigned packed = block[32 + i / 2] >> (i % 2 * 4) & 15;
    decodeIQ1(block[i] | (packed & 7) << 8, decodeF16(d) * float(2 * scale + 1), packed >> 3, values);
  }
}

void decodeMXFP4(const uint8_t *block, float *values) {
  BlockParts parts;
  takeMXFP4(block, parts);
  float d = halfOfE8M0(parts.scale);
  for (unsigned i = 0; i < 32; ++i)
    values[i] = d * float(fourBitFloats[parts.quantized[i]]);
}

void decodeNVFP4(const uint8_t *block, float *values) {
  for (unsigned part = 0; part < 4; ++part) {
    float d = halfOfUnsignedE4M3(block[part]);
    for (unsigned i = 0; i < 16; ++i)
      values[part * 16 + i] = d * float(fourBitFloats[block[4 + part * 8 + i % 8] >> (i / 8 * 4) & 15]);
  }
}

void decodeF32(const uint8_t *block, float *values) { std::memcpy(values, block, 4); }
void decodeHalf(const uint8_t *block, float *values) { *values = halfToFloat(block); }
void decodeBF16(const uint8_t *block, float *values) { *values = decodeBf16(twoBytes(block)); }

constexpr struct {
  std::string_view name;
  TakeApart takeApart;
} takers[] = {{"Q4_0", takeQ4_0}, {"Q4_1", takeQ4_1},   {"Q8_0", takeQ8_0},   {"Q4_K", takeQ4_K},  {"Q5_K", takeQ5_K},
              {"Q6_K", takeQ6_K}, {"TQ1_0", takeTQ1_0}, {"TQ2_0", takeTQ2_0}, {"MXFP4", takeMXFP4}};

using Decode = void (*)(const uint8_t *block, float *values);

constexpr struct {
  std::string_view name;
  Decode decode;
} decoders[] = {
    {"F32", decodeF32},         {"F16", decodeHalf},        {"BF16", decodeBF16},     {"Q4_0", decodeQ4_0},
    {"Q4_1", decodeQ4_1},       {"Q5_0", decodeQ5_0},       {"Q5_1", decodeQ5_1},     {"Q8_0", decodeQ8_0},
    {"Q2_K", decodeQ2_K},       {"Q3_K", decodeQ3_K},       {"Q4_K", decodeQ4_K},     {"Q5_K", decodeQ5_K},
    {"Q6_K", decodeQ6_K},       {"IQ4_NL", decodeIQ4_NL},   {"IQ4_XS", decodeIQ4_XS}, {"MXFP4", decodeMXFP4},
    {"NVFP4", decodeNVFP4},     {"TQ1_0", decodeTQ1_0},     {"TQ2_0", decodeTQ2_0},   {"IQ1_S", decodeIQ1_S},
    {"IQ1_M", decodeIQ1_M},     {"IQ2_XXS", decodeIQ2_XXS}, {"IQ2_XS", decodeIQ2_XS}, {"IQ2_S", decodeIQ2_S},
    {"IQ3_XXS", decodeIQ3_XXS}, {"IQ3_S", decodeIQ3_S}};

constexpr Decode decoderOf(const GgmlType &type) {
  for (const auto &entry : decoders)
    if (entry.name == type.name)
      return entry.decode;
  return nullptr;
}

constexpr bool tableSaysWhatIsDecoded() {
  for (const GgmlType &type : ggmlTypes)
    if (type.isDecoded != (decoderOf(type) != nullptr))
      return false;
  return true;
}
static_assert(tableSaysWhatIsDecoded());

} // namespace

TakeApart partsOf(const GgmlType &type) {
  for (const auto &entry : takers)
    if (entry.name == type.name)
      return entry.takeApart;
  return nullptr;
}

void decodeBlocks(const GgmlType &type, const void *blocks, uint64_t count, float *values) {
  Decode decode = decoderOf(type);
  const auto *block = static_cast<const uint8_t *>(blocks);
  for (uint64_t i = 0; i < count; ++i, block += type.bytes, values += type.elements)
    decode(block, values);
}

void decodeElements(const GgmlType &type, const void *blocks, uint64_t first, uint64_t count, float *values) {
  float whole[256];
  static_assert(std::ranges::all_of(ggmlTypes, [](const GgmlType &each) { return each.elements <= 256; }));
  const auto *block = static_cast<const uint8_t *>(blocks) + first / type.elements * type.bytes;
  uint64_t inside = first % type.elements;
  while (count) {
    if (inside == 0 && count >= type.elements) {
      uint64_t blocksNow = count / type.elements;
      decodeBlocks(type, block, blocksNow, values);
      block += blocksNow * type.bytes;
      values += blocksNow * type.elements;
      count -= blocksNow * type.elements;
      continue;
    }
    uint64_t now = std::min<uint64_t>(count, type.elements - inside);
    decodeBlocks(type, block, 1, whole);
    std::memcpy(values, whole + inside, now * sizeof(float));
    block += type.bytes;
    values += now;
    count -= now;
    inside = 0;
  }
}

} // namespace intarsia::gguf
