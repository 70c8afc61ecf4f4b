//===- Reduce.h - Sums and maxima over ranks ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_REDUCE_H
#define INTARSIA_RUNTIME_COLLECTIVES_REDUCE_H

#include "lib/Support/Status.h"

#include <cstddef>
#include <cstdint>

namespace intarsia::runtime {

/// SumInt8 is a sum of f32 whose messages between hosts are rounded to 8 bits.
enum class Reduction : uint32_t { Sum, Maximum, SumInt8 };

/// Combines `count` arrays element by element, in their order: destination[i] = ((s0[i] + s1[i]) + s2[i]) + … The
/// destination may be one of the sources. Sums of f16 and bf16 are made in f32 and rounded once; sums of integers wrap
/// around; a NaN makes a maximum NaN.
using ReduceFunction = void (*)(void *destination, const void *const *sources, size_t count, size_t elements);

/// Returns the function for a type on this processor; null if the type has no sum (integers of 8 and 16 bits, bool).
ReduceFunction reduceFunction(Reduction reduction, itx_dtype dtype);

/// True if this processor has the instructions of AVX2, for which loops over elements are compiled once more.
bool canReduceByAvx2();

/// Converts elements of f16 or bf16, whose sums are made in f32, and back.
void widenElements(itx_dtype dtype, float *destination, const void *source, uint64_t elements);
void narrowElements(itx_dtype dtype, void *destination, const float *source, uint64_t elements);

} // namespace intarsia::runtime

#endif
