//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// Processes sixteen values at a time in the compiler's vector extension, which maps to any processor. IEEE 754 defines
// every operation exactly, so that all processors give the same bits.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/BlockCodec.h"
#include "dialects/Nn/BlockFormats.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include <algorithm>
#include <cmath>
#include <cstring>

// A fused multiply-add would round once instead of twice.
#pragma STDC FP_CONTRACT OFF

using namespace intarsia;
using nn::BlockElement;
using nn::BlockScale;

#define INTARSIA_INLINE __attribute__((always_inline)) static inline
#define INTARSIA_INLINE_MEMBER __attribute__((always_inline)) inline

namespace {

constexpr size_t lanes = 16; // divides every block size
using Floats = float __attribute__((ext_vector_type(16)));
using Words = int32_t __attribute__((ext_vector_type(16)));
using Bytes = uint8_t __attribute__((ext_vector_type(16)));

constexpr int32_t magnitudeBits = 0x7FFFFFFF;
constexpr int32_t infinityBits = 0x7F800000;

INTARSIA_INLINE Words bitsOf(Floats values) { return __builtin_bit_cast(Words, values); }
INTARSIA_INLINE Floats fromBits(Words bits) { return __builtin_bit_cast(Floats, bits); }

/// Loads up to sixteen values and fills the rest with zeros.
INTARSIA_INLINE Floats load(const float *from, size_t count) {
  Floats values = 0.0f;
  if (count >= lanes)
    std::memcpy(&values, from, sizeof(values));
  else
    std::memcpy(&values, from, count * sizeof(float));
  return values;
}

INTARSIA_INLINE void store(Words patterns, uint8_t *to, size_t count) {
  Bytes bytes = __builtin_convertvector(patterns, Bytes);
  if (count >= lanes)
    std::memcpy(to, &bytes, sizeof(bytes));
  else
    std::memcpy(to, &bytes, count);
}

//===-- Elements -----------------------------------------------------------------------------------------------===//

/// A term whose addition rounds magnitudes up to 2^22 to integers: 1.5 * 2^23 leaves no bits for fractions, so the sum
/// is rounded to nearest, ties to even, and the low bits of its pattern are the integer in two's complement.
constexpr float roundingTerm = 0x1.8p23f;
constexpr int32_t roundingBits = 0x4B400000;

INTARSIA_INLINE Words roundToWords(Floats values) { return bitsOf(values + roundingTerm) - roundingBits; }

struct IntegerEncoder {
  float lowest, highest;
  int32_t mask;

  explicit IntegerEncoder(nn::BlockElement element) {
    nn::IntegerElement format = *nn::getIntegerElement(element);
    lowest = static_cast<float>(format.lowest);
    highest = static_cast<float>(format.highest);
    mask = (1 << nn::storageBits(element)) - 1;
  }
  INTARSIA_INLINE_MEMBER Words encode(Floats ratios, float zeroPoint) const {
    ratios = __builtin_elementwise_min(__builtin_elementwise_max(ratios, Floats(lowest)), Floats(highest));
    return roundToWords(ratios) & mask;
  }
  /// The values that those elements mean.
  INTARSIA_INLINE_MEMBER Floats round(Floats ratios) const {
    ratios = __builtin_elementwise_min(__builtin_elementwise_max(ratios, Floats(lowest)), Floats(highest));
    return ratios + roundingTerm - roundingTerm;
  }
};

/// Rounds, adds the zero point, then clamps.
struct OffsetIntegerEncoder : IntegerEncoder {
  using IntegerEncoder::IntegerEncoder;

  INTARSIA_INLINE_MEMBER Words encode(Floats ratios, float zeroPoint) const {
    // No zero point brings larger magnitudes back into the range.
    constexpr float limit = 1024.0f;
    ratios = __builtin_elementwise_min(__builtin_elementwise_max(ratios, Floats(-limit)), Floats(limit));
    Words integers = roundToWords(ratios) + static_cast<int32_t>(zeroPoint);
    integers = __builtin_elementwise_max(integers, Words(static_cast<int32_t>(lowest)));
    return __builtin_elementwise_min(integers, Words(static_cast<int32_t>(highest))) & mask;
  }
};

struct FloatEncoder {
  int32_t mantissa, smallest, signShift;
  float largest;

