//===- MatrixMultiply.cpp - Matrix instructions of warps -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/MatrixMultiply.h"

#include "intarsia/emulated_abi.h"
#include "lib/Formats/FloatFormats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace intarsia::runtime {

using enum ElementFormat;
using enum FragmentLayout;

static constexpr MatrixKind kinds[] = {
    {ITX_EMULATED_M16N8K16_F32_F16, "m16n8k16_f32_f16", Mma, 32, 16, 8, 16, F16, F16, F32},
    {ITX_EMULATED_M16N8K16_F32_BF16, "m16n8k16_f32_bf16", Mma, 32, 16, 8, 16, BF16, BF16, F32},
    {ITX_EMULATED_M16N8K16_F16_F16, "m16n8k16_f16_f16", Mma, 32, 16, 8, 16, F16, F16, F16},
    {ITX_EMULATED_M16N8K8_F32_TF32, "m16n8k8_f32_tf32", Mma, 32, 16, 8, 8, TF32, TF32, F32},
    {ITX_EMULATED_M16N8K32_I32_I8, "m16n8k32_i32_i8", Mma, 32, 16, 8, 32, I8, I8, I32},
    {ITX_EMULATED_M16N8K16_I32_I8, "m16n8k16_i32_i8", Mma, 32, 16, 8, 16, I8, I8, I32},
    {ITX_EMULATED_M16N8K32_F32_E4M3, "m16n8k32_f32_e4m3", Mma, 32, 16, 8, 32, E4M3, E4M3, F32},
    {ITX_EMULATED_M16N8K32_F32_E5M2, "m16n8k32_f32_e5m2", Mma, 32, 16, 8, 32, E5M2, E5M2, F32},
    {ITX_EMULATED_M16N8K32_F32_E4M3_E5M2, "m16n8k32_f32_e4m3_e5m2", Mma, 32, 16, 8, 32, E4M3, E5M2, F32},
    {ITX_EMULATED_M16N8K32_F32_E5M2_E4M3, "m16n8k32_f32_e5m2_e4m3", Mma, 32, 16, 8, 32, E5M2, E4M3, F32},
    {ITX_EMULATED_M16N8K64_F32_MXFP4, "m16n8k64_f32_mxfp4", Mma, 32, 16, 8, 64, E2M1, E2M1, F32, 32, E8M0},
    {ITX_EMULATED_M16N8K64_F32_NVFP4, "m16n8k64_f32_nvfp4", Mma, 32, 16, 8, 64, E2M1, E2M1, F32, 16, E4M3},
    {ITX_EMULATED_MFMA_16X16X16_F32_F16, "mfma_16x16x16_f32_f16", Mfma, 64, 16, 16, 16, F16, F16, F32},
    {ITX_EMULATED_MFMA_16X16X16_F32_BF16, "mfma_16x16x16_f32_bf16", Mfma, 64, 16, 16, 16, BF16, BF16, F32},
    {ITX_EMULATED_MFMA_32X32X8_F32_F16, "mfma_32x32x8_f32_f16", Mfma, 64, 32, 32, 8, F16, F16, F32},
    {ITX_EMULATED_MFMA_32X32X8_F32_BF16, "mfma_32x32x8_f32_bf16", Mfma, 64, 32, 32, 8, BF16, BF16, F32},
    {ITX_EMULATED_MFMA_16X16X16_I32_I8, "mfma_16x16x16_i32_i8", Mfma, 64, 16, 16, 16, I8, I8, I32},
    {ITX_EMULATED_MFMA_16X16X32_I32_I8, "mfma_16x16x32_i32_i8", Mfma, 64, 16, 16, 32, I8, I8, I32},
    {ITX_EMULATED_MFMA_16X16X4_F32_F32, "mfma_16x16x4_f32_f32", Mfma, 64, 16, 16, 4, F32, F32, F32},
    {ITX_EMULATED_MFMA_32X32X16_I32_I8, "mfma_32x32x16_i32_i8", Mfma, 64, 32, 32, 16, I8, I8, I32},
    {ITX_EMULATED_MFMA_16X16X32_F32_E4M3FNUZ, "mfma_16x16x32_f32_e4m3fnuz", Mfma, 64, 16, 16, 32, E4M3FNUZ, E4M3FNUZ,
     F32},
    {ITX_EMULATED_MFMA_16X16X32_F32_E5M2FNUZ, "mfma_16x16x32_f32_e5m2fnuz", Mfma, 64, 16, 16, 32, E5M2FNUZ, E5M2FNUZ,
     F32},
    {ITX_EMULATED_MFMA_16X16X32_F32_E4M3, "mfma_16x16x32_f32_e4m3", Mfma, 64, 16, 16, 32, E4M3, E4M3, F32},
    {ITX_EMULATED_MFMA_16X16X32_F32_E5M2, "mfma_16x16x32_f32_e5m2", Mfma, 64, 16, 16, 32, E5M2, E5M2, F32},
    {ITX_EMULATED_MFMA_16X16X32_F32_F16, "mfma_16x16x32_f32_f16", Mfma, 64, 16, 16, 32, F16, F16, F32},
    {ITX_EMULATED_MFMA_16X16X32_F32_BF16, "mfma_16x16x32_f32_bf16", Mfma, 64, 16, 16, 32, BF16, BF16, F32},
    {ITX_EMULATED_MFMA_32X32X16_F32_F16, "mfma_32x32x16_f32_f16", Mfma, 64, 32, 32, 16, F16, F16, F32},
    {ITX_EMULATED_MFMA_32X32X16_F32_BF16, "mfma_32x32x16_f32_bf16", Mfma, 64, 32, 32, 16, BF16, BF16, F32},
    {ITX_EMULATED_MFMA_SCALE_16X16X128_F32_MXFP4, "mfma_scale_16x16x128_f32_mxfp4", Mfma, 64, 16, 16, 128, E2M1, E2M1,
     F32, 32, E8M0},
    {ITX_EMULATED_WMMA_RDNA3_16X16X16_F32_F16, "wmma_rdna3_16x16x16_f32_f16", WmmaRdna3, 32, 16, 16, 16, F16, F16, F32},
    {ITX_EMULATED_WMMA_RDNA3_16X16X16_F32_BF16, "wmma_rdna3_16x16x16_f32_bf16", WmmaRdna3, 32, 16, 16, 16, BF16, BF16,
     F32},
    {ITX_EMULATED_WMMA_RDNA3_16X16X16_I32_I8, "wmma_rdna3_16x16x16_i32_i8", WmmaRdna3, 32, 16, 16, 16, I8, I8, I32},
    {ITX_EMULATED_WMMA_RDNA4_16X16X16_I32_I8, "wmma_rdna4_16x16x16_i32_i8", WmmaRdna4, 32, 16, 16, 16, I8, I8, I32},
    {ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_E4M3, "wmma_rdna4_16x16x16_f32_e4m3", WmmaRdna4, 32, 16, 16, 16, E4M3, E4M3,
     F32},
    {ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_E5M2, "wmma_rdna4_16x16x16_f32_e5m2", WmmaRdna4, 32, 16, 16, 16, E5M2, E5M2,
     F32},
    {ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_F16, "wmma_rdna4_16x16x16_f32_f16", WmmaRdna4, 32, 16, 16, 16, F16, F16, F32},
    {ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_BF16, "wmma_rdna4_16x16x16_f32_bf16", WmmaRdna4, 32, 16, 16, 16, BF16, BF16,
     F32},
};

