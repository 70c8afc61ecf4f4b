//===- VectorMath.h - Loops over rows of logits -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime is compiled for the oldest processor of its kind. These loops are written for vectors of any width.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_VECTORMATH_H
#define INTARSIA_RUNTIME_ENGINE_VECTORMATH_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace intarsia::runtime {

/// The largest of some numbers, and whether one is not a number.
struct Largest {
  float value = 0;
  bool hasNan = false;
};
Largest largestOf(const float *values, int64_t count);

/// Returns the first index of a value that occurs.
int64_t indexOf(const float *values, int64_t count, float value);

/// Returns the sum of exp((value - largest) * factor), each exponential in single precision, with a relative error of
/// at most 3e-7.
double sumOfExponentials(const float *values, int64_t count, float largest, float factor);

/// Appends the indices of values that are at least `least`, unless they become more than `most`: false then.
bool indicesFrom(const float *values, int64_t count, float least, size_t most, std::vector<int32_t> &indices);

} // namespace intarsia::runtime

#endif