  explicit FloatEncoder(nn::BlockElement element) {
    const FloatFormat &format = *nn::getFloatElement(element);
    mantissa = static_cast<int32_t>(format.mantissaBits);
    smallest = format.smallestExponent + 127;
    signShift = 32 - static_cast<int32_t>(format.bits);
    largest = format.largest;
  }
  INTARSIA_INLINE_MEMBER Words encode(Floats ratios, float zeroPoint) const {
    Words bits = bitsOf(ratios);
    Floats magnitudes = __builtin_elementwise_min(fromBits(bits & magnitudeBits), Floats(largest));
    // Below 2^smallest the step between values is constant.
    Words exponents = __builtin_elementwise_max(bitsOf(magnitudes) >> 23, Words(smallest));
    // Multiplying by 1 / step is exact; a carry of the rounded mantissa then increments the exponent.
    Floats inverseSteps = fromBits((254 + mantissa - exponents) << 23);
    Words patterns = roundToWords(magnitudes * inverseSteps) + ((exponents - smallest) << mantissa);
    return patterns | ((bits >> signShift) & (1 << (31 - signShift)));
  }
  /// The values that those elements mean.
  INTARSIA_INLINE_MEMBER Floats round(Floats ratios) const {
    Words bits = bitsOf(ratios);
    Floats magnitudes = __builtin_elementwise_min(fromBits(bits & magnitudeBits), Floats(largest));
    Words exponents = __builtin_elementwise_max(bitsOf(magnitudes) >> 23, Words(smallest));
    Floats steps = magnitudes * fromBits((254 + mantissa - exponents) << 23) + roundingTerm - roundingTerm;
    return fromBits(bitsOf(steps * fromBits((exponents - mantissa) << 23)) | (bits & ~magnitudeBits));
  }
};

struct Nf4Encoder {
  float middles[15];

  explicit Nf4Encoder(nn::BlockElement) {
    // Midpoints are rounded to f32 as in bitsandbytes. A midpoint goes to the even pattern: above an even pattern the
    // next one begins at the successor of the midpoint.
    llvm::ArrayRef<float> values = nn::getNf4Values();
    for (unsigned lower = 0; lower != 15; ++lower) {
      auto middle = static_cast<float>((double(values[lower]) + double(values[lower + 1])) / 2);
      middles[lower] = lower % 2 == 0 ? std::nextafter(middle, 2.0f) : middle;
    }
  }
  INTARSIA_INLINE_MEMBER Words encode(Floats ratios, float zeroPoint) const {
    Words indices = 0;
    for (float middle : middles)
      indices -= ratios >= Floats(middle); // true is -1
    return indices;
  }
};

//===-- Rows ---------------------------------------------------------------------------------------------------===//

/// The properties of a block that determine its scale.
struct BlockContent {
  float largestMagnitude, low, high;
};

enum class ScaleRule { LargestMagnitude, Range, Ternary, LeastError };

constexpr size_t mostFactors = 3;

/// The parameters and destinations of the encoding of a row.
struct Encoding {
  BlockElement element;
  BlockScale scale;
  size_t block;
  float tensorScale;
  const float *scaleValues;
  uint8_t *quantized, *scales, *zeroPoints;
  /// The bit pattern of all elements of a block without scale.
  uint8_t zeroPattern;

  float lowestInteger = 0.0f, integerRange = 0.0f;
  int32_t largestExponent = 0;
  llvm::ArrayRef<float> factors;
  FloatEncoder scaleEncoder = FloatEncoder(BlockElement::E4M3);
};

} // namespace

/// Returns the largest magnitude by comparing bit patterns: those of non-negative floats are ordered like their values,
/// with infinity and NaN last.
INTARSIA_INLINE float largestMagnitudeOf(const float *values, size_t size) {
  Words largest = 0;
  for (size_t start = 0; start < size; start += lanes)
    largest = __builtin_elementwise_max(largest, bitsOf(load(values + start, size - start)) & magnitudeBits);
  return llvm::bit_cast<float>(__builtin_reduce_max(largest));
}

template <ScaleRule rule> INTARSIA_INLINE BlockContent contentOf(const float *values, size_t size) {
  BlockContent content = {};
  if constexpr (rule == ScaleRule::Range || rule == ScaleRule::LeastError) {
    // As signed integers, patterns of negative values are below zero.
    Words high = 0, low = 0;
    for (size_t start = 0; start < size; start += lanes) {
      Words bits = bitsOf(load(values + start, size - start));
      high = __builtin_elementwise_max(high, bits);
      low = __builtin_elementwise_max(low, bits ^ ~magnitudeBits);
    }
    int32_t highBits = __builtin_reduce_max(high), lowBits = __builtin_reduce_max(low);
    content.high = llvm::bit_cast<float>(highBits);
    content.low = -llvm::bit_cast<float>(lowBits);
    content.largestMagnitude = llvm::bit_cast<float>(std::max(highBits, lowBits));
  } else {
    content.largestMagnitude = largestMagnitudeOf(values, size);
  }
  return content;
}