/// Numbers of kinds are less than this.
static constexpr int32_t kindNumbers = 128;

const MatrixKind *findMatrixKind(int32_t kind) {
  static constexpr auto byNumber = [] {
    std::array<const MatrixKind *, kindNumbers> result = {};
    for (const MatrixKind &known : kinds)
      result[size_t(known.kind)] = &known;
    return result;
  }();
  return kind >= 0 && kind < kindNumbers ? byNumber[size_t(kind)] : nullptr;
}

// ---- Layouts ---------------------------------------------------------------------------------------------------

namespace {

/// The lanes and registers that hold the elements of one matrix.
struct Fragments {
  uint32_t elements = 0;           ///< of each lane
  std::vector<uint16_t> positions; ///< index in the row-major matrix, by lane and element
};

/// The same for all matrices of an instruction.
struct KindFragments {
  Fragments a, b, accumulator;
};

/// The most elements of A, B or C of an instruction, copies for other lanes included.
constexpr uint32_t largestMatrix = 1024;
/// The same of instructions with scales.
constexpr uint32_t largestScaledMatrix = 2048;

constexpr uint32_t bitsOf(ElementFormat format) {
  switch (format) {
  case F32:
  case TF32:
  case I32:
    return 32;
  case F16:
  case BF16:
    return 16;
  case E4M3:
  case E5M2:
  case E4M3FNUZ:
  case E5M2FNUZ:
  case E8M0:
  case I8:
    return 8;
  case E2M1:
    return 4;
  }
  __builtin_unreachable();
}

} // namespace

