//===- FloatFormats.h - Floating-point numbers of 16 bits and fewer -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between their bits and values, for GGUF blocks, block formats, archives in MXFP4 and the runtime. Tests
// compare each with ml_dtypes and with the `gguf` package.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_FLOATFORMATS_H
#define INTARSIA_LIB_FORMATS_FLOATFORMATS_H

#include <bit>
#include <cstdint>
#include <limits>

namespace intarsia {

/// A format of at most 8 bits: value = (1 + mantissa / 2^mantissaBits) * 2^exponent, subnormals below.
struct FloatFormat {
  unsigned mantissaBits;
  int smallestExponent;    ///< smallest exponent of normal numbers
  unsigned largestPattern; ///< bit pattern of `largest`, without the sign
  float largest;
  int nan;       ///< bit pattern of NaN without the sign, -1 if the format has none
  unsigned bits; ///< sign included
};

// Smallest exponents, mantissa bits and largest values: OCP Microscaling Formats 1.0, tables 2 to 6 and 5.1; E4M3 has
// one NaN a sign and no infinities, E5M2 is IEEE-like.
inline constexpr FloatFormat floatE2M1 = {1, 0, 7, 6.0f, -1, 4};
inline constexpr FloatFormat floatE2M3 = {3, 0, 31, 7.5f, -1, 6};
inline constexpr FloatFormat floatE3M2 = {2, -2, 31, 28.0f, -1, 6};
inline constexpr FloatFormat floatE4M3 = {3, -6, 0x7E, 448.0f, 0x7F, 8};
inline constexpr FloatFormat floatE5M2 = {2, -14, 0x7B, 57344.0f, 0x7E, 8};

/// Returns the value of a bit pattern; bits above those of the format are ignored.
float decodeFloat(const FloatFormat &format, unsigned pattern);
/// Returns the bit pattern of the nearest value, ties to even. Larger magnitudes saturate; NaN encodes as NaN if the
/// format has one, otherwise as 0.
unsigned encodeFloat(const FloatFormat &format, float value);

/// Returns 2^(pattern - 127), NaN for 255 (OCP Microscaling Formats 1.0, section 5.4.1).
constexpr float decodeE8M0(uint8_t pattern) {
  return pattern == 255 ? std::numeric_limits<float>::quiet_NaN()
                        : std::bit_cast<float>(pattern == 0 ? 0x00400000u : uint32_t(pattern) << 23);
}

/// Returns the value of an IEEE 754 binary16.
constexpr float decodeF16(uint16_t pattern) {
  // 2^112 is between the bias of f32's exponent and that of f16, also for subnormals.
  float magnitude = std::bit_cast<float>(uint32_t(pattern & 0x7FFF) << 13) * 0x1p112f;
  uint32_t infinity = magnitude >= 65536.0f ? 0x7F800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | infinity | uint32_t(pattern & 0x8000) << 16);
}

/// Rounds to nearest, ties to even; larger magnitudes become infinity.
constexpr uint16_t encodeF16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = bits >> 16 & 0x8000;
  bits &= 0x7FFFFFFF;
  float magnitude = std::bit_cast<float>(bits);
  if (bits > 0x7F800000)
    return sign | 0x7E00; // NaN
  if (magnitude >= 65520.0f)
    return sign | 0x7C00;
  if (magnitude < 0x1p-14f) // 2^-24, the step of subnormals, is the last bit of numbers from 0.5 to 1
    return sign | uint16_t(std::bit_cast<uint32_t>(magnitude + 0.5f) - std::bit_cast<uint32_t>(0.5f));
  return sign | uint16_t((bits - (112u << 23) + 0xFFF + (bits >> 13 & 1)) >> 13);
}

/// Returns decodeF16(encodeF16(value)), without a branch: loops of it become vector instructions.
constexpr float roundToF16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits & 0x80000000;
  auto magnitude = std::bit_cast<float>(bits ^ sign);
  uint32_t normal = ((bits ^ sign) + 0xFFF + (bits >> 13 & 1)) & ~uint32_t(0x1FFF);
  auto subnormal = std::bit_cast<uint32_t>((magnitude + 0.5f) - 0.5f); // as in encodeF16
  uint32_t rounded = magnitude < 0x1p-14f ? subnormal : normal;
  rounded = magnitude >= 65520.0f ? 0x7F800000 : rounded;
  rounded = magnitude != magnitude ? 0x7FC00000 : rounded;
  return std::bit_cast<float>(rounded | sign);
}

/// Returns the value of a bf16, the upper half of an f32.
constexpr float decodeBf16(uint16_t pattern) { return std::bit_cast<float>(uint32_t(pattern) << 16); }

/// Rounds to nearest, ties to even.
constexpr uint16_t encodeBf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000)
    return (bits >> 16 & 0x8000) | 0x7FC0; // NaN
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

} // namespace intarsia

#endif
