//===- MatrixMultiply.h - Matrix instructions of warps ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_MATRIXMULTIPLY_H
#define INTARSIA_RUNTIME_EMULATED_MATRIXMULTIPLY_H

#include "lib/Support/Status.h"

#include <cstdint>

namespace intarsia::runtime {

/// The type of an element of a fragment. TF32 is an f32 whose last 13 bits are ignored.
enum class ElementFormat : uint8_t { F32, TF32, F16, BF16, E4M3, E5M2, E4M3FNUZ, E5M2FNUZ, E2M1, E8M0, I8, I32 };

/// Which element of a matrix is where in the registers of a warp.
enum class FragmentLayout : uint8_t {
  Mma,       ///< PTX ISA, "Matrix fragments for mma.m16n8k8" and the like
  Mfma,      ///< CDNA 3 and 4 ISA, "Dense matrix layouts", matrices of one block
  WmmaRdna3, ///< RDNA 3 ISA, "Wave matrix multiply accumulate"
  WmmaRdna4  ///< RDNA 4 ISA, "Wave matrix multiply accumulate"
};

/// A matrix instruction: D[m, n] = A[m, k] * B[k, n] + C[m, n].
struct MatrixKind {
  int32_t kind; ///< its number in include/intarsia/emulated_abi.h
  const char *name;
  FragmentLayout layout;
  uint32_t lanes; ///< of a warp
  uint32_t m, n, k;
  ElementFormat a, b, accumulator;
  uint32_t scaleBlock = 0; ///< elements of A and B along k that share a scale; 0 if they have none
  ElementFormat scale = ElementFormat::F32;
};

/// Scales of the blocks of A and B as itx_emulated_mma_scaled has them: a word of each lane, and which lanes and bytes
/// are used.
struct MatrixScales {
  const int32_t *a = nullptr, *b = nullptr;
  uint32_t selectorA = 0, selectorB = 0;
};

/// Returns the matrix instruction of a number; null if there is none.
const MatrixKind *findMatrixKind(int32_t kind);

/// Multiplies the fragments that each lane's pointers refer to. Products are exact (rounded once together with their
/// addition where A is f32); they are added to the accumulator in f32, one after the other in the order of k, each sum
/// rounded to the nearest; a result in f16 is rounded once more, at the end. Integers wrap. Elements are multiplied by
/// the scales of their blocks before, which is exact, too. Returns an error if lanes that must hold the same elements
/// do not, or if selectors of scales are not those of the instruction.
Status multiplyMatrices(const MatrixKind &kind, void *const *results, const void *const *a, const void *const *b,
                        const void *const *accumulators, const MatrixScales &scales = {});

} // namespace intarsia::runtime

#endif
