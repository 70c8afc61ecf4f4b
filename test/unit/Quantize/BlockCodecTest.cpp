//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// lib/Quantize/BlockCodec against a loop over nn::encodeElement, one value at a time, with LLVM's own f16 and bf16.
// What that loop rests on is compared with ml_dtypes in dialects/Nn/Ops/Quantize/test, the codec itself in
// test/Quantize/test_block_codec.py.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/BlockCodec.h"
#include "dialects/Nn/BlockFormats.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>
#include <random>

using namespace intarsia;
using Element = nn::BlockElement;
using Scale = nn::BlockScale;

namespace {

struct Format {
  const char *name;
  Element element;
  Scale scale;
  int64_t block;
  bool withZeroPoints = false;
};

void PrintTo(const Format &format, std::ostream *out) { *out << format.name; }

const Format formats[] = {
    {"i4_f16_32", Element::I4, Scale::F16, 32},
    {"i4_bf16_64", Element::I4, Scale::BF16, 64},
    {"i4_f32_row", Element::I4, Scale::F32, 0},
    {"i4_f16_128_zero_points", Element::I4, Scale::F16, 128, true},
    {"u4_f16_32", Element::U4, Scale::F16, 32},
    {"u4_f16_32_zero_points", Element::U4, Scale::F16, 32, true},
    {"u4_f32_row_zero_points", Element::U4, Scale::F32, 0, true},
    {"i5_f16_32", Element::I5, Scale::F16, 32},
    {"i5_bf16_64_zero_points", Element::I5, Scale::BF16, 64, true},
    {"i6_f16_32", Element::I6, Scale::F16, 32},
    {"i6_f32_row_zero_points", Element::I6, Scale::F32, 0, true},
    {"i8_f16_32", Element::I8, Scale::F16, 32},
    {"i8_f32_row", Element::I8, Scale::F32, 0},
    {"i8_bf16_64_zero_points", Element::I8, Scale::BF16, 64, true},
    {"u8_bf16_128", Element::U8, Scale::BF16, 128},
    {"u8_f32_64_zero_points", Element::U8, Scale::F32, 64, true},
    {"mxfp4", Element::E2M1, Scale::E8M0, 32},
    {"mxfp6_e2m3", Element::E2M3, Scale::E8M0, 32},
    {"mxfp6_e3m2", Element::E3M2, Scale::E8M0, 32},
    {"mxfp8_e4m3", Element::E4M3, Scale::E8M0, 32},
    {"mxfp8_e5m2", Element::E5M2, Scale::E8M0, 32},
    {"nvfp4", Element::E2M1, Scale::E4M3, 16},
    {"fp8_e4m3", Element::E4M3, Scale::F32, 0},
    {"fp8_e5m2", Element::E5M2, Scale::F32, 0},
    {"nf4_f32", Element::NF4, Scale::F32, 64},
    {"nf4_f16", Element::NF4, Scale::F16, 64},
    {"nf4_bf16", Element::NF4, Scale::BF16, 64},
    {"ternary_f32_row", Element::Ternary, Scale::F32, 0},
    {"ternary_f16_128", Element::Ternary, Scale::F16, 128},
    {"ternary_bf16_32", Element::Ternary, Scale::BF16, 32},
};

struct Encoded {
  std::vector<uint8_t> quantized, scales, zeroPoints;
};

Encoded sized(const BlockCodec &codec, const Format &format, size_t size) {
  size_t blocks = codec.blockCount(size);
  return {std::vector<uint8_t>(size, 0xEE), std::vector<uint8_t>(blocks * codec.scaleBytes(), 0xEE),
          std::vector<uint8_t>(format.withZeroPoints ? blocks : 0, 0xEE)};
}

const llvm::fltSemantics &semanticsOf(Scale scale) {
  return scale == Scale::F16    ? llvm::APFloat::IEEEhalf()
         : scale == Scale::BF16 ? llvm::APFloat::BFloat()
                                : llvm::APFloat::IEEEsingle();
}

/// The bytes of a scale in its type, from f32; appended.
void appendFloat(std::vector<uint8_t> &bytes, Scale scale, float value) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(semanticsOf(scale), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  uint64_t bits = number.bitcastToAPInt().getZExtValue();
  for (unsigned byte = 0; byte != (scale == Scale::F32 ? 4u : 2u); ++byte)
    bytes.push_back(static_cast<uint8_t>(bits >> (8 * byte)));
}

/// The value of the scale with this index.
float readScale(llvm::ArrayRef<uint8_t> bytes, Scale scale, size_t index) {
  if (scale == Scale::E8M0 || scale == Scale::E4M3)
    return nn::decodeScale(scale, bytes[index]);
  unsigned size = scale == Scale::F32 ? 4 : 2;
  uint64_t bits = 0;
  for (unsigned byte = 0; byte != size; ++byte)
    bits |= uint64_t(bytes[index * size + byte]) << (8 * byte);
  llvm::APFloat number(semanticsOf(scale), llvm::APInt(8 * size, bits));
  bool losesInfo;
  number.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToFloat();
}

/// The sum of squared differences between values and what they are quantized to, in their order.
float errorOf(const Format &format, llvm::ArrayRef<float> values, float scale) {
  float sum = 0;
  for (float value : values) {
    float number = scale * nn::decodeElement(format.element, nn::encodeElement(format.element, value / scale));
    if (scale == 0)
      number = 0;
    float difference = value - number;
    float square = difference * difference;
    sum += square;
  }
  return sum;
}

/// The mean of the magnitudes that a scale does not round to zero, four times.
float ternaryScaleOf(llvm::ArrayRef<float> values, float scale) {
  for (int step = 0; step != 4; ++step) {
    float sum = 0, count = 0;
    for (float value : values)
      if (std::fabs(value) > scale / 2) {
        sum += std::fabs(value);
        count += 1;
      }
    scale = count == 0 ? scale : sum / count;
  }
  return scale;
}

/// nn.quantize as its description says it.
Encoded encodePlainly(const Format &format, llvm::ArrayRef<float> row, float tensorScale) {
  Encoded result;
  const FloatFormat *small = nn::getFloatElement(format.element);
  std::optional<nn::IntegerElement> integer = nn::getIntegerElement(format.element);
  float largestNumber = small ? small->largest : integer ? static_cast<float>(integer->highest) : 1.0f;
  // The multiples of a scale that are tried.
  std::vector<float> factors = {1.0f};
  if (format.element == Element::I4 && !format.withZeroPoints)
    factors = {1.0f, 0.9375f};
  else if (format.scale == Scale::E4M3)
    factors = {1.0f, 0.9375f, 1.5f};
  size_t block = format.block == 0 ? row.size() : static_cast<size_t>(format.block);
  for (size_t start = 0; start < row.size(); start += block) {
    llvm::ArrayRef<float> values = row.slice(start, std::min(block, row.size() - start));
    float largest = 0, low = 0, high = 0, sum = 0;
    for (float value : values) {
      largest = std::max(largest, std::fabs(value));
      low = std::min(low, value);
      high = std::max(high, value);
      sum += std::fabs(value);
    }
    float chosen = largest / largestNumber;
    if (format.withZeroPoints)
      chosen = (high - low) / static_cast<float>(integer->highest - integer->lowest);
    else if (format.element == Element::Ternary)
      chosen = ternaryScaleOf(values, sum / static_cast<float>(values.size()));
    else if (format.element == Element::I4 || format.element == Element::I5 || format.element == Element::I6)
      chosen = largest / static_cast<float>(low == -largest ? -integer->lowest : integer->lowest);
    std::vector<uint8_t> bestScale;
    float scale = 0, leastError = 0;
    for (float factor : factors) {
      std::vector<uint8_t> stored;
      if (format.scale == Scale::E8M0)
        stored.push_back(nn::encodeScaleE8M0(format.element, largest));
      else if (format.scale == Scale::E4M3)
        stored.push_back(nn::encodeScaleE4M3(tensorScale == 0 ? 0 : chosen * factor / tensorScale));
      else
        appendFloat(stored, format.scale, chosen * factor);
      float candidate = readScale(stored, format.scale, 0) * (format.scale == Scale::E4M3 ? tensorScale : 1.0f);
      float error = factors.size() == 1 ? 0 : errorOf(format, values, candidate);
      if (bestScale.empty() || error < leastError) {
        bestScale = stored;
        scale = candidate;
        leastError = error;
      }
    }
    result.scales.insert(result.scales.end(), bestScale.begin(), bestScale.end());
    float zeroPoint = 0;
    if (format.withZeroPoints) {
      float point = scale == 0 ? 0 : static_cast<float>(integer->lowest) - low / scale;
      result.zeroPoints.push_back(nn::encodeElement(format.element, point));
      zeroPoint = nn::decodeElement(format.element, result.zeroPoints.back());
    }
    for (float value : values) {
      float number = scale == 0 ? 0 : value / scale;
      if (format.withZeroPoints)
        number = std::nearbyint(number) + zeroPoint;
      result.quantized.push_back(nn::encodeElement(format.element, number));
    }
  }
  return result;
}

class BlockCodecFormat : public testing::TestWithParam<Format> {
protected:
  const Format &format = GetParam();
  BlockCodec codec{format.element, format.scale, format.block, format.withZeroPoints};