/// Returns the position of a lane's element of A, as row-major index in [m, k].
static uint32_t positionOfA(const MatrixKind &kind, uint32_t lane, uint32_t element, uint32_t elements) {
  switch (kind.layout) {
  case Mma: {
    uint32_t packed = 32 / bitsOf(kind.a), word = element / packed;
    uint32_t row = lane / 4 + 8 * (word % 2);
    uint32_t column = lane % 4 * packed + element % packed + 4 * packed * (word / 2);
    return row * kind.k + column;
  }
  case WmmaRdna3:
    return lane % kind.m * kind.k + element;
  case Mfma:
  case WmmaRdna4:
    return lane % kind.m * kind.k + lane / kind.m * elements + element;
  }
  __builtin_unreachable();
}

/// Returns the position of a lane's element of B, as row-major index in [k, n].
static uint32_t positionOfB(const MatrixKind &kind, uint32_t lane, uint32_t element, uint32_t elements) {
  switch (kind.layout) {
  case Mma: {
    uint32_t packed = 32 / bitsOf(kind.b), word = element / packed;
    uint32_t row = lane % 4 * packed + element % packed + 4 * packed * word;
    return row * kind.n + lane / 4;
  }
  case WmmaRdna3:
    return element * kind.n + lane % kind.n;
  case Mfma:
  case WmmaRdna4:
    return (lane / kind.n * elements + element) * kind.n + lane % kind.n;
  }
  __builtin_unreachable();
}

/// Returns the position of a lane's element of C and D, as row-major index in [m, n].
static uint32_t positionOfResult(const MatrixKind &kind, uint32_t lane, uint32_t element) {
  uint32_t group = lane / kind.n, groups = kind.lanes / kind.n; // of lanes that have the same columns
  uint32_t row = 0, column = lane % kind.n;
  switch (kind.layout) {
  case Mma:
    row = lane / 4 + 8 * (element / 2);
    column = lane % 4 * 2 + element % 2;
    break;
  case Mfma:
    row = 4 * groups * (element / 4) + 4 * group + element % 4;
    break;
  case WmmaRdna3:
    row = groups * element + group;
    break;
  case WmmaRdna4:
    row = 8 * group + element;
    break;
  }
  return row * kind.n + column;
}

static KindFragments makeFragments(const MatrixKind &kind) {
  uint32_t copies = kind.layout == WmmaRdna3 ? 2 : 1; // of A and B
  KindFragments result;
  result.a.elements = kind.m * kind.k * copies / kind.lanes;
  result.b.elements = kind.k * kind.n * copies / kind.lanes;
  result.accumulator.elements = kind.m * kind.n / kind.lanes;
  for (uint32_t lane = 0; lane < kind.lanes; ++lane) {
    for (uint32_t i = 0; i < result.a.elements; ++i)
      result.a.positions.push_back(uint16_t(positionOfA(kind, lane, i, result.a.elements)));
    for (uint32_t i = 0; i < result.b.elements; ++i)
      result.b.positions.push_back(uint16_t(positionOfB(kind, lane, i, result.b.elements)));
    for (uint32_t i = 0; i < result.accumulator.elements; ++i)
      result.accumulator.positions.push_back(uint16_t(positionOfResult(kind, lane, i)));
  }
  return result;
}

