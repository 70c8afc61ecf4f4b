//===- FloatFormats.cpp - Floating-point numbers of 8 bits and fewer ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/FloatFormats.h"

#include <algorithm>
#include <cmath>

namespace intarsia {

float decodeFloat(const FloatFormat &format, unsigned pattern) {
  unsigned magnitude = pattern & ((1u << (format.bits - 1)) - 1);
  float sign = (pattern >> (format.bits - 1)) & 1 ? -1.0f : 1.0f;
  if (magnitude > format.largestPattern) {
    // E5M2 has infinities between its largest number and its NaNs; the other formats have at most a NaN there.
    bool isInfinity = format.bits == 8 && format.mantissaBits == 2 && magnitude == format.largestPattern + 1;
    return isInfinity ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  }
  unsigned exponent = magnitude >> format.mantissaBits;
  unsigned mantissa = magnitude & ((1u << format.mantissaBits) - 1);
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), format.smallestExponent - int(format.mantissaBits));
  mantissa |= 1u << format.mantissaBits;
  return sign * std::ldexp(static_cast<float>(mantissa),
                           int(exponent) - 1 + format.smallestExponent - int(format.mantissaBits));
}

unsigned encodeFloat(const FloatFormat &format, float value) {
  if (std::isnan(value))
    return std::max(format.nan, 0);
  float magnitude = std::min(std::fabs(value), format.largest);
  // Below the smallest normal number the step between numbers is constant. Scaling by a power of two is exact, and a
  // carry of the rounded mantissa increments the exponent.
  int exponent = magnitude == 0 ? format.smallestExponent : std::max(std::ilogb(magnitude), format.smallestExponent);
  auto steps = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, int(format.mantissaBits) - exponent)));
  unsigned pattern = steps + (unsigned(exponent - format.smallestExponent) << format.mantissaBits);
  return pattern | unsigned(std::signbit(value)) << (format.bits - 1);
}

} // namespace intarsia