  void expectAsPlainly(llvm::ArrayRef<float> row, float tensorScale, const char *what) {
    Encoded actual = sized(codec, format, row.size()), expected = encodePlainly(format, row, tensorScale);
    std::optional<size_t> bad = codec.encodeRow(row, tensorScale, actual.quantized, actual.scales, actual.zeroPoints);
    ASSERT_FALSE(bad) << what << ": value " << *bad << " is " << row[*bad];
    ASSERT_EQ(actual.scales, expected.scales) << what;
    ASSERT_EQ(actual.zeroPoints, expected.zeroPoints) << what;
    for (size_t index = 0; index != row.size(); ++index)
      ASSERT_EQ(actual.quantized[index], expected.quantized[index])
          << what << ", value " << index << ": " << row[index];
  }
  void expectAsPlainly(llvm::ArrayRef<float> row, const char *what) {
    expectAsPlainly(row, BlockCodec::tensorScaleOf(BlockCodec::largestMagnitude(row)), what);
  }
};

INSTANTIATE_TEST_SUITE_P(Formats, BlockCodecFormat, testing::ValuesIn(formats),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_P(BlockCodecFormat, EncodesAsAPlainLoop) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.01f, 0.02f);
  for (size_t size : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 300, 4096, 5000}) {
    std::vector<float> row(size);
    for (float &value : row)
      value = normal(random);
    expectAsPlainly(row, ("normal values, row of " + std::to_string(size)).c_str());
    for (float &value : row)
      value = std::fabs(value);
    expectAsPlainly(row, "positive values");
    for (float &value : row)
      value = -value;
    expectAsPlainly(row, "negative values");
  }
}