/// Returns the scale of a block, as `nn.quantize` chooses it, before it is converted to its stored type.
template <ScaleRule rule>
INTARSIA_INLINE float chooseScale(const Encoding &encoding, const BlockContent &content, llvm::ArrayRef<float> values) {
  if constexpr (rule == ScaleRule::Range)
    return (content.high - content.low) / encoding.integerRange;
  else if constexpr (rule == ScaleRule::Ternary)
    return nn::ternaryScale(values);
  else
    return nn::blockScale(encoding.element, content.largestMagnitude, content.low);
}

/// Stores the scale of a block, and returns its stored value times the tensor scale.
INTARSIA_INLINE float storeScale(const Encoding &encoding, float scale, float largestMagnitude, size_t index) {
  uint8_t *scales = encoding.scales;
  switch (encoding.scale) {
  case BlockScale::F32:
    llvm::support::endian::write32le(scales + 4 * index, llvm::bit_cast<uint32_t>(scale));
    return scale;
  case BlockScale::F16: {
    uint16_t pattern = encodeF16(scale);
    llvm::support::endian::write16le(scales + 2 * index, pattern);
    return decodeF16(pattern);
  }
  case BlockScale::BF16: {
    uint16_t pattern = encodeBf16(scale);
    llvm::support::endian::write16le(scales + 2 * index, pattern);
    return decodeBf16(pattern);
  }
  case BlockScale::E8M0: {
    int32_t exponent = llvm::bit_cast<int32_t>(largestMagnitude) >> 23;
    scales[index] = static_cast<uint8_t>(std::max(exponent - encoding.largestExponent, 0));
    return encoding.scaleValues[scales[index]];
  }
  case BlockScale::E4M3:
    scale = encoding.tensorScale == 0 ? 0.0f : scale / encoding.tensorScale;
    scales[index] = static_cast<uint8_t>(encoding.scaleEncoder.encode(Floats(scale), 0.0f)[0]);
    return encoding.scaleValues[scales[index]] * encoding.tensorScale;
  }
}

/// Returns `lowest integer - low / scale`, rounded and clamped.
INTARSIA_INLINE float chooseZeroPoint(const Encoding &encoding, float low, float scale) {
  if (scale == 0)
    return 0.0f;
  float point = std::nearbyint(encoding.lowestInteger - low / scale);
  return std::min(std::max(point, encoding.lowestInteger), encoding.lowestInteger + encoding.integerRange);
}

/// Returns the multiple of a scale that has the least error after it is stored.
template <typename Encoder>
INTARSIA_INLINE float chooseFactor(const Encoding &encoding, const Encoder &encoder, float scale,
                                   float largestMagnitude, const float *values, size_t size, size_t index) {
  float stored[mostFactors], sums[mostFactors] = {};
  const size_t count = encoding.factors.size();
  for (size_t number = 0; number != count; ++number)
    stored[number] = storeScale(encoding, scale * encoding.factors[number], largestMagnitude, index);
  for (size_t at = 0; at < size; at += lanes) {
    Floats inputs = load(values + at, size - at), squares[mostFactors];
    for (size_t number = 0; number != count; ++number) {
      // A division by zero gives NaN or infinity, but its element times the zero scale is zero.
      Floats differences = inputs - encoder.round(inputs / Floats(stored[number])) * Floats(stored[number]);
      squares[number] = differences * differences;
    }
    // Adds one after another, because the sum depends on the order. Lanes beyond the block add zeros.
    for (size_t lane = 0; lane != lanes; ++lane)
      for (size_t number = 0; number != count; ++number)
        sums[number] += squares[number][lane];
  }
  size_t best = 0;
  for (size_t number = 1; number != count; ++number)
    if (sums[number] < sums[best])
      best = number;
  return scale * encoding.factors[best];
}