static const KindFragments &fragmentsOf(const MatrixKind &kind) {
  static const std::vector<KindFragments> all = [] {
    std::vector<KindFragments> result;
    for (const MatrixKind &known : kinds)
      result.push_back(makeFragments(known));
    return result;
  }();
  return all[size_t(&kind - kinds)];
}

/// A function that is compiled into its callers, for each set of instructions that these may use.
#define ITX_INLINED static inline __attribute__((always_inline))

// ---- Elements --------------------------------------------------------------------------------------------------

/// Formats whose encoding of a negative zero is a NaN (CDNA 3 ISA, "FP8 and BF8"): the other encodings are numbers,
/// with half the value that they have in the format of the same name without FNUZ.
static constexpr FloatFormat floatE4M3FNUZ = {3, -7, 0x7F, 240.0f, -1, 8};
static constexpr FloatFormat floatE5M2FNUZ = {2, -15, 0x7F, 57344.0f, -1, 8};

/// Returns the values of all encodings of a format of 8 bits.
template <const FloatFormat &format> static const std::array<float, 256> &valuesOf() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> result;
    for (unsigned i = 0; i < result.size(); ++i)
      result[i] = decodeFloat(format, i);
    if (&format == &floatE4M3FNUZ || &format == &floatE5M2FNUZ)
      result[0x80] = std::numeric_limits<float>::quiet_NaN();
    return result;
  }();
  return values;
}

/// Decodes the fragments of all lanes into a row-major matrix. The loops are apart so that the decoding one is
/// vectorised.
template <typename Raw, typename Value, typename Decode>
ITX_INLINED void gatherAs(const Fragments &fragments, uint32_t lanes, const void *const *pointers, Value *matrix,
                          Decode decode) {
  Raw raw[largestMatrix];
  Value values[largestMatrix];
  uint32_t elements = fragments.elements, count = lanes * elements;
  // Registers have 32 bits. Copies of a size that is known are instructions, others are calls.
  uint32_t registers = elements * sizeof(Raw) / 4;
  for (uint32_t lane = 0; lane < lanes; ++lane)
    for (uint32_t i = 0; i < registers; ++i)
      std::memcpy(reinterpret_cast<char *>(raw + lane * elements) + 4 * i,
                  static_cast<const char *>(pointers[lane]) + 4 * i, 4);
  for (uint32_t i = 0; i < count; ++i)
    values[i] = decode(raw[i]);
  for (uint32_t i = 0; i < count; ++i)
    matrix[fragments.positions[i]] = values[i];
}

ITX_INLINED void gather(ElementFormat format, const Fragments &fragments, uint32_t lanes, const void *const *pointers,
                        float *matrix) {
  switch (format) {
  case TF32:
    return gatherAs<uint32_t>(fragments, lanes, pointers, matrix,
                              [](uint32_t bits) { return std::bit_cast<float>(bits & ~uint32_t(0x1FFF)); });
  case F16:
    return gatherAs<uint16_t>(fragments, lanes, pointers, matrix, decodeF16);
  case BF16:
    return gatherAs<uint16_t>(fragments, lanes, pointers, matrix, decodeBf16);
  case E4M3:
    return gatherAs<uint8_t>(fragments, lanes, pointers, matrix,
                             [&values = valuesOf<floatE4M3>()](uint8_t bits) { return values[bits]; });
  case E5M2:
    return gatherAs<uint8_t>(fragments, lanes, pointers, matrix,
                             [&values = valuesOf<floatE5M2>()](uint8_t bits) { return values[bits]; });
  case E4M3FNUZ:
    return gatherAs<uint8_t>(fragments, lanes, pointers, matrix,
                             [&values = valuesOf<floatE4M3FNUZ>()](uint8_t bits) { return values[bits]; });
  case E5M2FNUZ:
    return gatherAs<uint8_t>(fragments, lanes, pointers, matrix,
                             [&values = valuesOf<floatE5M2FNUZ>()](uint8_t bits) { return values[bits]; });
  case E2M1: // multiplyScaled() has its own
  case F32:
  case E8M0:
  case I8:
  case I32:
    return gatherAs<float>(fragments, lanes, pointers, matrix, [](float value) { return value; });
  }
}