// Blocks that differ by powers of two, from subnormal values to as large as an f16 scale takes (65504 * 1).
TEST_P(BlockCodecFormat, EncodesAllExponents) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  int highest = format.scale == Scale::F16 ? 11 : 100;
  for (int exponent = -149; exponent <= highest; ++exponent) {
    std::vector<float> row(256);
    for (float &value : row)
      value = std::ldexp(normal(random), exponent);
    expectAsPlainly(row, ("times 2^" + std::to_string(exponent)).c_str());
    // One row of the kind in a tensor of larger values.
    expectAsPlainly(row, 1.0f, "tensor scale of 1");
  }
}

// Multiples of a quarter, of an eighth and of a 64th, the largest one of the format in each block: elements, ties and
// what is between them, where the scale is a power of two.
TEST_P(BlockCodecFormat, EncodesTies) {
  const FloatFormat *small = nn::getFloatElement(format.element);
  std::optional<nn::IntegerElement> integer = nn::getIntegerElement(format.element);
  float largest = small ? small->largest : integer ? static_cast<float>(integer->highest) : 1.0f;
  std::vector<float> elements;
  for (unsigned pattern = 0; pattern != 1u << nn::storageBits(format.element); ++pattern)
    if (float element = nn::decodeElement(format.element, pattern); std::fabs(element) <= largest)
      elements.push_back(element);
  llvm::sort(elements);
  std::vector<float> special = {0.0f, -0.0f, 0.25f, 0.5f, -0.5f, 1.5f, 2.5f, -1.5f, 1e-40f, -1e-40f};
  for (size_t index = 0; index != elements.size(); ++index) {
    special.push_back(elements[index]);
    if (index != 0)
      special.push_back(static_cast<float>((double(elements[index - 1]) + double(elements[index])) / 2));
  }
  std::vector<float> near;
  for (float value : special)
    for (float neighbour : {value, std::nextafter(value, 1e30f), std::nextafter(value, -1e30f)})
      near.push_back(std::clamp(neighbour, -largest, largest));
  size_t block = format.block == 0 ? near.size() + 1 : static_cast<size_t>(format.block);
  for (float power : {1.0f, 0x1p-9f, 0x1p7f}) {
    std::vector<float> row;
    for (float value : near) {
      if (row.size() % block == 0)
        row.push_back(largest * power);
      row.push_back(value * power);
    }
    expectAsPlainly(row, power * (format.scale == Scale::E4M3 ? 1.0f / 256 : 1.0f), "ties");
  }
}

