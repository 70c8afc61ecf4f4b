//===- Matrices.h - Products of 16x16 matrices by a warp ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts of fragments: PTX ISA, "Warp-level matrix instructions"; AMD's CDNA3, RDNA3 and RDNA4 instruction set
// architecture manuals. Elements are f16 or bf16, sums f32.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_MATRICES_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_MATRICES_H

#include "Elements.h"

/// Elements of 16 bits in shared memory.
using Shared16 = ITX_SHARED uint16_t *;

inline int laneIndex() { return threadIndex() % warpSize; }

#if defined(__NVPTX__)

extern "C" Vector<float, 4> itx_mma_f16(Vector<uint32_t, 4> a, Vector<uint32_t, 2> b, Vector<float, 4> c);
extern "C" Vector<float, 4> itx_mma_bf16(Vector<uint32_t, 4> a, Vector<uint32_t, 2> b, Vector<float, 4> c);
extern "C" Vector<uint32_t, 4> itx_ldmatrix(Shared16 row);
extern "C" Vector<uint32_t, 4> itx_ldmatrix_transposed(Shared16 row);

/// The right matrix of a product of powers and values lies in shared memory as [key, feature].
constexpr bool transposesValues = false;
/// Columns of a left matrix: what one product sums over.
constexpr int matrixDepth = 16;
/// Elements of a sum in a lane, how many of them are neighbours in a row, and the rows that they are in. Lanes whose
/// numbers differ in the bits [rowLanesBegin, rowLanesEnd) have elements of the same rows.
constexpr int sumElements = 8, runElements = 2, laneRows = 2, rowLanesBegin = 1, rowLanesEnd = 4;

struct LeftMatrix {
  Vector<uint32_t, 4> words;
};
using RightMatrix = LeftMatrix;
using SumMatrix = Vector<float, sumElements>;

inline int slotOf(int element) { return element % 4 / 2; }
inline int rowOf(int element) { return laneIndex() / 4 + slotOf(element) * 8; }
inline int columnOf(int element) { return element / 4 * 8 + laneIndex() % 4 * 2 + element % 2; }

/// Loads a matrix [row, k].
inline LeftMatrix loadLeft(Shared16 from, int64_t stride) {
  int lane = laneIndex();
  return {itx_ldmatrix(from + lane % 16 * stride + lane / 16 * 8)};
}
/// Loads a matrix that lies as [column, k].
inline RightMatrix loadRight(Shared16 from, int64_t stride) {
  int lane = laneIndex();
  return {itx_ldmatrix(from + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8)};
}
/// Loads a matrix that lies as [k, column].
inline RightMatrix loadRightRows(Shared16 from, int64_t stride) {
  int lane = laneIndex();
  return {itx_ldmatrix_transposed(from + lane % 16 * stride + lane / 16 * 8)};
}

inline void multiplyAdd(SumMatrix &sum, const LeftMatrix &left, const RightMatrix &right, int64_t kind) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Vector<uint32_t, 2> b = {right.words[2 * half], right.words[2 * half + 1]};
    Vector<float, 4> c = {sum[4 * half], sum[4 * half + 1], sum[4 * half + 2], sum[4 * half + 3]};
    c = kind == ElementKind::F16 ? itx_mma_f16(left.words, b, c) : itx_mma_bf16(left.words, b, c);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum[4 * half + i] = c[i];
  }
}

/// Returns sums, rounded in pairs, as the left matrix of another product: they lie in the same lanes.
inline LeftMatrix leftOfSums(const uint32_t (&rounded)[sumElements / 2]) {
  return {{rounded[0], rounded[1], rounded[2], rounded[3]}};
}
/// Returns the place among the rows of a right matrix of the row `row` of what leftOfSums() has as columns.
inline int64_t depthOfSum(int64_t row) { return row; }

#else

// Sums are computed transposed: a lane has elements of one row, at the columns that a lane of a left matrix has.
constexpr bool transposesValues = true;

#if defined(__GFX9__)
constexpr int sumElements = 4, runElements = 4, laneElements = 8, matrixDepth = 32;
#elif defined(__GFX11__)
constexpr int sumElements = 8, runElements = 1, laneElements = 16, matrixDepth = 16;
#else
constexpr int sumElements = 8, runElements = 8, laneElements = 8, matrixDepth = 16;
#endif
constexpr int laneRows = 1, rowLanesBegin = 16, rowLanesEnd = warpSize;

