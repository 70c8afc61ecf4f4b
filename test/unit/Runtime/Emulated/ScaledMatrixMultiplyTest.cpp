//===- ScaledMatrixMultiplyTest.cpp - Tests of matrix instructions whose elements have scales --------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/FloatFormats.h"
#include "test/unit/Runtime/Emulated/Kernels.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {

/// What the lanes of a warp have: registers of A and B, and sums; then words of scales.
struct Registers {
  int32_t a[4], b[4];
  float sums[4];
  int32_t scalesA, scalesB;
};

template <int32_t kind> void multiply(int64_t selectorA, int64_t selectorB, Registers *all) {
  Registers own = all[itx_emulated_thread_id(0)];
  itx_emulated_mma_scaled(kind, own.sums, own.a, own.b, own.sums, own.scalesA, int32_t(selectorA), own.scalesB,
                          int32_t(selectorB));
  std::memcpy(all[itx_emulated_thread_id(0)].sums, own.sums, sizeof(own.sums));
}

using Multiply = void (*)(int64_t, int64_t, Registers *);
struct Instruction {
  Multiply function;
  int lanes, n, k, block;
  bool isE8M0;
};
constexpr Instruction mxfp4 = {multiply<ITX_EMULATED_M16N8K64_F32_MXFP4>, 32, 8, 64, 32, true};
constexpr Instruction nvfp4 = {multiply<ITX_EMULATED_M16N8K64_F32_NVFP4>, 32, 8, 64, 16, false};
constexpr Instruction cdna = {multiply<ITX_EMULATED_MFMA_SCALE_16X16X128_F32_MXFP4>, 64, 16, 128, 32, true};

struct Byte {
  int lane, byte;
};
/// Returns where the scale of a block of a row of A, or of a column of B, is.
Byte placeOfScale(const Instruction &mma, bool isB, int row, int block, int byte, int thread) {
  // CDNA 4: lanes 0 to 15 have the first 32 k's of rows 0 to 15, the next 16 the next ones.
  if (mma.lanes == 64)
    return {16 * block + row, byte};
  // PTX ISA, figures of "Block scaling for mma.sync": in a quad, A's rows g and g + 8; one column of B.
  if (isB)
    return {4 * row + thread, byte + block};
  return {row < 8 ? 4 * row + 2 * thread : 4 * (row - 8) + 2 * thread + 1, byte + block};
}
/// Returns the lane and the number of an element of A, or of B with its columns as rows.
std::pair<int, int> placeOfElement(const Instruction &mma, bool isB, int row, int k) {
  if (mma.lanes == 64)
    return {16 * (k / 32) + row, k % 32};
  // PTX ISA, "Matrix fragments for mma.m16n8k64": eight k's a register, four lanes a row, upper rows and k's above 32
  // in registers of their own.
  int half = k / 32, number = isB ? half : 2 * half + row / 8;
  return {4 * (row % 8) + k % 32 / 8, 8 * number + k % 8};
}

/// Multiplies random elements by scales that differ in all lanes and bytes.
void check(const Instruction &mma, int byteA, int threadA, int byteB, int threadB) {
  std::mt19937 random(uint32_t(byteA + 8 * threadB));
  std::vector<Registers> registers(size_t(mma.lanes));
  for (Registers &lane : registers) {
    for (int i = 0; i < 4; ++i) {
      lane.a[i] = int32_t(random());
      lane.b[i] = int32_t(random());
      lane.sums[i] = float(i) - 1.5f;
    }
    // Exponents near that of 1; any numbers.
    lane.scalesA = int32_t(mma.isE8M0 ? (random() & 0x07070707) + 0x7a7a7a7a : random() & 0x77777777);
    lane.scalesB = int32_t(mma.isE8M0 ? (random() & 0x07070707) + 0x7a7a7a7a : random() & 0x77777777);
  }
  auto scale = [&](bool isB, int row, int block) -> double {
    Byte at = placeOfScale(mma, isB, row, block, isB ? byteB : byteA, isB ? threadB : threadA);
    const Registers &lane = registers[size_t(at.lane)];
    uint32_t pattern = uint32_t(isB ? lane.scalesB : lane.scalesA) >> 8 * at.byte & 0xff;
    return mma.isE8M0 ? std::ldexp(1.0, int(pattern) - 127) : decodeFloat(floatE4M3, pattern);
  };
  auto element = [&](bool isB, int row, int k) -> double {
    auto [lane, number] = placeOfElement(mma, isB, row, k);
    const int32_t *words = isB ? registers[size_t(lane)].b : registers[size_t(lane)].a;
    return decodeFloat(floatE2M1, uint32_t(words[number / 8]) >> 4 * (number % 8) & 15);
  };
  std::vector<Registers> results = registers;
  GridLaunch launch = launchOf(mma.function, uint32_t(mma.lanes), int64_t(byteA | threadA << 8),
                               int64_t(byteB | threadB << 8), results.data());
  launch.warpSize = uint32_t(mma.lanes);
  Status status = runOn(launch);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int lane = 0; lane < mma.lanes; ++lane)
    for (int i = 0; i < 4; ++i) {
      int row = mma.lanes == 64 ? lane / 16 * 4 + i : lane / 4 + 8 * (i / 2);
      int column = mma.lanes == 64 ? lane % 16 : lane % 4 * 2 + i % 2;
      double sum = i - 1.5, magnitude = std::abs(sum);
      for (int k = 0; k < mma.k; ++k) {
        double product = element(false, row, k) * scale(false, row, k / mma.block) * element(true, column, k) *
                         scale(true, column, k / mma.block);
        sum += product;
        magnitude += std::abs(product);
      }
      ASSERT_LE(std::abs(results[size_t(lane)].sums[i] - sum), magnitude * (mma.k + 1) * 0x1p-24)
          << "lane " << lane << ", element " << i;
    }
}

