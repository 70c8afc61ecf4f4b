//===- QuantizedGroups.cpp - Groups of quantized values of a cache ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/QuantizedGroups.h"

#include "lib/Formats/FloatFormats.h"

#include <algorithm>
#include <cmath>

namespace intarsia::runtime {

static float scaleOf(const GroupParameters &parameters) { return decodeF16(uint16_t(parameters.scale << 7)); }

static int zeroOf(const GroupParameters &parameters, int bits) {
  return bits == 4 ? int(int8_t(parameters.zero)) : int(parameters.zero);
}

/// Rounds to the nearest integer, to even between two, in a range. NaN becomes the lowest one, as in kernels.
static int roundIn(float value, int low, int high) {
  return value > float(low) ? int(std::nearbyint(std::min(value, float(high)))) : low;
}

float groupValue(const GroupParameters &parameters, int bits, uint8_t quantized) {
  return scaleOf(parameters) * float(int(quantized) - zeroOf(parameters, bits));
}

GroupParameters chooseGroup(const std::vector<float> &values, int bits) {
  auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  float low = *lowest, high = *highest, least = 0;
  if (bits == 4) {
    least = std::max((high - low) / 15, std::max(std::fabs(low), std::fabs(high)) / 127);
  } else {
    low = std::min(low, 0.0f);
    high = std::max(high, 0.0f);
    least = (high - low) / 255;
  }
  GroupParameters parameters;
  constexpr int leastScale = 1, mostScale = 0xF7; // 2^-17; the largest that is finite
  parameters.scale = uint8_t(std::clamp((int(encodeF16(least)) + 127) >> 7, leastScale, mostScale));
  float zero = -low / scaleOf(parameters);
  parameters.zero = uint8_t(bits == 4 ? roundIn(zero, -128, 127) : roundIn(zero, 0, 255));
  return parameters;
}

uint8_t quantizeInGroup(const GroupParameters &parameters, int bits, float value) {
  int high = bits == 4 ? 15 : 255;
  int zero = zeroOf(parameters, bits);
  return uint8_t(std::clamp(roundIn(value / scaleOf(parameters), -(1 << 20), 1 << 20) + zero, 0, high));
}

uint8_t readQuantized(const uint8_t *bytes, int bits, size_t element) {
  if (bits == 8)
    return bytes[element];
  uint8_t byte = bytes[element / 32 * 16 + element % 16];
  return element % 32 < 16 ? byte & 15 : byte >> 4;
}

void writeQuantized(uint8_t *bytes, int bits, size_t element, uint8_t quantized) {
  if (bits == 8) {
    bytes[element] = quantized;
    return;
  }
  uint8_t &byte = bytes[element / 32 * 16 + element % 16];
  byte = element % 32 < 16 ? uint8_t((byte & 0xF0) | quantized) : uint8_t((byte & 15) | quantized << 4);
}

} // namespace intarsia::runtime