ITX_INLINED void gather(ElementFormat format, const Fragments &fragments, uint32_t lanes, const void *const *pointers,
                        uint32_t *matrix) {
  if (format == I8)
    return gatherAs<int8_t>(fragments, lanes, pointers, matrix, [](int8_t value) { return uint32_t(int32_t(value)); });
  gatherAs<uint32_t>(fragments, lanes, pointers, matrix, [](uint32_t value) { return value; });
}

/// Writes the elements of a row-major matrix to the fragments of all lanes.
template <typename Raw, typename Value, typename Encode>
ITX_INLINED void scatterAs(const Fragments &fragments, uint32_t lanes, const Value *matrix, void *const *pointers,
                           Encode encode) {
  for (uint32_t lane = 0; lane < lanes; ++lane)
    for (uint32_t i = 0; i < fragments.elements; ++i) {
      Raw raw = encode(matrix[fragments.positions[lane * fragments.elements + i]]);
      std::memcpy(static_cast<char *>(pointers[lane]) + i * sizeof(Raw), &raw, sizeof(Raw));
    }
}

// ---- Products --------------------------------------------------------------------------------------------------

/// Adds A * B to C. Each row of C, of n columns, is kept in registers while k counts up.
template <uint32_t n, bool fused, typename Value>
ITX_INLINED void accumulateRows(const MatrixKind &kind, const Value *a, const Value *b, Value *c) {
  for (uint32_t row = 0; row < kind.m; ++row) {
    Value sums[n];
    std::copy_n(c + row * n, n, sums);
    for (uint32_t inner = 0; inner < kind.k; ++inner)
      for (uint32_t column = 0; column < n; ++column)
        if constexpr (fused)
          sums[column] = std::fma(a[row * kind.k + inner], b[inner * n + column], sums[column]);
        else
          sums[column] += a[row * kind.k + inner] * b[inner * n + column];
    std::copy_n(sums, n, c + row * n);
  }
}

template <typename Value>
ITX_INLINED void accumulateAs(const MatrixKind &kind, const Value *a, const Value *b, Value *c) {
  if constexpr (std::is_floating_point_v<Value>)
    if (kind.a == F32) // the products of other formats are exact
      return accumulateRows<16, true>(kind, a, b, c);
  switch (kind.n) {
  case 8:
    return accumulateRows<8, false>(kind, a, b, c);
  case 16:
    return accumulateRows<16, false>(kind, a, b, c);
  case 32:
    return accumulateRows<32, false>(kind, a, b, c);
  }
  __builtin_unreachable();
}

/// Returns an error unless both halves of the warp hold the same fragments.
static Status checkCopies(const MatrixKind &kind, const char *matrix, ElementFormat format, const Fragments &fragments,
                          const void *const *pointers) {
  for (uint32_t lane = 0; lane < kind.lanes / 2; ++lane)
    if (std::memcmp(pointers[lane], pointers[lane + kind.lanes / 2], fragments.elements * bitsOf(format) / 8) != 0)
      return error(ITX_INTERNAL,
                   "the matrix instruction %s wants the same elements of %s in lanes %u and %u, which differ",
                   kind.name, matrix, lane, lane + kind.lanes / 2);
  return Status::success();
}