TEST(ScaledMatrixMultiply, ScalesAreThoseOfSelectors) {
  for (int threadA : {0, 1})
    for (int threadB : {0, 1, 2, 3}) {
      check(mxfp4, 0, threadA, 2, threadB);
      check(mxfp4, 2, threadA, 0, threadB);
      check(nvfp4, 0, threadA, 0, threadB);
    }
  for (int byte : {0, 1, 2, 3})
    check(cdna, byte, 0, 3 - byte, 0);
}

TEST(ScaledMatrixMultiply, NanOfAScaleIsThatOfItsRow) {
  std::vector<Registers> registers(32);
  for (Registers &lane : registers)
    lane.scalesA = lane.scalesB = 0x7f7f7f7f;
  registers[5].scalesA = 0x7f7fff7f; // row 9, the second block, of elements that are zeros
  ASSERT_TRUE(runOn(launchOf(mxfp4.function, 32, int64_t(0), int64_t(0), registers.data())).ok());
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(std::isnan(registers[size_t(lane)].sums[i]), lane / 4 + 8 * (i / 2) == 9);
}

TEST(ScaledMatrixMultiply, SelectorsThatAreNoneAreRefused) {
  std::vector<Registers> registers(64);
  auto refusal = [&](const Instruction &mma, int64_t selectorA, int64_t selectorB) {
    GridLaunch launch = launchOf(mma.function, uint32_t(mma.lanes), selectorA, selectorB, registers.data());
    launch.warpSize = uint32_t(mma.lanes);
    return std::string(runOn(launch).message());
  };
  EXPECT_THAT(refusal(mxfp4, 1, 0), HasSubstr("m16n8k64_f32_mxfp4 has no scales of A at byte 1 of thread 0"));
  EXPECT_THAT(refusal(mxfp4, 0, 4 << 8), HasSubstr("has no scales of B at byte 0 of thread 4"));
  EXPECT_THAT(refusal(nvfp4, 2 << 8, 0), HasSubstr("m16n8k64_f32_nvfp4 has no scales of A at byte 0 of thread 2"));
  EXPECT_THAT(refusal(nvfp4, 0, 2), HasSubstr("has no scales of B at byte 2 of thread 0"));
  EXPECT_THAT(refusal(cdna, 0, 4),
              HasSubstr("mfma_scale_16x16x128_f32_mxfp4 has no scales of B at byte 4 of thread 0"));
  EXPECT_THAT(refusal({[](int64_t, int64_t, Registers *) {
                         itx_emulated_mma(ITX_EMULATED_M16N8K64_F32_NVFP4, nullptr, nullptr, nullptr, nullptr);
                       },
                       32, 8, 64, 16, false},
                      0, 0),
              HasSubstr("there is no matrix instruction of kind 12 without scales"));
  EXPECT_THAT(refusal({multiply<ITX_EMULATED_M16N8K16_F32_F16>, 32, 8, 16, 16, false}, 0, 0),
              HasSubstr("there is no matrix instruction of kind 1 with scales"));
}

} // namespace