TEST_P(BlockCodecFormat, EncodesRandomPatterns) {
  std::mt19937 random(3);
  const uint32_t highest = format.scale == Scale::F16 ? 127 + 14 : 200; // exponent field
  for (unsigned repeat = 0; repeat != 200; ++repeat) {
    std::vector<float> row(1000);
    const uint32_t lowest = repeat % 2 == 0 ? 0 : highest - 12;
    for (float &value : row) {
      auto signAndMantissa = static_cast<uint32_t>(random() & 0x807FFFFF);
      auto exponent = static_cast<uint32_t>(lowest + random() % (highest - lowest));
      value = llvm::bit_cast<float>(signAndMantissa | exponent << 23);
    }
    expectAsPlainly(row, "random patterns");
    expectAsPlainly(row, 0x1p-20f, "a tensor scale that is too small");
  }
}

TEST_P(BlockCodecFormat, QuantizesZeroBlocksToZeros) {
  std::vector<float> row(200, 0.0f);
  row[3] = -0.0f;
  expectAsPlainly(row, "zeros");
  row[199] = -2.0f;
  expectAsPlainly(row, "zeros, then another value");
  Encoded encoded = sized(codec, format, 200);
  ASSERT_FALSE(codec.encodeRow(std::vector<float>(200), 0.0f, encoded.quantized, encoded.scales, encoded.zeroPoints));
  EXPECT_EQ(encoded.quantized, std::vector<uint8_t>(200, format.element == Element::NF4 ? 7 : 0));
  Encoded empty = sized(codec, format, 0);
  EXPECT_FALSE(codec.encodeRow({}, 0.0f, empty.quantized, empty.scales, empty.zeroPoints));
}

TEST_P(BlockCodecFormat, NamesWhatCannotBeQuantized) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float bad : {nan, -nan, infinity, -infinity, llvm::bit_cast<float>(0x7F800001u)}) {
    for (size_t position : {0, 5, 31, 32, 127, 128, 199}) {
      std::vector<float> row(200, 0.25f);
      row[position] = bad;
      row[199] = bad;
      Encoded encoded = sized(codec, format, row.size());
      EXPECT_EQ(codec.encodeRow(row, 1.0f, encoded.quantized, encoded.scales, encoded.zeroPoints), position);
      EXPECT_FALSE(std::isfinite(BlockCodec::largestMagnitude(row)));
    }
  }
}

