//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Convolution.h"
#include "lib/Support/InstructionSets.h"
#include <algorithm>
#include <utility>

// A fused multiply-add would round once instead of twice.
#pragma STDC FP_CONTRACT OFF

namespace intarsia::plan {

constexpr size_t lanes = 16, vectors = 4, block = lanes * vectors; // the sums of a block stay in registers
constexpr size_t doubleBlock = 32;
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

/// `before` has a block of zeros, a density of `count` bins, and a block of zeros; `kernel` has the bins of the other
/// density that are not zero.
INTARSIA_INLINE void addKernelHere(const std::pair<size_t, double> *kernel, size_t kernelSize, const double *before,
                                   size_t count, double *sum, size_t blocks) {
  using Doubles = double __attribute__((ext_vector_type(8)));
  constexpr size_t perVector = 8, held = doubleBlock / perVector;
  size_t first = 0, end = 0;
  for (size_t begin = 0; begin < blocks * doubleBlock; begin += doubleBlock) {
    while (first < kernelSize && kernel[first].first + count <= begin)
      ++first;
    while (end < kernelSize && kernel[end].first < begin + doubleBlock)
      ++end;
    Doubles sums[held] = {0.0, 0.0, 0.0, 0.0};
    for (size_t at = first; at < end; ++at) {
      const double *from = before + (doubleBlock + begin - kernel[at].first);
#pragma unroll
      for (size_t vector = 0; vector < held; ++vector)
        sums[vector] += kernel[at].second * load<Doubles>(from + vector * perVector);
    }
#pragma unroll
    for (size_t vector = 0; vector < held; ++vector)
      store(sums[vector], sum + begin + vector * perVector);
  }
}
INTARSIA_FOR_PROCESSORS(void, addKernel,
                        (const std::pair<size_t, double> *kernel, size_t kernelSize, const double *before, size_t count,
                         double *sum, size_t blocks),
                        (kernel, kernelSize, before, count, sum, blocks))

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

std::vector<double> convolved(const std::vector<double> &one, const std::vector<double> &other) {
  // Fewer bins are taken one by one: a short time beside a long one has few of them.
  auto filled = [](const std::vector<double> &bins) { return bins.size() - std::count(bins.begin(), bins.end(), 0.0); };
  bool isFewer = filled(one) <= filled(other);
  const std::vector<double> &few = isFewer ? one : other, &many = isFewer ? other : one;
  static thread_local std::vector<std::pair<size_t, double>> kernel;
  kernel.clear();
  for (size_t bin = 0; bin < few.size(); ++bin)
    if (few[bin] != 0)
      kernel.push_back({bin, few[bin]});
  static thread_local std::vector<double> before;
  before.assign(many.size() + 2 * doubleBlock, 0.0);
  std::copy(many.begin(), many.end(), before.begin() + doubleBlock);
  size_t count = one.size() + other.size() - 1, blocks = (count + doubleBlock - 1) / doubleBlock;
  std::vector<double> sum(blocks * doubleBlock);
  addKernel(kernel.data(), kernel.size(), before.data(), many.size(), sum.data(), blocks);
  sum.resize(count);
  return sum;
}

float convolvedAt(const float *density, const float *function, size_t point) {
  return pointOfSum(density, function, point);
}

} // namespace intarsia::plan