struct LeftMatrix {
  Vector<uint16_t, laneElements> elements;
};
using RightMatrix = LeftMatrix;
using SumMatrix = Vector<float, sumElements>;

inline int slotOf(int) { return 0; }
inline int rowOf(int) { return laneIndex() % 16; }
inline int columnOf(int element) {
#if defined(__GFX11__)
  return 2 * element + laneIndex() / 16;
#else
  return laneIndex() / 16 * sumElements + element;
#endif
}

inline LeftMatrix loadLeft(Shared16 from, int64_t stride) {
  int lane = laneIndex();
  // On RDNA 3 lanes from 16 on hold the same as those before.
  Shared16 at = from + lane % 16 * stride + (laneElements == 16 ? 0 : lane / 16 * laneElements);
  LeftMatrix result;
  // Rows begin at multiples of 16 bytes.
#pragma unroll
  for (int part = 0; part < laneElements / 8; ++part) {
    Vector<uint16_t, 8> elements = ((ITX_SHARED const Vector<uint16_t, 8> *)at)[part];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      result.elements[part * 8 + i] = elements[i];
  }
  return result;
}
inline RightMatrix loadRight(Shared16 from, int64_t stride) { return loadLeft(from, stride); }

inline void multiplyAdd(SumMatrix &sum, const LeftMatrix &left, const RightMatrix &right, int64_t kind) {
  SumMatrix c = sum;
  auto a = __builtin_bit_cast(Vector<_Float16, laneElements>, right.elements);
  auto b = __builtin_bit_cast(Vector<_Float16, laneElements>, left.elements);
#if defined(__gfx950__)
  auto x = __builtin_bit_cast(Vector<__bf16, laneElements>, right.elements);
  auto y = __builtin_bit_cast(Vector<__bf16, laneElements>, left.elements);
  c = kind == ElementKind::F16 ? __builtin_amdgcn_mfma_f32_16x16x32_f16(a, b, c, 0, 0, 0)
                               : __builtin_amdgcn_mfma_f32_16x16x32_bf16(x, y, c, 0, 0, 0);
#elif defined(__GFX9__)
  // The order in which columns are summed up is free as long as both sides have it: each instruction takes half of what
  // a lane reads at once.
  auto x = __builtin_bit_cast(Vector<short, laneElements>, right.elements);
  auto y = __builtin_bit_cast(Vector<short, laneElements>, left.elements);
  if (kind == ElementKind::F16) {
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(a.lo, b.lo, c, 0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(a.hi, b.hi, c, 0, 0, 0);
  } else {
    c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x.lo, y.lo, c, 0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x.hi, y.hi, c, 0, 0, 0);
  }
#elif defined(__GFX11__)
  auto x = __builtin_bit_cast(Vector<short, laneElements>, right.elements);
  auto y = __builtin_bit_cast(Vector<short, laneElements>, left.elements);
  c = kind == ElementKind::F16 ? __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c)
                               : __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, c);
#else
  auto x = __builtin_bit_cast(Vector<short, laneElements>, right.elements);
  auto y = __builtin_bit_cast(Vector<short, laneElements>, left.elements);
  c = kind == ElementKind::F16 ? __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c)
                               : __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, c);
#endif
  sum = c;
}

inline LeftMatrix leftOfSums(const uint32_t (&rounded)[matrixDepth / 16 * sumElements / 2]) {
  Vector<uint32_t, laneElements / 2> words;
#if defined(__GFX11__)
  // A lane has every second column, that of the other half of the warp the others.
  bool isUpper = laneIndex() >= 16;
#pragma unroll
  for (int i = 0; i < sumElements / 2; ++i) {
    uint32_t mine = rounded[i];
    uint32_t others = __builtin_bit_cast(uint32_t, exchange<16>(__builtin_bit_cast(float, mine)));
    uint32_t even = isUpper ? others : mine, odd = isUpper ? mine : others;
    words[2 * i] = (even & 0xffff) | odd << 16;
    words[2 * i + 1] = even >> 16 | (odd & 0xffff0000);
  }
#else
#pragma unroll
  for (int i = 0; i < laneElements / 2; ++i)
    words[i] = rounded[i];
#endif
  return {__builtin_bit_cast(Vector<uint16_t, laneElements>, words)};
}
inline int64_t depthOfSum(int64_t row) {
#if defined(__GFX9__)
  // Two sums are a left matrix: a lane has four columns of each side by side.
  return row / 32 * 32 + row % 16 / 4 * 8 + row % 32 / 16 * 4 + row % 4;
#else
  return row;
#endif
}

#endif

#endif
