//===- Int8Messages.cpp - Floats that are rounded to 8 bits on their way between hosts
//------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Int8Messages.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace intarsia::runtime {

/// Adding it rounds a float below 2^22 to an integer, which is then in the lowest bits.
static constexpr float int8Rounding = 12582912.0f; // 1.5 * 2^23
/// Blocks whose largest element is smaller are zero: their scale would not be a normal number.
static constexpr float int8Smallest = 127 * std::numeric_limits<float>::min();

/// Encodes up to a block; returns its scale.
static float encodeInt8Block(uint8_t *bytes, const float *source, uint64_t count) {
  float largest = 0;
  bool isFinite = true;
  for (uint64_t i = 0; i < count; ++i) {
    float magnitude = std::fabs(source[i]);
    isFinite &= magnitude <= std::numeric_limits<float>::max();
    largest = std::max(largest, magnitude);
  }
  if (!isFinite || largest < int8Smallest) {
    std::memset(bytes, 0, count);
    return isFinite ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  float inverse = 127 / largest;
  for (uint64_t i = 0; i < count; ++i)
    bytes[i] = uint8_t(std::bit_cast<uint32_t>(source[i] * inverse + int8Rounding));
  return largest / 127;
}

void encodeInt8(uint8_t *message, const float *source, uint64_t elements) {
  uint64_t blocks = (elements + int8BlockElements - 1) / int8BlockElements;
  uint8_t *bytes = message + blocks * sizeof(float);
  for (uint64_t block = 0; block < blocks; ++block) {
    uint64_t begin = block * int8BlockElements, count = std::min(int8BlockElements, elements - begin);
    float scale = encodeInt8Block(bytes + begin, source + begin, count);
    std::memcpy(message + block * sizeof(float), &scale, sizeof(scale));
  }
}

void decodeInt8(float *destination, const uint8_t *message, uint64_t elements) {
  uint64_t blocks = (elements + int8BlockElements - 1) / int8BlockElements;
  const uint8_t *bytes = message + blocks * sizeof(float);
  for (uint64_t block = 0; block < blocks; ++block) {
    uint64_t begin = block * int8BlockElements, end = std::min(begin + int8BlockElements, elements);
    float scale;
    std::memcpy(&scale, message + block * sizeof(float), sizeof(scale));
    for (uint64_t i = begin; i < end; ++i)
      destination[i] = scale * float(int8_t(bytes[i]));
  }
}

} // namespace intarsia::runtime
