//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Convolution.h"
#include "lib/Support/InstructionSets.h"
#include <algorithm>
#include <vector>

// A fused multiply-add would round once instead of twice.
#pragma STDC FP_CONTRACT OFF

namespace intarsia::plan {

constexpr size_t lanes = 16, vectors = 4, block = lanes * vectors; // the sums of a block stay in registers
using Floats = float __attribute__((ext_vector_type(lanes)));

/// `before` has a block of zeros and then the function.
INTARSIA_INLINE void convolveBlocksHere(const float *density, const float *before, float *sum, size_t first, size_t end,
                                        size_t points) {
  const float *function = before + block;
  for (size_t begin = 0; begin + block <= points; begin += block) {
    Floats sums[vectors] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (size_t at = first; at < std::min(end, begin + block); ++at) {
      const float *from = function + ptrdiff_t(begin) - ptrdiff_t(at);
#pragma unroll
      for (size_t vector = 0; vector < vectors; ++vector)
        sums[vector] += density[at] * load<Floats>(from + vector * lanes);
    }
#pragma unroll
    for (size_t vector = 0; vector < vectors; ++vector)
      store(sums[vector], sum + begin + vector * lanes);
  }
}
INTARSIA_FOR_PROCESSORS(void, convolveBlocks,
                        (const float *density, const float *before, float *sum, size_t first, size_t end,
                         size_t points),
                        (density, before, sum, first, end, points))

INTARSIA_INLINE float pointOfSumHere(const float *density, const float *function, size_t point) {
  Floats sums = 0.0f;
  size_t at = 0;
  for (; at + lanes <= point + 1; at += lanes) {
    auto own = load<Floats>(function + point + 1 - at - lanes);
    sums += load<Floats>(density + at) *
            __builtin_shufflevector(own, own, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  }
  float sum = 0;
  for (size_t lane = 0; lane < lanes; ++lane)
    sum += sums[lane];
  for (; at <= point; ++at)
    sum += density[at] * function[point - at];
  return sum;
}
INTARSIA_FOR_PROCESSORS(float, pointOfSum, (const float *density, const float *function, size_t point),
                        (density, function, point))

INTARSIA_INLINE void splitSumHere(const double *dense, double left, double right, double *sum, size_t count) {
  using Doubles = double __attribute__((ext_vector_type(8)));
  size_t at = 0;
  for (; at + 8 <= count; at += 8)
    store(load<Doubles>(sum + at) + (left * load<Doubles>(dense + at + 1) + right * load<Doubles>(dense + at)),
          sum + at);
  for (; at < count; ++at)
    sum[at] += left * dense[at + 1] + right * dense[at];
}
INTARSIA_FOR_PROCESSORS(void, splitSum, (const double *dense, double left, double right, double *sum, size_t count),
                        (dense, left, right, sum, count))

void convolve(const float *density, const float *function, float *sum, size_t points) {
  size_t first = 0, end = points;
  while (first < points && density[first] == 0)
    ++first;
  while (end > first && density[end - 1] == 0)
    --end;
  static thread_local std::vector<float> before;
  before.assign(block + points, 0.0f);
  std::copy_n(function, points, before.begin() + block);
  convolveBlocks(density, before.data(), sum, first, end, points);
  for (size_t point = points / block * block; point < points; ++point)
    sum[point] = convolvedAt(density, function, point);
}

void addSplit(const double *dense, double left, double right, double *sum, size_t count) {
  splitSum(dense, left, right, sum, count);
}

float convolvedAt(const float *density, const float *function, size_t point) {
  return pointOfSum(density, function, point);
}

} // namespace intarsia::plan
