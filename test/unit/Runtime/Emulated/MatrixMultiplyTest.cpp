//===- MatrixMultiplyTest.cpp - Matrix instructions against plain products -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
// Fragments are filled and read by formulas that are written here from the figures of the manuals, element by element:
// none is shared with the implementation.
#include "lib/Runtime/Emulated/MatrixMultiply.h"
#include "lib/Formats/FloatFormats.h"
#include "test/unit/Runtime/Emulated/Kernels.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <set>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::launchOf;
using intarsia::testing::runOn;
using ::testing::HasSubstr;

namespace {

/// A row and a column of a matrix.
struct Position {
  int row, column;
};
/// The row and column of element i of a lane's fragment.
using Placement = std::function<Position(int lane, int i)>;

/// The storage of elements: their bits, and the value of some bits.
struct Encoding {
  int bits;
  std::function<uint32_t(double)> encode;
  std::function<double(uint32_t)> decode;
};

uint32_t bitsOf(float value) { return std::bit_cast<uint32_t>(value); }

const Encoding f32 = {32, [](double v) { return bitsOf(float(v)); },
                      [](uint32_t b) { return std::bit_cast<float>(b); }};
/// The low bits are set, to see that they are ignored.
const Encoding tf32 = {32, [](double v) { return (bitsOf(float(v)) & ~0x1fffu) | 0x1555; },
                       [](uint32_t b) { return std::bit_cast<float>(b & ~0x1fffu); }};
const Encoding f16 = {16, [](double v) -> uint32_t { return encodeF16(float(v)); },
                      [](uint32_t b) { return decodeF16(uint16_t(b)); }};
const Encoding bf16 = {16, [](double v) -> uint32_t { return encodeBf16(float(v)); },
                       [](uint32_t b) { return decodeBf16(uint16_t(b)); }};
const Encoding e4m3 = {8, [](double v) { return encodeFloat(floatE4M3, float(v)); },
                       [](uint32_t b) { return decodeFloat(floatE4M3, b); }};
const Encoding e5m2 = {8, [](double v) { return encodeFloat(floatE5M2, float(v)); },
                       [](uint32_t b) { return decodeFloat(floatE5M2, b); }};
/// CDNA 3's formats: value = (-1)^s * 2^(e - bias) * 1.m, with a bias that is one more than that of the OCP's formats.
double decodeFnuz(uint32_t b, int mantissaBits, int bias) {
  int exponent = int(b & 0x7f) >> mantissaBits, mantissa = int(b) & ((1 << mantissaBits) - 1);
  double fraction = double(mantissa) / (1 << mantissaBits);
  double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return b == 0x80 ? NAN : b & 0x80 ? -magnitude : magnitude;
}
/// Returns the bits of the value that is nearest, by looking at all.
uint32_t encodeFnuz(double v, int mantissaBits, int bias) {
  uint32_t best = 0;
  for (uint32_t b = 0; b < 256; ++b)
    if (std::abs(decodeFnuz(b, mantissaBits, bias) - v) < std::abs(decodeFnuz(best, mantissaBits, bias) - v))
      best = b;
  return best;
}
const Encoding e4m3fnuz = {8, [](double v) { return encodeFnuz(v, 3, 8); },
                           [](uint32_t b) { return decodeFnuz(b, 3, 8); }};
const Encoding e5m2fnuz = {8, [](double v) { return encodeFnuz(v, 2, 16); },
                           [](uint32_t b) { return decodeFnuz(b, 2, 16); }};
const Encoding i8 = {8, [](double v) { return uint32_t(int32_t(v * 20)) & 0xff; },
                     [](uint32_t b) { return double(int8_t(b)); }};
const Encoding i32 = {32, [](double v) { return uint32_t(int32_t(v * 1000)); },
                      [](uint32_t b) { return double(int32_t(b)); }};

// ---- PTX ISA, "Warp-level matrix fragment" of each shape -------------------------------------------------------

int groupOf(int lane) { return lane >> 2; }
int memberOf(int lane) { return lane % 4; }

// mma.m16n8k16, .f16 and .bf16
Position ptxA16(int lane, int i) {
  int row = (0 <= i && i < 2) || (4 <= i && i < 6) ? groupOf(lane) : groupOf(lane) + 8;
  int column = i < 4 ? memberOf(lane) * 2 + (i & 1) : memberOf(lane) * 2 + (i & 1) + 8;
  return {row, column};
}
Position ptxB16(int lane, int i) {
  return {i < 2 ? memberOf(lane) * 2 + (i & 1) : memberOf(lane) * 2 + (i & 1) + 8, groupOf(lane)};
}
Position ptxC(int lane, int i) { return {i < 2 ? groupOf(lane) : groupOf(lane) + 8, memberOf(lane) * 2 + (i & 1)}; }
// mma.m16n8k8, .tf32
Position ptxA8(int lane, int i) {
  return {i == 0 || i == 2 ? groupOf(lane) : groupOf(lane) + 8, i == 0 || i == 1 ? memberOf(lane) : memberOf(lane) + 4};
}
Position ptxB8(int lane, int i) { return {i == 0 ? memberOf(lane) : memberOf(lane) + 4, groupOf(lane)}; }
// mma.m16n8k32, elements of 8 bits
Position ptxA32(int lane, int i) {
  int row = (0 <= i && i < 4) || (8 <= i && i < 12) ? groupOf(lane) : groupOf(lane) + 8;
  int column = i < 8 ? memberOf(lane) * 4 + (i & 3) : memberOf(lane) * 4 + (i & 3) + 16;
  return {row, column};
}
Position ptxB32(int lane, int i) {
  return {i < 4 ? memberOf(lane) * 4 + (i & 3) : memberOf(lane) * 4 + (i & 3) + 16, groupOf(lane)};
}

// mma.m16n8k16, elements of 8 bits
Position ptxA16I8(int lane, int i) { return {i < 4 ? groupOf(lane) : groupOf(lane) + 8, memberOf(lane) * 4 + (i & 3)}; }
Position ptxB16I8(int lane, int i) { return {memberOf(lane) * 4 + i, groupOf(lane)}; }

// ---- CDNA 3 ISA, dense matrix layouts: lanes 0-15 hold k 0-3, lanes 16-31 k 4-7, and so on ----------------------

Placement cdnaA(int rows, int perLane) {
  return [=](int lane, int i) { return Position{lane & (rows - 1), (lane / rows) * perLane + i}; };
}
Placement cdnaB(int columns, int perLane) {
  return [=](int lane, int i) { return Position{(lane / columns) * perLane + i, lane & (columns - 1)}; };
}
// Register i of lanes 0-15 is row i, of lanes 16-31 row 4 + i, …
Position cdnaC16(int lane, int i) { return {(lane >> 4) * 4 + i, lane & 15}; }
// Registers 0-3 of lanes 0-31 are rows 0-3, of lanes 32-63 rows 4-7; registers 4-7 are rows 8-11 and 12-15, …
Position cdnaC32(int lane, int i) { return {(i >> 2) * 8 + (lane >> 5) * 4 + (i & 3), lane & 31}; }

// ---- RDNA 3 and 4 ISA, WMMA ------------------------------------------------------------------------------------

Position rdna3A(int lane, int i) { return {lane & 15, i}; }
Position rdna3B(int lane, int i) { return {i, lane & 15}; }
// Register i holds row 2 * i in lanes 0-15 and row 2 * i + 1 in lanes 16-31.
Position rdna3C(int lane, int i) { return {2 * i + (lane >> 4), lane & 15}; }
// Lanes 0-15 hold k 0-7, lanes 16-31 k 8-15; registers 0-7 are rows 0-7 of the result in lanes 0-15, 8-15 in others.
Position rdna4A(int lane, int i) { return {lane & 15, (lane >> 4) * 8 + i}; }
Position rdna4B(int lane, int i) { return {(lane >> 4) * 8 + i, lane & 15}; }
Position rdna4C(int lane, int i) { return {(lane >> 4) * 8 + i, lane & 15}; }

// ---- All kinds -------------------------------------------------------------------------------------------------

struct Instruction {
  int32_t kind;
  const char *name;
  int lanes, m, n, k;
  const Encoding &a, &b, &c;
  int elementsA, elementsB, elementsC;
  Placement placeA, placeB, placeC;
};

const std::vector<Instruction> &instructions() {
  static const std::vector<Instruction> all = {
      {ITX_EMULATED_M16N8K16_F32_F16, "mma16_f16", 32, 16, 8, 16, f16, f16, f32, 8, 4, 4, ptxA16, ptxB16, ptxC},
      {ITX_EMULATED_M16N8K16_F32_BF16, "mma16_bf16", 32, 16, 8, 16, bf16, bf16, f32, 8, 4, 4, ptxA16, ptxB16, ptxC},
      {ITX_EMULATED_M16N8K16_F16_F16, "mma16_f16_f16", 32, 16, 8, 16, f16, f16, f16, 8, 4, 4, ptxA16, ptxB16, ptxC},
      {ITX_EMULATED_M16N8K8_F32_TF32, "mma8_tf32", 32, 16, 8, 8, tf32, tf32, f32, 4, 2, 4, ptxA8, ptxB8, ptxC},
      {ITX_EMULATED_M16N8K32_I32_I8, "mma32_i8", 32, 16, 8, 32, i8, i8, i32, 16, 8, 4, ptxA32, ptxB32, ptxC},
      {ITX_EMULATED_M16N8K16_I32_I8, "mma16_i8", 32, 16, 8, 16, i8, i8, i32, 8, 4, 4, ptxA16I8, ptxB16I8, ptxC},
      {ITX_EMULATED_M16N8K32_F32_E4M3, "mma32_e4m3", 32, 16, 8, 32, e4m3, e4m3, f32, 16, 8, 4, ptxA32, ptxB32, ptxC},
      {ITX_EMULATED_M16N8K32_F32_E5M2, "mma32_e5m2", 32, 16, 8, 32, e5m2, e5m2, f32, 16, 8, 4, ptxA32, ptxB32, ptxC},
      {ITX_EMULATED_M16N8K32_F32_E4M3_E5M2, "mma32_e4m3_e5m2", 32, 16, 8, 32, e4m3, e5m2, f32, 16, 8, 4, ptxA32, ptxB32,
       ptxC},
      {ITX_EMULATED_M16N8K32_F32_E5M2_E4M3, "mma32_e5m2_e4m3", 32, 16, 8, 32, e5m2, e4m3, f32, 16, 8, 4, ptxA32, ptxB32,
       ptxC},
      {ITX_EMULATED_MFMA_16X16X16_F32_F16, "mfma16_f16", 64, 16, 16, 16, f16, f16, f32, 4, 4, 4, cdnaA(16, 4),
       cdnaB(16, 4), cdnaC16},
      {ITX_EMULATED_MFMA_16X16X16_F32_BF16, "mfma16_bf16", 64, 16, 16, 16, bf16, bf16, f32, 4, 4, 4, cdnaA(16, 4),
       cdnaB(16, 4), cdnaC16},
      {ITX_EMULATED_MFMA_32X32X8_F32_F16, "mfma32_f16", 64, 32, 32, 8, f16, f16, f32, 4, 4, 16, cdnaA(32, 4),
       cdnaB(32, 4), cdnaC32},
      {ITX_EMULATED_MFMA_32X32X8_F32_BF16, "mfma32_bf16", 64, 32, 32, 8, bf16, bf16, f32, 4, 4, 16, cdnaA(32, 4),
       cdnaB(32, 4), cdnaC32},
      {ITX_EMULATED_MFMA_16X16X32_I32_I8, "mfma16_i8", 64, 16, 16, 32, i8, i8, i32, 8, 8, 4, cdnaA(16, 8), cdnaB(16, 8),
       cdnaC16},
      {ITX_EMULATED_MFMA_16X16X16_I32_I8, "mfma16x16_i8", 64, 16, 16, 16, i8, i8, i32, 4, 4, 4, cdnaA(16, 4),
       cdnaB(16, 4), cdnaC16},
      {ITX_EMULATED_MFMA_16X16X4_F32_F32, "mfma16_f32", 64, 16, 16, 4, f32, f32, f32, 1, 1, 4, cdnaA(16, 1),
       cdnaB(16, 1), cdnaC16},
      {ITX_EMULATED_MFMA_32X32X16_I32_I8, "mfma32_i8", 64, 32, 32, 16, i8, i8, i32, 8, 8, 16, cdnaA(32, 8),
       cdnaB(32, 8), cdnaC32},
      {ITX_EMULATED_MFMA_16X16X32_F32_E4M3FNUZ, "mfma16_e4m3fnuz", 64, 16, 16, 32, e4m3fnuz, e4m3fnuz, f32, 8, 8, 4,
       cdnaA(16, 8), cdnaB(16, 8), cdnaC16},
      {ITX_EMULATED_MFMA_16X16X32_F32_E5M2FNUZ, "mfma16_e5m2fnuz", 64, 16, 16, 32, e5m2fnuz, e5m2fnuz, f32, 8, 8, 4,
       cdnaA(16, 8), cdnaB(16, 8), cdnaC16},
      {ITX_EMULATED_MFMA_16X16X32_F32_E4M3, "mfma16_e4m3", 64, 16, 16, 32, e4m3, e4m3, f32, 8, 8, 4, cdnaA(16, 8),
       cdnaB(16, 8), cdnaC16},
      {ITX_EMULATED_MFMA_16X16X32_F32_E5M2, "mfma16_e5m2", 64, 16, 16, 32, e5m2, e5m2, f32, 8, 8, 4, cdnaA(16, 8),
       cdnaB(16, 8), cdnaC16},
      {ITX_EMULATED_MFMA_16X16X32_F32_F16, "mfma16x32_f16", 64, 16, 16, 32, f16, f16, f32, 8, 8, 4, cdnaA(16, 8),
       cdnaB(16, 8), cdnaC16},
      {ITX_EMULATED_MFMA_16X16X32_F32_BF16, "mfma16x32_bf16", 64, 16, 16, 32, bf16, bf16, f32, 8, 8, 4, cdnaA(16, 8),
       cdnaB(16, 8), cdnaC16},
      {ITX_EMULATED_MFMA_32X32X16_F32_F16, "mfma32x16_f16", 64, 32, 32, 16, f16, f16, f32, 8, 8, 16, cdnaA(32, 8),
       cdnaB(32, 8), cdnaC32},
      {ITX_EMULATED_MFMA_32X32X16_F32_BF16, "mfma32x16_bf16", 64, 32, 32, 16, bf16, bf16, f32, 8, 8, 16, cdnaA(32, 8),
       cdnaB(32, 8), cdnaC32},
      {ITX_EMULATED_WMMA_RDNA3_16X16X16_I32_I8, "wmma3_i8", 32, 16, 16, 16, i8, i8, i32, 16, 16, 8, rdna3A, rdna3B,
       rdna3C},
      {ITX_EMULATED_WMMA_RDNA4_16X16X16_I32_I8, "wmma4_i8", 32, 16, 16, 16, i8, i8, i32, 8, 8, 8, rdna4A, rdna4B,
       rdna4C},
      {ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_E4M3, "wmma4_e4m3", 32, 16, 16, 16, e4m3, e4m3, f32, 8, 8, 8, rdna4A,
       rdna4B, rdna4C},
      {ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_E5M2, "wmma4_e5m2", 32, 16, 16, 16, e5m2, e5m2, f32, 8, 8, 8, rdna4A,
       rdna4B, rdna4C},
      {ITX_EMULATED_WMMA_RDNA3_16X16X16_F32_F16, "wmma3_f16", 32, 16, 16, 16, f16, f16, f32, 16, 16, 8, rdna3A, rdna3B,
       rdna3C},
      {ITX_EMULATED_WMMA_RDNA3_16X16X16_F32_BF16, "wmma3_bf16", 32, 16, 16, 16, bf16, bf16, f32, 16, 16, 8, rdna3A,
       rdna3B, rdna3C},
      {ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_F16, "wmma4_f16", 32, 16, 16, 16, f16, f16, f32, 8, 8, 8, rdna4A, rdna4B,
       rdna4C},
      {ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_BF16, "wmma4_bf16", 32, 16, 16, 16, bf16, bf16, f32, 8, 8, 8, rdna4A,
       rdna4B, rdna4C},
  };
  return all;
}

/// Bytes that each lane of the test has for a fragment.
constexpr int fragmentBytes = 64;

/// Multiplies; each lane has its fragments in registers of its own.
void multiply(int64_t kind, const char *a, const char *b, const char *c, char *d) {
  int64_t at = int64_t(itx_emulated_thread_id(0)) * fragmentBytes;
  char left[fragmentBytes], right[fragmentBytes], sums[fragmentBytes];
  std::memcpy(left, a + at, fragmentBytes);
  std::memcpy(right, b + at, fragmentBytes);
  std::memcpy(sums, c + at, fragmentBytes);
  itx_emulated_mma(int32_t(kind), sums, left, right, sums);
  std::memcpy(d + at, sums, fragmentBytes);
}

/// A matrix with its fragments.
struct Operand {
  int columns;
  std::vector<uint32_t> bits;
  std::string fragments;

