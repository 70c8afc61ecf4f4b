//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A loop has the same bits in every instruction set that this processor has.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/InstructionSets.h"
#include "gtest/gtest.h"
#include <cmath>
#include <vector>

#pragma STDC FP_CONTRACT OFF

namespace {

using Floats = float __attribute__((ext_vector_type(16)));

INTARSIA_INLINE float dotHere(const float *a, const float *b, size_t count) {
  Floats sums = 0.0f;
  for (size_t at = 0; at + 16 <= count; at += 16)
    sums += intarsia::load<Floats>(a + at) * intarsia::load<Floats>(b + at);
  float lanes[16], sum = 0;
  intarsia::store(sums, lanes);
  for (float lane : lanes)
    sum += lane;
  return sum;
}
INTARSIA_FOR_PROCESSORS(float, dot, (const float *a, const float *b, size_t count), (a, b, count))

TEST(InstructionSets, ResultsHaveTheSameBits) {
  std::vector<float> a, b;
  for (int at = 0; at < 160; ++at) {
    a.push_back(std::sin(float(at)));
    b.push_back(std::cos(3 * float(at)));
  }
  float expected = dotHere(a.data(), b.data(), a.size());
  EXPECT_EQ(dot(a.data(), b.data(), a.size()), expected);
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2"))
    EXPECT_EQ(dotAvx2(a.data(), b.data(), a.size()), expected);
  if (__builtin_cpu_supports("avx512f"))
    EXPECT_EQ(dotAvx512(a.data(), b.data(), a.size()), expected);
#endif
}

} // namespace
