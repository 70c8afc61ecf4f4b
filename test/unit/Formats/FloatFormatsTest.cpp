//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/FloatFormats.h"

#include <gtest/gtest.h>

using namespace intarsia;

namespace {

TEST(FloatFormats, RoundsToF16LikeEncodingAndDecoding) {
  auto check = [](uint32_t pattern) {
    auto value = std::bit_cast<float>(pattern);
    EXPECT_EQ(std::bit_cast<uint32_t>(roundToF16(value)), std::bit_cast<uint32_t>(decodeF16(encodeF16(value))))
        << std::hex << pattern;
  };
  for (uint64_t pattern = 0; pattern < uint64_t(1) << 32; pattern += 4099) // prime: all low bits
    check(uint32_t(pattern));
  // Each value of f16, halfway to the next one, and what is beside these.
  for (uint32_t half = 0; half < 0x10000; ++half)
    for (uint32_t beside : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu})
      check(std::bit_cast<uint32_t>(decodeF16(uint16_t(half))) + beside);
}

} // namespace