  double value(const Encoding &encoding, int row, int column) const {
    return encoding.decode(bits[size_t(row * columns + column)]);
  }
};

void putElement(std::string &fragments, int lane, int i, int bits, uint32_t value) {
  std::memcpy(fragments.data() + lane * fragmentBytes + i * bits / 8, &value, size_t(bits / 8));
}
uint32_t getElement(const std::string &fragments, int lane, int i, int bits) {
  uint32_t value = 0;
  std::memcpy(&value, fragments.data() + lane * fragmentBytes + i * bits / 8, size_t(bits / 8));
  return value;
}

/// Makes a matrix of random values, and fragments of it. Bytes behind the fragments are not zero.
Operand makeOperand(std::mt19937 &random, const Encoding &encoding, int rows, int columns, int lanes, int elements,
                    const Placement &place) {
  Operand operand = {columns, {}, std::string(size_t(lanes * fragmentBytes), '\x33')};
  std::normal_distribution<double> values;
  for (int i = 0; i < rows * columns; ++i)
    operand.bits.push_back(encoding.encode(values(random)));
  std::set<int> placed;
  for (int lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < elements; ++i) {
      Position at = place(lane, i);
      placed.insert(at.row * columns + at.column);
      putElement(operand.fragments, lane, i, encoding.bits, operand.bits[size_t(at.row * columns + at.column)]);
    }
  EXPECT_EQ(int(placed.size()), rows * columns) << "the formula leaves elements out";
  return operand;
}

class MatrixInstructions : public ::testing::TestWithParam<size_t> {
protected:
  const Instruction &instruction() { return instructions()[GetParam()]; }
};

TEST_P(MatrixInstructions, ComputePlainProducts) {
  const Instruction &mma = instruction();
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    Operand a = makeOperand(random, mma.a, mma.m, mma.k, mma.lanes, mma.elementsA, mma.placeA);
    Operand b = makeOperand(random, mma.b, mma.k, mma.n, mma.lanes, mma.elementsB, mma.placeB);
    Operand c = makeOperand(random, mma.c, mma.m, mma.n, mma.lanes, mma.elementsC, mma.placeC);
    std::string result(c.fragments.size(), 0);
    GridLaunch launch = launchOf(multiply, uint32_t(mma.lanes), int64_t(mma.kind), a.fragments.data(),
                                 b.fragments.data(), c.fragments.data(), result.data());
    launch.warpSize = uint32_t(mma.lanes);
    Status status = runOn(launch);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int lane = 0; lane < mma.lanes; ++lane)
      for (int i = 0; i < mma.elementsC; ++i) {
        Position at = mma.placeC(lane, i);
        double sum = c.value(mma.c, at.row, at.column), magnitude = std::abs(sum);
        for (int k = 0; k < mma.k; ++k) {
          double product = a.value(mma.a, at.row, k) * b.value(mma.b, k, at.column);
          sum += product;
          magnitude += std::abs(product);
        }
        double actual = mma.c.decode(getElement(result, lane, i, mma.c.bits));
        // k + 1 roundings of f32, half a unit each, and one of f16 where the result is f16. Integers are exact.
        double tolerance = mma.kind == ITX_EMULATED_M16N8K16_F16_F16 ? std::abs(sum) * 0x1p-11 : 0;
        if (&mma.c != &i32)
          tolerance += magnitude * (mma.k + 1) * 0x1p-24;
        ASSERT_LE(std::abs(actual - sum), tolerance) << "lane " << lane << ", element " << i;
      }
    // What lies behind a fragment is left as it is.
    for (int lane = 0; lane < mma.lanes; ++lane)
      for (int byte = mma.elementsC * mma.c.bits / 8; byte < fragmentBytes; ++byte)
        ASSERT_EQ(result[size_t(lane * fragmentBytes + byte)], '\x33');
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MatrixInstructions, ::testing::Range(size_t(0), size_t(34)),
                         [](const auto &info) { return std::string(instructions()[info.param].name); });

