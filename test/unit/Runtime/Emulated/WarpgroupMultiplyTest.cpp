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
  ASSERT_TRUE(readDescriptor(descriptor(shared, 0, rowBytes), false, shared, left).ok());
  ASSERT_TRUE(readDescriptor(descriptor(shared, beginB, rowBytes), false, shared, right).ok());
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

namespace {
/// The depth of factors with elements of 16 bits: no others come from registers.
constexpr uint32_t depth = ofFactor / 2;

/// The A of a warp as its lanes have it: PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16", matrix A.
struct Registers {
  uint16_t bits[32][8];
  const void *pointers[32];

  explicit Registers(const std::vector<float> &a) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      pointers[lane] = bits[lane];
      for (uint32_t i = 0; i < 8; ++i) {
        uint32_t row = lane / 4 + (i == 2 || i == 3 || i == 6 || i == 7 ? 8 : 0);
        uint32_t k = lane % 4 * 2 + i % 2 + (i >= 4 ? 8 : 0);
        bits[lane][i] = intarsia::encodeF16(a[row * depth + k]);
      }
    }
  }
};

/// The sums of a warp.
struct Sums {
  float values[32][columns / 2];
  void *pointers[32];

  Sums() {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      pointers[lane] = values[lane];
      std::fill(std::begin(values[lane]), std::end(values[lane]), 0.5f);
    }
  }
  void expectProduct(const std::vector<float> &a, const std::vector<float> &b) const {
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t i = 0; i < columns / 2; ++i) {
        uint32_t row = lane / 4 + 8 * (i / 2 % 2), column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        float expected = 0.5f;
        for (uint32_t k = 0; k < depth; ++k)
          expected += a[row * depth + k] * b[column * depth + k];
        EXPECT_EQ(values[lane][i], expected) << "row " << row << ", column " << column;
      }
  }
};

std::vector<float> numbers(size_t count, int step, int range) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i)
    result[i] = float(int(i * step % range) - range / 2) / 4;
  return result;
}

class RegistersOfWarpgroup : public testing::TestWithParam<uint32_t> {};
} // namespace

TEST_P(RegistersOfWarpgroup, TimesTransposedMatrix) {
  // CUTLASS, include/cute/arch/mma_sm90_desc.hpp, canonical layouts of MN-major matrices in chunks of 16 bytes:
  // Swizzle<B,4,3> o ((2^B,n),(8,k)):((1,LBO),(2^B,SBO)).
  uint32_t bits = GetParam(), chunks = 1 << bits, rowBytes = chunks * 16;
  uint32_t panels = (columns + chunks * 8 - 1) / (chunks * 8), group = 8 * rowBytes, panel = 3072;
  SharedMemory shared;
  ASSERT_TRUE(shared.reset(32 << 10, /*tracked=*/true).ok());
  std::vector<float> a = numbers(16 * depth, 7, 23), b = numbers(columns * depth, 5, 19);
  uint64_t begin = 4 << 10;
  for (uint32_t column = 0; column < columns; ++column)
    for (uint32_t k = 0; k < depth; ++k) {
      uint32_t chunk = column / 8, at = chunk % chunks * 16 + chunk / chunks * panel + k % 8 * rowBytes + k / 8 * group;
      at += column % 8 * 2 + uint32_t(begin);
      at ^= (at >> 7 & (chunks - 1)) << 4;
      uint16_t element = intarsia::encodeF16(b[column * depth + k]);
      std::memcpy(shared.address() + at, &element, 2);
      shared.noteWritten(shared.address() + at, 2);
    }
  uint64_t address = reinterpret_cast<uintptr_t>(shared.address()) + begin;
  uint64_t descriptor =
      (address & 0x3FFFF) / 16 | uint64_t(panel / 16) << 16 | uint64_t(group / 16) << 32 | uint64_t(4 - bits) << 62;
  SharedMatrix right;
  ASSERT_TRUE(readDescriptor(descriptor, /*transposed=*/true, shared, right).ok());
  Registers left(a);
  Sums sums;
  ASSERT_TRUE(
      multiplyRegistersOfWarpgroup(shared, left.pointers, right, columns, /*isBf16=*/false, sums.pointers).ok());
  sums.expectProduct(a, b);
  // The last chunk of the depth is not there.
  shared.forget(shared.address() + begin + panel * (panels - 1) + group + 7 * rowBytes, rowBytes);
  EXPECT_THAT(multiplyRegistersOfWarpgroup(shared, left.pointers, right, columns, false, sums.pointers).message(),
              HasSubstr("where nothing has been written"));
}

