//===- CompareResults.cpp - Results of one kernel on two devices --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/CompareResults.h"

#include "lib/Formats/FloatFormats.h"
#include "lib/Support/Status.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace intarsia::runtime {

namespace {

/// How elements are stored, and the number that a stored element is.
template <typename Stored, auto decode> struct Format {
  static auto at(const void *data, uint64_t index) {
    Stored stored;
    std::memcpy(&stored, static_cast<const uint8_t *>(data) + index * sizeof(Stored), sizeof(Stored));
    return decode(stored);
  }
  static constexpr uint64_t bytes = sizeof(Stored);
};

template <typename T> constexpr T same(T value) { return value; }
template <typename T> using Plain = Format<T, same<T>>;
using F16 = Format<uint16_t, decodeF16>;
using Bf16 = Format<uint16_t, decodeBf16>;

/// Notes a differing element; `text` makes a text of a value.
template <typename Value, typename Text>
void noteDifference(ResultComparison &result, uint64_t element, Value computed, Value expected, Text text) {
  if (result.differing++ != 0)
    return;
  result.first = element;
  result.computed = text(computed);
  result.expected = text(expected);
}

template <typename Float>
ResultComparison compareFloats(const void *computed, const void *expected, uint64_t bytes, double tolerance) {
  ResultComparison result;
  result.elements = bytes / Float::bytes;
  double squares = 0, finite = 0;
  for (uint64_t i = 0; i < result.elements; ++i)
    if (double value = Float::at(expected, i); std::isfinite(value)) {
      squares += value * value;
      ++finite;
    }
  double typical = finite != 0 ? std::sqrt(squares / finite) : 0;
  for (uint64_t i = 0; i < result.elements; ++i) {
    double a = Float::at(computed, i), b = Float::at(expected, i);
    if (a == b || (std::isnan(a) && std::isnan(b)))
      continue;
    bool comparable = std::isfinite(a) && std::isfinite(b);
    double scale = std::max(std::fabs(b), typical), difference = std::fabs(a - b);
    if (comparable) // where the scale is 0 the difference is infinitely large
      result.largestDifference = std::max(result.largestDifference, difference / scale);
    if (!comparable || !(difference <= tolerance * scale))
      noteDifference(result, i, a, b, [](double value) { return format("%.9g", value); });
  }
  result.agrees = result.differing == 0;
  return result;
}

template <typename Integer>
ResultComparison compareIntegers(const void *computed, const void *expected, uint64_t bytes) {
  ResultComparison result;
  result.elements = bytes / sizeof(Integer);
  if (bytes == 0 || std::memcmp(computed, expected, bytes) == 0)
    return result;
  for (uint64_t i = 0; i < result.elements; ++i) {
    auto a = Plain<Integer>::at(computed, i), b = Plain<Integer>::at(expected, i);
    if (a != b)
      noteDifference(result, i, a, b, [](Integer value) { return std::to_string(value); });
  }
  result.agrees = result.differing == 0;
  return result;
}

/// Lets a few quantized values differ.
ResultComparison allowFlips(ResultComparison result, double tolerance) {
  result.agrees = double(result.differing) <= std::max(1.0, tolerance * double(result.elements));
  return result;
}

} // namespace

ResultComparison compareResults(std::optional<itx_dtype> dtype, const void *computed, const void *expected,
                                uint64_t bytes, double tolerance) {
  if (!dtype)
    return compareIntegers<uint8_t>(computed, expected, bytes);
  switch (*dtype) {
  case ITX_F64:
    return compareFloats<Plain<double>>(computed, expected, bytes, tolerance);
  case ITX_F32:
    return compareFloats<Plain<float>>(computed, expected, bytes, tolerance);
  case ITX_F16:
    return compareFloats<F16>(computed, expected, bytes, tolerance);
  case ITX_BF16:
    return compareFloats<Bf16>(computed, expected, bytes, tolerance);
  case ITX_I64:
    return compareIntegers<int64_t>(computed, expected, bytes);
  case ITX_I32:
    return compareIntegers<int32_t>(computed, expected, bytes);
  case ITX_I16:
    return compareIntegers<int16_t>(computed, expected, bytes);
  case ITX_I8:
    return allowFlips(compareIntegers<int8_t>(computed, expected, bytes), tolerance);
  case ITX_U8:
    return allowFlips(compareIntegers<uint8_t>(computed, expected, bytes), tolerance);
  case ITX_BOOL:
    break;
  }
  return compareIntegers<uint8_t>(computed, expected, bytes);
}

} // namespace intarsia::runtime
