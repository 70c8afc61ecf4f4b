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
/// Elements of a sum in a lane, and rows that they are in. Lanes [0, lanesOfRow) have one row.
constexpr int sumElements = 8, laneRows = 2, lanesOfRow = 4;

struct LeftMatrix {
  Vector<uint32_t, 4> words;
};
using RightMatrix = LeftMatrix;
struct SumMatrix {
  float element[sumElements];
};

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
    Vector<float, 4> c = {sum.element[4 * half], sum.element[4 * half + 1], sum.element[4 * half + 2],
                          sum.element[4 * half + 3]};
    c = kind == ElementKind::F16 ? itx_mma_f16(left.words, b, c) : itx_mma_bf16(left.words, b, c);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum.element[4 * half + i] = c[i];
  }
}

/// Returns sums, rounded, as the left matrix of another product: they lie in the same lanes.
inline LeftMatrix leftOfSum(const uint16_t (&rounded)[sumElements]) {
  LeftMatrix result;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    result.words[i] = rounded[2 * i] | uint32_t(rounded[2 * i + 1]) << 16;
  return result;
}

#else

constexpr bool transposesValues = true;

#if defined(__GFX9__)
constexpr int sumElements = 4, laneRows = 4, laneElements = 4;
#elif defined(__GFX11__)
constexpr int sumElements = 8, laneRows = 8, laneElements = 16;
#else
constexpr int sumElements = 8, laneRows = 8, laneElements = 8;
#endif
constexpr int lanesOfRow = 16;

struct LeftMatrix {
  Vector<uint16_t, laneElements> elements;
};
using RightMatrix = LeftMatrix;
struct SumMatrix {
  float element[sumElements];
};

inline int slotOf(int element) { return element; }
inline int rowOf(int element) {
#if defined(__GFX11__)
  return 2 * element + laneIndex() / 16;
#else
  return laneIndex() / 16 * laneRows + element;
#endif
}
inline int columnOf(int) { return laneIndex() % 16; }

inline LeftMatrix loadLeft(Shared16 from, int64_t stride) {
  int lane = laneIndex();
  // On RDNA 3 lanes from 16 on hold the same as those before.
  Shared16 at = from + lane % 16 * stride + (laneElements == 16 ? 0 : lane / 16 * laneElements);
  LeftMatrix result;
  // Rows begin at multiples of 16 bytes.
  constexpr int piece = laneElements < 8 ? laneElements : 8;
#pragma unroll
  for (int part = 0; part < laneElements / piece; ++part) {
    Vector<uint16_t, piece> elements = ((ITX_SHARED const Vector<uint16_t, piece> *)at)[part];
#pragma unroll
    for (int i = 0; i < piece; ++i)
      result.elements[part * piece + i] = elements[i];
  }
  return result;
}
inline RightMatrix loadRight(Shared16 from, int64_t stride) { return loadLeft(from, stride); }

inline void multiplyAdd(SumMatrix &sum, const LeftMatrix &left, const RightMatrix &right, int64_t kind) {
  Vector<float, sumElements> c;
#pragma unroll
  for (int i = 0; i < sumElements; ++i)
    c[i] = sum.element[i];
  auto a = __builtin_bit_cast(Vector<_Float16, laneElements>, left.elements);
  auto b = __builtin_bit_cast(Vector<_Float16, laneElements>, right.elements);
#if defined(__GFX9__)
  auto x = __builtin_bit_cast(Vector<short, laneElements>, left.elements);
  auto y = __builtin_bit_cast(Vector<short, laneElements>, right.elements);
  c = kind == ElementKind::F16 ? __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0)
                               : __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, c, 0, 0, 0);
#elif defined(__GFX11__)
  auto x = __builtin_bit_cast(Vector<short, laneElements>, left.elements);
  auto y = __builtin_bit_cast(Vector<short, laneElements>, right.elements);
  c = kind == ElementKind::F16 ? __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c)
                               : __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, c);
#else
  auto x = __builtin_bit_cast(Vector<short, laneElements>, left.elements);
  auto y = __builtin_bit_cast(Vector<short, laneElements>, right.elements);
  c = kind == ElementKind::F16 ? __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c)
                               : __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, c);
#endif
#pragma unroll
  for (int i = 0; i < sumElements; ++i)
    sum.element[i] = c[i];
}

#endif

#endif