TEST(MatrixMultiply, IntegersWrap) {
  constexpr int lanes = 32;
  std::string a(lanes * fragmentBytes, '\x7f'), b(a), c(a.size(), 0), result(a.size(), 0);
  for (int lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < 4; ++i)
      putElement(c, lane, i, 32, 0x7fffffff);
  GridLaunch launch =
      launchOf(multiply, lanes, int64_t(ITX_EMULATED_M16N8K32_I32_I8), a.data(), b.data(), c.data(), result.data());
  ASSERT_TRUE(runOn(launch).ok());
  EXPECT_EQ(getElement(result, 9, 2, 32), 0x7fffffffu + 32 * 127 * 127);
}

TEST(MatrixMultiply, SpecialValuesPass) {
  constexpr int lanes = 32;
  std::string a(lanes * fragmentBytes, 0), b(a), c(a), result(a);
  // Row 0 of A has an infinity and row 8 a NaN, in column 0; B is 1 everywhere.
  putElement(a, 0, 0, 16, 0x7c00);
  putElement(a, 0, 2, 16, 0x7e00);
  for (int lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < 4; ++i)
      putElement(b, lane, i, 16, 0x3c00);
  GridLaunch launch =
      launchOf(multiply, lanes, int64_t(ITX_EMULATED_M16N8K16_F32_F16), a.data(), b.data(), c.data(), result.data());
  ASSERT_TRUE(runOn(launch).ok());
  EXPECT_EQ(getElement(result, 1, 1, 32), 0x7f800000u);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(getElement(result, 1, 2, 32))));
  EXPECT_EQ(getElement(result, 4, 0, 32), 0u);
}

