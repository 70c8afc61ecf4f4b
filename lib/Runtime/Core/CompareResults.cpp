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

/// The storage of elements, and the number that a stored element is.
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

/// True if an element of a tensor that is updated in place is what it was before, on both devices: the kernel had
/// nothing to do with it, or was right to leave it.
bool isUntouched(const ResultBytes &result, uint64_t index, uint64_t bytes) {
  const uint8_t *before = static_cast<const uint8_t *>(result.before);
  if (!before)
    return false;
  uint64_t offset = index * bytes;
  return std::memcmp(static_cast<const uint8_t *>(result.computed) + offset, before + offset, bytes) == 0 &&
         std::memcmp(static_cast<const uint8_t *>(result.expected) + offset, before + offset, bytes) == 0;
}

template <typename Float> ResultComparison compareFloats(const ResultBytes &bytes, double tolerance) {
  ResultComparison result;
  uint64_t count = bytes.count / Float::bytes;
  double squares = 0, finite = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (isUntouched(bytes, i, Float::bytes))
      continue;
    ++result.elements;
    if (double value = Float::at(bytes.expected, i); std::isfinite(value)) {
      squares += value * value;
      ++finite;
    }
  }
  double typical = finite != 0 ? std::sqrt(squares / finite) : 0;
  for (uint64_t i = 0; i < count; ++i) {
    double a = Float::at(bytes.computed, i), b = Float::at(bytes.expected, i);
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

/// Compares integers. A few may be one more or less than expected: at most `share` of them, or one, if it is not 0.
template <typename Integer> ResultComparison compareIntegers(const ResultBytes &bytes, double share = 0) {
  ResultComparison result;
  bool onlySteps = true;
  for (uint64_t i = 0; i < bytes.count / sizeof(Integer); ++i) {
    auto a = Plain<Integer>::at(bytes.computed, i), b = Plain<Integer>::at(bytes.expected, i);
    result.elements += !isUntouched(bytes, i, sizeof(Integer));
    if (a == b)
      continue;
    bool isStep = share != 0 && std::max(a, b) - std::min(a, b) == 1;
    uint64_t differing = result.differing;
    if (onlySteps && !isStep) // the first that is certainly wrong is the one to name
      result.differing = 0;
    noteDifference(result, i, a, b, [](Integer value) { return std::to_string(value); });
    result.differing = differing + 1;
    onlySteps &= isStep;
  }
  result.agrees = result.differing == 0 ||
                  (onlySteps && double(result.differing) <= std::max(1.0, share * double(result.elements)));
  return result;
}

} // namespace

__attribute__((cold)) ResultComparison compareResults(std::optional<itx_dtype> dtype, const ResultBytes &bytes,
                                                      double tolerance) {
  if (!dtype)
    return compareIntegers<uint8_t>(bytes);
  switch (*dtype) {
  case ITX_F64:
    return compareFloats<Plain<double>>(bytes, tolerance);
  case ITX_F32:
    return compareFloats<Plain<float>>(bytes, tolerance);
  case ITX_F16:
    return compareFloats<F16>(bytes, tolerance);
  case ITX_BF16:
    return compareFloats<Bf16>(bytes, tolerance);
  case ITX_I64:
    return compareIntegers<int64_t>(bytes);
  case ITX_I32:
    return compareIntegers<int32_t>(bytes);
  case ITX_I16:
    return compareIntegers<int16_t>(bytes);
  case ITX_I8:
    return compareIntegers<int8_t>(bytes, tolerance);
  case ITX_U8:
    return compareIntegers<uint8_t>(bytes, tolerance);
  case ITX_U16:
    return compareIntegers<uint16_t>(bytes);
  case ITX_U32:
    return compareIntegers<uint32_t>(bytes);
  case ITX_U64:
    return compareIntegers<uint64_t>(bytes);
  case ITX_BOOL:
    break;
  }
  return compareIntegers<uint8_t>(bytes);
}

} // namespace intarsia::runtime