INSTANTIATE_TEST_SUITE_P(Swizzles, RegistersOfWarpgroup, testing::Values(1, 2, 3));

TEST(RegistersOfWarpgroupByRows, MultipliesAsSharedMemoryDoes) {
  SharedMemory shared;
  ASSERT_TRUE(shared.reset(16 << 10, /*tracked=*/true).ok());
  std::vector<float> a = numbers(16 * depth, 3, 17), b = numbers(columns * depth, 11, 29);
  storeMatrix(shared, 0, columns, 128, b, ITX_EMULATED_WGMMA_F16);
  SharedMatrix right;
  ASSERT_TRUE(readDescriptor(descriptor(shared, 0, 128), /*transposed=*/false, shared, right).ok());
  Registers left(a);
  Sums sums;
  ASSERT_TRUE(
      multiplyRegistersOfWarpgroup(shared, left.pointers, right, columns, /*isBf16=*/false, sums.pointers).ok());
  sums.expectProduct(a, b);
}

TEST(PendingProducts, AreReadUntilTheirGroupEnds) {
  SharedMemory shared;
  ASSERT_TRUE(shared.reset(16 << 10, /*tracked=*/true).ok());
  SharedMatrix first, second;
  ASSERT_TRUE(readDescriptor(descriptor(shared, 0, 128), /*transposed=*/false, shared, first).ok());
  ASSERT_TRUE(readDescriptor(descriptor(shared, 8 << 10, 128) - 2, /*transposed=*/true, shared, second).ok());
  PendingProducts products;
  ProxyWrites writes;
  ASSERT_TRUE(writes.reset(16 << 10, /*threadCount=*/32).ok());
  ASSERT_TRUE(products.add(first, 0, 8, shared, writes).ok() && products.commit());
  ASSERT_TRUE(products.add(second, 0, 64, shared, writes).ok() && products.commit());
  auto isRead = [&](uint64_t offset) { return shared.areBeingRead(shared.address() + offset, 2); };
  // The factor is the second chunk of 16 columns: in the first row it lies at 32 bytes, in the second at 48.
  EXPECT_TRUE(isRead(32) && isRead(128 + 48) && isRead(8 << 10));
  EXPECT_FALSE(isRead(0) || isRead(8 * 128 + 32) || isRead(4 << 10));
  products.end(2, shared);
  EXPECT_TRUE(isRead(32));
  products.end(1, shared);
  EXPECT_FALSE(isRead(32));
  EXPECT_TRUE(isRead(8 << 10));
  products.end(0, shared);
  EXPECT_FALSE(isRead(8 << 10));
}

TEST(WarpgroupMultiplyErrors, NameWhatIsWrong) {
  SharedMemory shared;
  ASSERT_TRUE(shared.reset(4 << 10, /*tracked=*/true).ok());
  SharedMatrix matrix;
  uint64_t right = descriptor(shared, 0, 128);
  EXPECT_THAT(readDescriptor(right & ~(uint64_t(3) << 62), false, shared, matrix).message(),
              HasSubstr("has no swizzle"));
  EXPECT_THAT(readDescriptor(right | uint64_t(1) << 49, false, shared, matrix).message(),
              HasSubstr("has a base offset"));
  ASSERT_TRUE(readDescriptor(right, false, shared, matrix).ok());
  float sums[4] = {};
  EXPECT_THAT(multiplyOfWarpgroup(shared, matrix, matrix, 0, 0, 8, ITX_EMULATED_WGMMA_F16, sums).message(),
              HasSubstr("where nothing has been written to offset 32"));
  SharedMatrix outside = matrix;
  outside.offset = 4 << 10;
  EXPECT_THAT(multiplyOfWarpgroup(shared, outside, matrix, 0, 0, 8, ITX_EMULATED_WGMMA_F16, sums).message(),
              HasSubstr("of shared memory, which has 4096 bytes"));
}