template <typename Value>
ITX_INLINED void multiplyAs(const MatrixKind &kind, const KindFragments &fragments, void *const *results,
                            const void *const *a, const void *const *b, const void *const *accumulators) {
  Value left[largestMatrix], right[largestMatrix], sums[largestMatrix];
  gather(kind.a, fragments.a, kind.lanes, a, left);
  gather(kind.b, fragments.b, kind.lanes, b, right);
  gather(kind.accumulator, fragments.accumulator, kind.lanes, accumulators, sums);
  accumulateAs(kind, left, right, sums);
  if constexpr (std::is_floating_point_v<Value>)
    if (kind.accumulator == F16)
      return scatterAs<uint16_t>(fragments.accumulator, kind.lanes, sums, results, encodeF16);
  scatterAs<Value>(fragments.accumulator, kind.lanes, sums, results, [](Value value) { return value; });
}

ITX_INLINED void multiply(const MatrixKind &kind, const KindFragments &fragments, void *const *results,
                          const void *const *a, const void *const *b, const void *const *accumulators) {
  if (kind.accumulator == I32)
    multiplyAs<uint32_t>(kind, fragments, results, a, b, accumulators);
  else
    multiplyAs<float>(kind, fragments, results, a, b, accumulators);
}

#if defined(__x86_64__)
/// Does the same on processors of before 2013, for which small code is good enough.
__attribute__((cold)) static void multiplyNarrow(const MatrixKind &kind, const KindFragments &fragments,
                                                 void *const *results, const void *const *a, const void *const *b,
                                                 const void *const *accumulators) {
  multiply(kind, fragments, results, a, b, accumulators);
}

/// Does the same with AVX2 and fused multiplications.
__attribute__((target("avx2,fma"))) static void multiplyWide(const MatrixKind &kind, const KindFragments &fragments,
                                                             void *const *results, const void *const *a,
                                                             const void *const *b, const void *const *accumulators) {
  multiply(kind, fragments, results, a, b, accumulators);
}
#endif

// ---- Elements with scales ---------------------------------------------------------------------------------------

/// Decodes fragments of E2M1, of which a byte holds two, the first one in its low bits.
static void gatherPairs(const Fragments &fragments, uint32_t lanes, const void *const *pointers, float *matrix) {
  static constexpr float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint32_t lane = 0; lane < lanes; ++lane)
    for (uint32_t i = 0; i < fragments.elements; ++i) {
      uint32_t pattern = static_cast<const uint8_t *>(pointers[lane])[i / 2] >> i % 2 * 4 & 15;
      float magnitude = magnitudes[pattern & 7];
      matrix[fragments.positions[lane * fragments.elements + i]] = pattern & 8 ? -magnitude : magnitude;
    }
}

/// Returns an error unless an instruction has such selectors of scales.
static Status checkSelectors(const MatrixKind &kind, const MatrixScales &scales) {
  auto refuse = [&](const char *matrix, uint32_t selector) {
    return error(ITX_INTERNAL, "the matrix instruction %s has no scales of %s at byte %u of thread %u", kind.name,
                 matrix, selector & 0xff, selector >> 8);
  };
  // Bytes of PTX's are aligned to their number. A has two threads of four, B one (PTX ISA, "Block scaling for
  // mma.sync").
  bool isMma = kind.layout == Mma;
  uint32_t bytes = isMma ? kind.k / kind.scaleBlock : 1;
  auto isKnown = [&](uint32_t selector, uint32_t threads) {
    return (selector & 0xff) < 4 && (selector & 0xff) % bytes == 0 && selector >> 8 < threads;
  };
  if (!isKnown(scales.selectorA, isMma ? 2 : 1))
    return refuse("A", scales.selectorA);
  return isKnown(scales.selectorB, isMma ? 4 : 1) ? Status::success() : refuse("B", scales.selectorB);
}