template <ScaleRule rule, typename Encoder>
INTARSIA_INLINE std::optional<size_t> encodeBlocks(const Encoding &encoding, llvm::ArrayRef<float> row) {
  const Encoder encoder(encoding.element);
  const uint8_t mask = nn::storageBits(encoding.element) == 4 ? 0x0F : 0xFF;
  const float infinity = llvm::bit_cast<float>(infinityBits);
  const size_t block = encoding.block == 0 ? row.size() : encoding.block;
  for (size_t start = 0, index = 0; start < row.size(); start += block, ++index) {
    const float *values = row.data() + start;
    const size_t size = std::min(block, row.size() - start);
    BlockContent content = contentOf<rule>(values, size);
    if (!(content.largestMagnitude < infinity))
      return start + (std::find_if(values, values + size, [](float x) { return !std::isfinite(x); }) - values);
    float scale = chooseScale<rule>(encoding, content, {values, size});
    if constexpr (rule == ScaleRule::LeastError)
      scale = chooseFactor(encoding, encoder, scale, content.largestMagnitude, values, size, index);
    scale = storeScale(encoding, scale, content.largestMagnitude, index);
    if (!(std::fabs(scale) < infinity)) {
      auto isSmaller = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
      return start + (std::max_element(values, values + size, isSmaller) - values);
    }
    float zeroPoint = 0.0f;
    if constexpr (rule == ScaleRule::Range) {
      zeroPoint = chooseZeroPoint(encoding, content.low, scale);
      encoding.zeroPoints[index] = static_cast<uint8_t>(static_cast<int32_t>(zeroPoint)) & mask;
    }
    uint8_t *quantized = encoding.quantized + start;
    if (scale == 0) {
      std::memset(quantized, encoding.zeroPattern, size);
      continue;
    }
    for (size_t at = 0; at < size; at += lanes)
      store(encoder.encode(load(values + at, size - at) / Floats(scale), zeroPoint), quantized + at, size - at);
  }
  return std::nullopt;
}

INTARSIA_INLINE std::optional<size_t> encodeHere(const Encoding &encoding, llvm::ArrayRef<float> row) {
  // Signed scales need the block's smallest value, as does trying several factors.
  if ((encoding.factors.size() > 1 || nn::hasSignedScales(encoding.element)) && !encoding.zeroPoints)
    return nn::getFloatElement(encoding.element) ? encodeBlocks<ScaleRule::LeastError, FloatEncoder>(encoding, row)
                                                 : encodeBlocks<ScaleRule::LeastError, IntegerEncoder>(encoding, row);
  if (nn::getFloatElement(encoding.element))
    return encodeBlocks<ScaleRule::LargestMagnitude, FloatEncoder>(encoding, row);
  if (encoding.element == BlockElement::NF4)
    return encodeBlocks<ScaleRule::LargestMagnitude, Nf4Encoder>(encoding, row);
  if (encoding.element == BlockElement::Ternary)
    return encodeBlocks<ScaleRule::Ternary, IntegerEncoder>(encoding, row);
  if (encoding.zeroPoints)
    return encodeBlocks<ScaleRule::Range, OffsetIntegerEncoder>(encoding, row);
  return encodeBlocks<ScaleRule::LargestMagnitude, IntegerEncoder>(encoding, row);
}

//===-- The same loops for several processors ------------------------------------------------------------------===//

static std::optional<size_t> encodeAnywhere(const Encoding &encoding, llvm::ArrayRef<float> row) {
  return encodeHere(encoding, row);
}

#ifdef __x86_64__
// Takes half of the baseline's time in most formats; AVX-512 gains little over it.
__attribute__((target("avx2"))) static std::optional<size_t> encodeAvx2(const Encoding &encoding,
                                                                        llvm::ArrayRef<float> row) {
  return encodeHere(encoding, row);
}
#endif

static std::optional<size_t> encode(const Encoding &encoding, llvm::ArrayRef<float> row) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2"))
    return encodeAvx2(encoding, row);
#endif
  return encodeAnywhere(encoding, row);
}

//===-- BlockCodec ---------------------------------------------------------------------------------------------===//

BlockCodec::BlockCodec(BlockElement element, BlockScale scale, int64_t block, bool withZeroPoints)
    : element(element), scale(scale), block(static_cast<size_t>(block)), withZeroPoints(withZeroPoints),
      elementValues(), scaleValues() {
  for (unsigned pattern = 0; pattern != 256; ++pattern) {
    elementValues[pattern] = nn::decodeElement(element, pattern);
    if (scaleBytes() == 1)
      scaleValues[pattern] = nn::decodeScale(scale, pattern);
  }
}

size_t BlockCodec::scaleBytes() const { return nn::scaleBytes(scale); }

float BlockCodec::largestMagnitude(llvm::ArrayRef<float> row) { return largestMagnitudeOf(row.data(), row.size()); }

