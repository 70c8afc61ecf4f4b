//===- Mxfp4.cpp - Weights that archives hold in MXFP4 ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/Mxfp4.h"

#include "lib/Formats/FloatFormats.h"
#include <array>

namespace intarsia::assemble {

/// Computes the bf16 value of every code with every scale. They are exact, subnormal or not: two bits of mantissa and
/// the exponents of E8M0 fit.
static std::array<std::array<uint16_t, 16>, 256> makeTable() {
  std::array<std::array<uint16_t, 16>, 256> table;
  for (unsigned scale = 0; scale < 256; ++scale)
    for (unsigned code = 0; code < 16; ++code)
      table[scale][code] = encodeBf16(decodeFloat(floatE2M1, code) * decodeE8M0(uint8_t(scale)));
  return table;
}

const uint16_t *decodeMxfp4(const void *blocks, const void *scales, int64_t first, int64_t count, uint16_t *bf16) {
  static const auto table = makeTable();
  const auto *codes = static_cast<const uint8_t *>(blocks), *exponents = static_cast<const uint8_t *>(scales);
  uint16_t *next = bf16;
  for (int64_t block = first / mxfp4Block; block < (first + count) / mxfp4Block; ++block) {
    const std::array<uint16_t, 16> &numbers = table[exponents[block]];
    for (int64_t byte = block * (mxfp4Block / 2); byte < (block + 1) * (mxfp4Block / 2); ++byte) {
      *next++ = numbers[codes[byte] & 15];
      *next++ = numbers[codes[byte] >> 4];
    }
  }
  return bf16;
}

} // namespace intarsia::assemble
