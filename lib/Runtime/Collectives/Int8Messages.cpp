//===- Int8Messages.cpp - Floats that are rounded to 8 bits on their way between hosts ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Int8Messages.h"

#include "lib/Runtime/Collectives/Reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace intarsia::runtime {

/// Adding it rounds a float below 2^22 to an integer, which is then in the lowest bits.
static constexpr float int8Rounding = 12582912.0f; // 1.5 * 2^23
/// Blocks whose largest element is smaller are zero: their scale would not be a normal number.
static constexpr float int8Smallest = 127 * std::numeric_limits<float>::min();

/// Encodes up to a block; returns its scale.
static inline __attribute__((always_inline)) float encodeInt8Block(uint8_t *bytes, const float *source,
                                                                   uint64_t count) {
  // Magnitudes are in the order of their bits, infinities and NaN behind all others.
  uint32_t largestBits = 0;
  for (uint64_t i = 0; i < count; ++i)
    largestBits = std::max(largestBits, std::bit_cast<uint32_t>(source[i]) & 0x7FFFFFFF);
  float largest = std::bit_cast<float>(largestBits);
  bool isFinite = largest <= std::numeric_limits<float>::max();
  if (!isFinite || largest < int8Smallest) {
    std::memset(bytes, 0, count);
    return isFinite ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  float inverse = 127 / largest;
  for (uint64_t i = 0; i < count; ++i)
    bytes[i] = uint8_t(std::bit_cast<uint32_t>(source[i] * inverse + int8Rounding));
  return largest / 127;
}

static inline __attribute__((always_inline)) void encodeInt8Blocks(uint8_t *message, const float *source,
                                                                   uint64_t elements) {
  uint64_t blocks = (elements + int8BlockElements - 1) / int8BlockElements;
  uint8_t *bytes = message + blocks * sizeof(float);
  for (uint64_t block = 0; block < blocks; ++block) {
    uint64_t begin = block * int8BlockElements;
    // The loops over whole blocks have a fixed length.
    float scale = begin + int8BlockElements <= elements
                      ? encodeInt8Block(bytes + begin, source + begin, int8BlockElements)
                      : encodeInt8Block(bytes + begin, source + begin, elements - begin);
    std::memcpy(message + block * sizeof(float), &scale, sizeof(scale));
  }
}

static inline __attribute__((always_inline)) void decodeInt8Blocks(float *destination, const uint8_t *message,
                                                                   uint64_t elements) {
  uint64_t blocks = (elements + int8BlockElements - 1) / int8BlockElements;
  const uint8_t *bytes = message + blocks * sizeof(float);
  for (uint64_t block = 0; block < blocks; ++block) {
    uint64_t begin = block * int8BlockElements, count = std::min(int8BlockElements, elements - begin);
    float scale, values[int8BlockElements];
    std::memcpy(&scale, message + block * sizeof(float), sizeof(scale));
    if (count == int8BlockElements) {
      for (uint64_t i = 0; i < int8BlockElements; ++i)
        values[i] = scale * float(int8_t(bytes[begin + i]));
      std::memcpy(destination + begin, values, sizeof(values));
      continue;
    }
    for (uint64_t i = 0; i < count; ++i)
      destination[begin + i] = scale * float(int8_t(bytes[begin + i]));
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void encodeInt8Avx2(uint8_t *message, const float *source, uint64_t elements) {
  encodeInt8Blocks(message, source, elements);
}
__attribute__((target("avx2"))) static void decodeInt8Avx2(float *to, const uint8_t *message, uint64_t elements) {
  decodeInt8Blocks(to, message, elements);
}
#endif

// The loops are vectorised by the C++ compiler, with the same roundings, as those of Reduce.cpp are.

void encodeInt8(uint8_t *message, const float *source, uint64_t elements) {
#if defined(__x86_64__)
  if (canReduceByAvx2())
    return encodeInt8Avx2(message, source, elements);
#endif
  encodeInt8Blocks(message, source, elements);
}

void decodeInt8(float *destination, const uint8_t *message, uint64_t elements) {
#if defined(__x86_64__)
  if (canReduceByAvx2())
    return decodeInt8Avx2(destination, message, elements);
#endif
  decodeInt8Blocks(destination, message, elements);
}

} // namespace intarsia::runtime