std::optional<size_t> BlockCodec::encodeRow(llvm::ArrayRef<float> row, float tensorScale,
                                            llvm::MutableArrayRef<uint8_t> quantized,
                                            llvm::MutableArrayRef<uint8_t> scales,
                                            llvm::MutableArrayRef<uint8_t> zeroPoints) const {
  assert(quantized.size() == row.size() && scales.size() == blockCount(row.size()) * scaleBytes() &&
         zeroPoints.size() == (withZeroPoints ? blockCount(row.size()) : 0));
  if (row.empty()) {
    // A format with one scale a row has that scale for an empty row too.
    llvm::fill(scales, 0);
    llvm::fill(zeroPoints, 0);
    return std::nullopt;
  }
  Encoding encoding = {element,
                       scale,
                       block,
                       tensorScale,
                       scaleValues.data(),
                       quantized.data(),
                       scales.data(),
                       withZeroPoints ? zeroPoints.data() : nullptr,
                       static_cast<uint8_t>(nn::encodeElement(element, 0.0f))};
  encoding.factors = nn::scaleFactors(element, scale);
  assert(encoding.factors.size() <= mostFactors);
  if (const FloatFormat *format = nn::getFloatElement(element)) {
    encoding.largestExponent = std::ilogb(format->largest);
  } else if (std::optional<nn::IntegerElement> format = nn::getIntegerElement(element)) {
    encoding.lowestInteger = static_cast<float>(format->lowest);
    encoding.integerRange = static_cast<float>(format->highest - format->lowest);
  }
  return encode(encoding, row);
}

void BlockCodec::decodeRow(llvm::ArrayRef<uint8_t> quantized, llvm::ArrayRef<uint8_t> scales,
                           llvm::ArrayRef<uint8_t> zeroPoints, float tensorScale,
                           llvm::MutableArrayRef<float> row) const {
  assert(quantized.size() == row.size() && scales.size() == blockCount(row.size()) * scaleBytes() &&
         zeroPoints.size() == (withZeroPoints ? blockCount(row.size()) : 0));
  const size_t blockSize = block == 0 ? row.size() : block;
  for (size_t start = 0, index = 0; start < row.size(); start += blockSize, ++index) {
    float blockScale = readScale(scales.data() + index * scaleBytes());
    if (hasTensorScale())
      blockScale *= tensorScale;
    const float zeroPoint = withZeroPoints ? elementValues[zeroPoints[index]] : 0.0f;
    const uint8_t *from = quantized.data() + start;
    float *to = row.data() + start;
    for (size_t at = 0, size = std::min(blockSize, row.size() - start); at != size; ++at)
      to[at] = blockScale * (elementValues[from[at]] - zeroPoint);
  }
}

template <typename Encoder>
INTARSIA_INLINE void encodeRatios(const Encoder &encoder, llvm::ArrayRef<float> ratios, uint8_t *quantized) {
  for (size_t at = 0; at < ratios.size(); at += lanes)
    store(encoder.encode(load(ratios.data() + at, ratios.size() - at), 0.0f), quantized + at, ratios.size() - at);
}

INTARSIA_INLINE void encodeRatiosHere(BlockElement element, llvm::ArrayRef<float> ratios, uint8_t *quantized) {
  if (nn::getFloatElement(element))
    encodeRatios(FloatEncoder(element), ratios, quantized);
  else if (element == BlockElement::NF4)
    encodeRatios(Nf4Encoder(element), ratios, quantized);
  else
    encodeRatios(IntegerEncoder(element), ratios, quantized);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void encodeRatiosAvx2(BlockElement element, llvm::ArrayRef<float> ratios,
                                                             uint8_t *quantized) {
  encodeRatiosHere(element, ratios, quantized);
}
#endif

void BlockCodec::encodeElements(llvm::ArrayRef<float> ratios, llvm::MutableArrayRef<uint8_t> quantized) const {
  assert(quantized.size() == ratios.size());
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2"))
    return encodeRatiosAvx2(element, ratios, quantized.data());
#endif
  encodeRatiosHere(element, ratios, quantized.data());
}

float BlockCodec::encodeScale(float wanted, float tensorScale, uint8_t *bytes) const {
  Encoding encoding = {element, scale, block,   tensorScale,      scaleValues.data(),
                       nullptr, bytes, nullptr, /*zeroPattern=*/0};
  // storeScale() takes the exponent of E8M0 from the largest magnitude; `largestExponent` is 0 here, so that this is
  // the exponent of the wanted scale.
  return storeScale(encoding, wanted, /*largestMagnitude=*/wanted, /*index=*/0);
}

float BlockCodec::readScale(const uint8_t *bytes) const {
  switch (scale) {
  case BlockScale::F32:
    return llvm::bit_cast<float>(llvm::support::endian::read32le(bytes));
  case BlockScale::F16:
    return decodeF16(llvm::support::endian::read16le(bytes));
  case BlockScale::BF16:
    return decodeBf16(llvm::support::endian::read16le(bytes));
  case BlockScale::E8M0:
  case BlockScale::E4M3:
    return scaleValues[*bytes];
  }
  llvm_unreachable("unknown scale");
}