/// Returns the scale of a block of a row of A, or of a column of B.
static float scaleOf(const MatrixKind &kind, const MatrixScales &scales, bool isB, uint32_t row, uint32_t block) {
  uint32_t selector = isB ? scales.selectorB : scales.selectorA, byte = selector & 0xff, thread = selector >> 8;
  uint32_t lane;
  if (kind.layout == Mma) {
    // Four lanes have the eight rows that are 8 apart: of A two of them a row and the one 8 behind it.
    lane = isB ? 4 * row + thread : 4 * (row % 8) + 2 * thread + row / 8;
    byte += block;
  } else {
    lane = block * kind.m + row; // which has the block's elements (CDNA 4 ISA, "V_MFMA_SCALE")
  }
  auto pattern = uint8_t(uint32_t((isB ? scales.b : scales.a)[lane]) >> 8 * byte);
  // PTX's UE4M3 has no sign.
  return kind.scale == E8M0 ? decodeE8M0(pattern) : decodeFloat(floatE4M3, pattern & 0x7F);
}

/// Multiplies the elements of A [m, k] and of B [k, n] by the scales of their blocks.
static void scaleElements(const MatrixKind &kind, const MatrixScales &scales, float *a, float *b) {
  for (uint32_t block = 0; block < kind.k / kind.scaleBlock; ++block) {
    uint32_t first = block * kind.scaleBlock;
    for (uint32_t row = 0; row < kind.m; ++row) {
      float scale = scaleOf(kind, scales, /*isB=*/false, row, block);
      for (uint32_t i = first; i < first + kind.scaleBlock; ++i)
        a[row * kind.k + i] *= scale;
    }
    for (uint32_t column = 0; column < kind.n; ++column) {
      float scale = scaleOf(kind, scales, /*isB=*/true, column, block);
      for (uint32_t i = first; i < first + kind.scaleBlock; ++i)
        b[i * kind.n + column] *= scale;
    }
  }
}

static void multiplyScaled(const MatrixKind &kind, const KindFragments &fragments, void *const *results,
                           const void *const *a, const void *const *b, const void *const *accumulators,
                           const MatrixScales &scales) {
  float left[largestScaledMatrix], right[largestScaledMatrix], sums[largestMatrix];
  gatherPairs(fragments.a, kind.lanes, a, left);
  gatherPairs(fragments.b, kind.lanes, b, right);
  scaleElements(kind, scales, left, right);
  uint32_t elements = fragments.accumulator.elements;
  const uint16_t *positions = fragments.accumulator.positions.data();
  for (uint32_t lane = 0; lane < kind.lanes; ++lane)
    for (uint32_t i = 0; i < elements; ++i)
      std::memcpy(sums + positions[lane * elements + i], static_cast<const float *>(accumulators[lane]) + i,
                  sizeof(float));
  for (uint32_t row = 0; row < kind.m; ++row)
    for (uint32_t inner = 0; inner < kind.k; ++inner)
      for (uint32_t column = 0; column < kind.n; ++column)
        sums[row * kind.n + column] += left[row * kind.k + inner] * right[inner * kind.n + column];
  for (uint32_t lane = 0; lane < kind.lanes; ++lane)
    for (uint32_t i = 0; i < elements; ++i)
      std::memcpy(static_cast<float *>(results[lane]) + i, sums + positions[lane * elements + i], sizeof(float));
}

Status multiplyMatrices(const MatrixKind &kind, void *const *results, const void *const *a, const void *const *b,
                        const void *const *accumulators, const MatrixScales &scales) {
  const KindFragments &fragments = fragmentsOf(kind);
  if (kind.scaleBlock) {
    ITX_RETURN_IF_ERROR(checkSelectors(kind, scales));
    multiplyScaled(kind, fragments, results, a, b, accumulators, scales);
    return Status::success();
  }
  if (kind.layout == WmmaRdna3) {
    ITX_RETURN_IF_ERROR(checkCopies(kind, "A", kind.a, fragments.a, a));
    ITX_RETURN_IF_ERROR(checkCopies(kind, "B", kind.b, fragments.b, b));
  }
#if defined(__x86_64__)
  static const bool isWide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  (isWide ? multiplyWide : multiplyNarrow)(kind, fragments, results, a, b, accumulators);
#else
  multiply(kind, fragments, results, a, b, accumulators);
#endif
  return Status::success();
}

} // namespace intarsia::runtime