TEST_P(BlockCodecFormat, NamesWhatIsTooLargeForItsScale) {
  std::vector<float> row(200, 1.0f);
  row[150] = -3e38f;
  row[151] = 2e38f;
  Encoded encoded = sized(codec, format, row.size());
  // What is beyond 65504, and ranges and sums beyond the largest f32.
  bool isTooLarge = format.scale == Scale::F16 || format.withZeroPoints || format.element == Element::Ternary;
  EXPECT_EQ(codec.encodeRow(row, 1.0f, encoded.quantized, encoded.scales, encoded.zeroPoints),
            isTooLarge ? std::optional<size_t>(150) : std::nullopt);
}

// All bit patterns with all scales of one or two bytes and a sample of the others, NaNs and infinities included.
TEST_P(BlockCodecFormat, DecodesAllPatternsWithAllScales) {
  const unsigned scaleCount = codec.scaleBytes() == 1 ? 256 : codec.scaleBytes() == 2 ? 65536 : 1000;
  const size_t blockSize = format.block == 0 ? 256 : static_cast<size_t>(format.block);
  const size_t blocks = codec.blockCount(256);
  const float tensorScale = 0.3f;
  std::vector<uint8_t> quantized(256), zeroPoints(format.withZeroPoints ? blocks : 0);
  std::vector<float> elements(256), row(256);
  for (unsigned pattern = 0; pattern != 256; ++pattern) {
    quantized[pattern] = static_cast<uint8_t>(pattern);
    elements[pattern] = nn::decodeElement(format.element, pattern);
  }
  std::mt19937 random(4);
  for (unsigned scalePattern = 0; scalePattern != scaleCount; ++scalePattern) {
    uint32_t bits = codec.scaleBytes() == 4 ? uint32_t(random()) : scalePattern;
    std::vector<uint8_t> scales;
    for (size_t byte = 0; byte != blocks * codec.scaleBytes(); ++byte)
      scales.push_back(static_cast<uint8_t>(bits >> (8 * (byte % codec.scaleBytes()))));
    for (uint8_t &zeroPoint : zeroPoints)
      zeroPoint = random() & ((1u << nn::storageBits(format.element)) - 1);
    codec.decodeRow(quantized, scales, zeroPoints, tensorScale, row);
    float scale = readScale(scales, format.scale, 0) * (format.scale == Scale::E4M3 ? tensorScale : 1.0f);
    for (unsigned pattern = 0; pattern != 256; ++pattern) {
      float element = elements[pattern];
      if (format.withZeroPoints)
        element -= elements[zeroPoints[pattern / blockSize]];
      float expected = scale * element;
      if (llvm::bit_cast<uint32_t>(row[pattern]) != llvm::bit_cast<uint32_t>(expected) &&
          !(std::isnan(row[pattern]) && std::isnan(expected)))
        FAIL() << "scale " << scalePattern << " and pattern " << pattern << " give " << row[pattern] << ", not "
               << expected;
    }
  }
}

TEST_P(BlockCodecFormat, SizesFollowTheFormat) {
  EXPECT_EQ(codec.blockCount(0), format.block == 0 ? 1u : 0u);
  EXPECT_EQ(codec.blockCount(128), format.block == 0 ? 1u : 128u / static_cast<size_t>(format.block));
  EXPECT_EQ(codec.blockCount(129), format.block == 0 ? 1u : 128u / static_cast<size_t>(format.block) + 1);
  EXPECT_EQ(codec.hasTensorScale(), format.scale == Scale::E4M3);
}

TEST(BlockCodec, LargestMagnitudeIsOfTheWholeRow) {
  for (size_t size : {1, 15, 16, 17, 100})
    for (size_t position = 0; position != size; ++position) {
      std::vector<float> row(size, 0.5f);
      row[position] = -2.5f;
      EXPECT_EQ(BlockCodec::largestMagnitude(row), 2.5f);
    }
  EXPECT_EQ(BlockCodec::largestMagnitude({}), 0.0f);
}

} // namespace
