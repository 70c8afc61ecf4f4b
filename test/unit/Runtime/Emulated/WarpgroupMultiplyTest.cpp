//===- WarpgroupMultiplyTest.cpp - Matrix instructions of four warps --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/WarpgroupMultiply.h"

#include "intarsia/emulated_abi.h"
#include "lib/Formats/FloatFormats.h"
#include "lib/Runtime/Emulated/SharedMemory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <cstring>
#include <vector>

using namespace intarsia::runtime;
using testing::HasSubstr;

namespace {
constexpr uint32_t rows = 64, columns = 24, ofFactor = 32; // bytes of a row that are multiplied

/// Chunks of 16 bytes of a row of 64 or 128 bytes, by the figures of the PTX ISA, "Shared memory matrix layout":
/// swizzle<2, 4, 3> and swizzle<3, 4, 3>, written as tables.
uint32_t chunkOf(uint32_t row, uint32_t chunk, uint32_t rowBytes) {
  static constexpr uint32_t of64[8][4] = {{0, 1, 2, 3}, {0, 1, 2, 3}, {1, 0, 3, 2}, {1, 0, 3, 2},
                                          {2, 3, 0, 1}, {2, 3, 0, 1}, {3, 2, 1, 0}, {3, 2, 1, 0}};
  return rowBytes == 64 ? of64[row % 8][chunk] : chunk ^ (row % 8);
}

/// Elements of a row.
uint32_t depthOf(int32_t element) { return element == ITX_EMULATED_WGMMA_E4M3 ? ofFactor : ofFactor / 2; }

/// Stores a matrix as a tensor copy with a swizzle would, its second 32 bytes being the factor.
void storeMatrix(SharedMemory &shared, uint64_t begin, uint32_t rowCount, uint32_t rowBytes,
                 const std::vector<float> &values, int32_t element) {
  uint32_t depth = depthOf(element), bytes = ofFactor / depth;
  for (uint32_t row = 0; row < rowCount; ++row)
    for (uint32_t k = 0; k < depth; ++k) {
      uint32_t byte = ofFactor + k * bytes;
      uint8_t *at = shared.address() + begin + row * rowBytes + chunkOf(row, byte / 16, rowBytes) * 16 + byte % 16;
      float value = values[row * depth + k];
      uint16_t bits = bytes == 1 ? uint16_t(encodeFloat(intarsia::floatE4M3, value)) : intarsia::encodeF16(value);
      std::memcpy(at, &bits, bytes);
      shared.noteWritten(at, bytes);
    }
}

uint64_t descriptor(const SharedMemory &shared, uint64_t begin, uint32_t rowBytes) {
  uint64_t address = reinterpret_cast<uintptr_t>(shared.address()) + begin + ofFactor;
  return (address & 0x3FFFF) / 16 | uint64_t(8 * rowBytes / 16) << 32 | uint64_t(rowBytes == 64 ? 2 : 1) << 62;
}

class WarpgroupMultiply : public testing::TestWithParam<std::tuple<uint32_t, int32_t>> {};
} // namespace

TEST_P(WarpgroupMultiply, AddsProducts) {
  auto [rowBytes, element] = GetParam();
  uint32_t depth = depthOf(element);
  SharedMemory shared;
  ASSERT_TRUE(shared.reset(32 << 10, /*tracked=*/true).ok());
  std::vector<float> a(rows * depth), b(columns * depth);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = float(int(i * 7 % 23) - 11) / 4;
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = float(int(i * 5 % 19) - 9) / 8;
  uint64_t beginB = 16 << 10;
  storeMatrix(shared, 0, rows, rowBytes, a, element);
  storeMatrix(shared, beginB, columns, rowBytes, b, element);
  SharedMatrix left, right;
  ASSERT_TRUE(readDescriptor(descriptor(shared, 0, rowBytes), shared, left).ok());
  ASSERT_TRUE(readDescriptor(descriptor(shared, beginB, rowBytes), shared, right).ok());
  std::vector<bool> seen(rows * columns);
  for (uint32_t warp = 0; warp < 4; ++warp)
    for (uint32_t lane = 0; lane < 32; ++lane) {
      float sums[columns / 2];
      std::fill(std::begin(sums), std::end(sums), 0.5f);
      ASSERT_TRUE(multiplyOfWarpgroup(shared, left, right, warp, lane, columns, element, sums).ok());
      for (uint32_t i = 0; i < columns / 2; ++i) {
        // PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16".
        uint32_t row = warp * 16 + lane / 4 + 8 * (i / 2 % 2), column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        float expected = 0.5f;
        for (uint32_t k = 0; k < depth; ++k)
          expected += a[row * depth + k] * b[column * depth + k];
        EXPECT_EQ(sums[i], expected) << "row " << row << ", column " << column;
        seen[row * columns + column] = true;
      }
    }
  EXPECT_THAT(seen, testing::Each(true));
}

INSTANTIATE_TEST_SUITE_P(Swizzles, WarpgroupMultiply,
                         testing::Combine(testing::Values(64, 128),
                                          testing::Values(ITX_EMULATED_WGMMA_F16, ITX_EMULATED_WGMMA_E4M3)));

TEST(WarpgroupMultiplyErrors, NameWhatIsWrong) {
  SharedMemory shared;
  ASSERT_TRUE(shared.reset(4 << 10, /*tracked=*/true).ok());
  SharedMatrix matrix;
  uint64_t right = descriptor(shared, 0, 128);
  EXPECT_THAT(readDescriptor(right & ~(uint64_t(3) << 62), shared, matrix).message(), HasSubstr("has no swizzle"));
  EXPECT_THAT(readDescriptor(right | uint64_t(1) << 49, shared, matrix).message(), HasSubstr("has a base offset"));
  ASSERT_TRUE(readDescriptor(right, shared, matrix).ok());
  float sums[4] = {};
  EXPECT_THAT(multiplyOfWarpgroup(shared, matrix, matrix, 0, 0, 8, ITX_EMULATED_WGMMA_F16, sums).message(),
              HasSubstr("where nothing has been written to offset 32"));
  SharedMatrix outside = matrix;
  outside.offset = 4 << 10;
  EXPECT_THAT(multiplyOfWarpgroup(shared, outside, matrix, 0, 0, 8, ITX_EMULATED_WGMMA_F16, sums).message(),
              HasSubstr("of shared memory, which has 4096 bytes"));
}
