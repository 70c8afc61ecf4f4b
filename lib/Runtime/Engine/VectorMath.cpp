//===- VectorMath.cpp - Loops over rows of logits -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/VectorMath.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace intarsia::runtime {

namespace {

constexpr int64_t lanes = 8;
using Floats = float __attribute__((vector_size(lanes * sizeof(float))));
using Words = int32_t __attribute__((vector_size(lanes * sizeof(int32_t))));

/// Functions are compiled for vectors of 32 bytes too, and the loader takes what the processor has. Both give the same
/// bits: neither multiplies and adds with one rounding.
#if defined(__x86_64__) && defined(__linux__)
#define ITX_FOR_VECTORS __attribute__((target_clones("default", "avx2")))
#else
#define ITX_FOR_VECTORS
#endif
#define ITX_INLINE __attribute__((always_inline)) inline

ITX_INLINE Floats load(const float *from) {
  Floats result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}

ITX_INLINE Floats splat(float value) { return Floats{} + value; }

/// exp(x) for x <= 0; 0 below the range of normal numbers. x = n ln 2 + r with |r| <= ln 2 / 2, and the Taylor
/// polynomial of degree 6 of exp(r), whose remainder is below 1.3e-7 there.
ITX_INLINE Floats exponential(Floats x) {
  const Floats shift = splat(0x1.8p23f); // adding it rounds to an integer
  Words isZero = x < splat(-87.0f);
  x = isZero ? splat(-87.0f) : x;
  Floats shifted = x * splat(0x1.715476p0f) + shift;
  Floats n = shifted - shift;
  // ln 2 in two parts: n times the first has no rounding error.
  Floats r = x - n * splat(0x1.62e4p-1f) - n * splat(0x1.7f7d1cp-20f);
  Floats p = splat(1.0f / 720);
  p = p * r + splat(1.0f / 120);
  p = p * r + splat(1.0f / 24);
  p = p * r + splat(1.0f / 6);
  p = p * r + splat(0.5f);
  p = p * r + splat(1.0f);
  p = p * r + splat(1.0f);
  Words exponent;
  std::memcpy(&exponent, &shifted, sizeof(exponent));
  Words bits;
  std::memcpy(&bits, &p, sizeof(bits));
  bits += exponent << 23;
  std::memcpy(&p, &bits, sizeof(bits));
  return isZero ? Floats{} : p;
}

} // namespace

ITX_FOR_VECTORS Largest largestOf(const float *values, int64_t count) {
  constexpr float least = -std::numeric_limits<float>::infinity();
  Floats best[4] = {splat(least), splat(least), splat(least), splat(least)};
  Words nan = {};
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes)
    for (int64_t part = 0; part < 4; ++part) {
      Floats value = load(values + i + part * lanes);
      best[part] = value > best[part] ? value : best[part];
      nan |= value != value;
    }
  Largest result = {least, false};
  for (const Floats &part : best)
    for (int64_t lane = 0; lane < lanes; ++lane)
      result.value = std::max(result.value, part[lane]);
  for (int64_t lane = 0; lane < lanes; ++lane)
    result.hasNan |= nan[lane] != 0;
  for (; i < count; ++i) {
    result.value = std::max(result.value, values[i]);
    result.hasNan |= std::isnan(values[i]);
  }
  return result;
}

ITX_FOR_VECTORS int64_t indexOf(const float *values, int64_t count, float value) {
  int64_t i = 0;
  Floats wanted = splat(value);
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    Words found = {};
    for (int64_t part = 0; part < 4; ++part)
      found |= load(values + i + part * lanes) == wanted;
    uint64_t words[lanes * sizeof(int32_t) / sizeof(uint64_t)];
    std::memcpy(words, &found, sizeof(words));
    if ((words[0] | words[1] | words[2] | words[3]) != 0)
      break;
  }
  while (i < count && values[i] != value)
    ++i;
  return i;
}

ITX_FOR_VECTORS double sumOfExponentials(const float *values, int64_t count, float largest, float factor) {
  // Sums of a few in single precision, and of those in double.
  constexpr int64_t block = 16 * lanes;
  double total = 0;
  int64_t i = 0;
  for (; i + lanes <= count;) {
    int64_t end = std::min(count - lanes + 1, i + block);
    Floats sum = {};
    for (; i < end; i += lanes)
      sum += exponential((load(values + i) - largest) * factor);
    for (int64_t lane = 0; lane < lanes; ++lane)
      total += double(sum[lane]);
  }
  if (i < count) {
    Floats rest = splat(-std::numeric_limits<float>::infinity());
    for (int64_t lane = 0; i + lane < count; ++lane)
      rest[lane] = (values[i + lane] - largest) * factor;
    rest = exponential(rest);
    for (int64_t lane = 0; lane < lanes; ++lane)
      total += double(rest[lane]);
  }
  return total;
}

ITX_FOR_VECTORS bool indicesFrom(const float *values, int64_t count, float least, size_t most,
                                 std::vector<int32_t> &indices) {
  Floats limit = splat(least);
  int64_t i = 0;
  auto add = [&](int64_t end) {
    for (; i < end; ++i)
      if (values[i] >= least) {
        if (indices.size() == most)
          return false;
        indices.push_back(int32_t(i));
      }
    return true;
  };
  while (i + 4 * lanes <= count) {
    Words found = {};
    for (int64_t part = 0; part < 4; ++part)
      found |= load(values + i + part * lanes) >= limit;
    uint64_t words[lanes * sizeof(int32_t) / sizeof(uint64_t)];
    std::memcpy(words, &found, sizeof(words));
    if ((words[0] | words[1] | words[2] | words[3]) == 0)
      i += 4 * lanes;
    else if (!add(i + 4 * lanes))
      return false;
  }
  return add(count);
}

} // namespace intarsia::runtime