TEST(MatrixMultiply, EachKindIsTested) {
  EXPECT_EQ(instructions().size(), 34u);
  std::set<int32_t> tested;
  for (const Instruction &instruction : instructions())
    tested.insert(instruction.kind);
  // ScaledMatrixMultiplyTest.cpp
  tested.insert(
      {ITX_EMULATED_M16N8K64_F32_MXFP4, ITX_EMULATED_M16N8K64_F32_NVFP4, ITX_EMULATED_MFMA_SCALE_16X16X128_F32_MXFP4});
  for (int32_t kind = -1; kind <= 128; ++kind)
    EXPECT_EQ(findMatrixKind(kind) != nullptr, tested.count(kind) == 1) << kind;
}

TEST(MatrixMultiply, OneEncodingOfFnuzIsNaN) {
  constexpr int lanes = 64;
  std::string a(lanes * fragmentBytes, 0), b(a), c(a), result(a);
  putElement(a, 3, 0, 8, 0x80); // row 3
  putElement(a, 4, 0, 8, 0x7f); // row 4, the largest
  for (int lane = 0; lane < lanes; ++lane)
    putElement(b, lane, 0, 8, 0x40); // 1
  for (auto [kind, largest] : {std::pair(ITX_EMULATED_MFMA_16X16X32_F32_E4M3FNUZ, 240.0f),
                               {ITX_EMULATED_MFMA_16X16X32_F32_E5M2FNUZ, 57344.0f}}) {
    GridLaunch launch = launchOf(multiply, lanes, int64_t(kind), a.data(), b.data(), c.data(), result.data());
    launch.warpSize = lanes;
    ASSERT_TRUE(runOn(launch).ok());
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(getElement(result, 5, 3, 32))));
    EXPECT_EQ(std::bit_cast<float>(getElement(result, 16 + 5, 0, 32)), largest);
  }
}

TEST(MatrixMultiply, HalvesOfRdna3MustBeTheSame) {
  constexpr int lanes = 32;
  std::string a(lanes * fragmentBytes, 0), b(a), c(a), result(a);
  GridLaunch launch = launchOf(multiply, lanes, int64_t(ITX_EMULATED_WMMA_RDNA3_16X16X16_F32_F16), a.data(), b.data(),
                               c.data(), result.data());
  ASSERT_TRUE(runOn(launch).ok());
  putElement(b, 21, 15, 16, 1);
  EXPECT_THAT(runOn(launch).message(), HasSubstr("wants the same elements of B in lanes 5 and 21, which differ"));
  putElement(b, 5, 15, 16, 1);
  EXPECT_TRUE(runOn(launch).ok());
  putElement(a, 0, 0, 16, 1);
  EXPECT_THAT(runOn(launch).message(), HasSubstr("wants the same elements of A in lanes 0 and 16"));
}

} // namespace
