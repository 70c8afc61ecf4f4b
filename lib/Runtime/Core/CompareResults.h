//===- CompareResults.h - Results of one kernel on two devices ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_COMPARERESULTS_H
#define INTARSIA_RUNTIME_CORE_COMPARERESULTS_H

#include "intarsia/runtime.h"

#include <cstdint>
#include <optional>
#include <string>

namespace intarsia::runtime {

/// The bytes of a result, in memory of the host.
struct ResultBytes {
  const void *computed = nullptr;
  const void *expected = nullptr;
  uint64_t count = 0;
  const void *before = nullptr; ///< of a tensor that the kernel updates in place: what it held; null for others
};

/// What a comparison found.
struct ResultComparison {
  uint64_t elements = 0;          ///< that were compared
  uint64_t differing = 0;         ///< elements that differ by more than the tolerance
  bool agrees = true;             ///< quantized values may have a few differing elements
  uint64_t first = 0;             ///< first differing element; if some are certainly wrong, the first of those
  std::string computed, expected; ///< its values
  double largestDifference = 0;   ///< of floats that are finite, relative as the tolerance is
};

/// Compares a result with the expected one. Without an element type they are bytes in a layout.
///
/// Floats a and b (expected) agree if |a - b| <= tolerance * max(|b|, r), where r is the root mean square of the finite
/// expected values: sums that cancel leave errors as large as their terms. NaN agrees with NaN, an infinity with itself
/// alone. Other elements agree if they are equal. Results of i8 and u8 are quantized values, where another order of the
/// same additions flips a rounding now and then: they agree if none differs by more than 1, and at most `tolerance` of
/// them, or one, differ at all.
///
/// If a tensor is updated in place, only those of its elements count that either device has changed. A forward step
/// changes a few rows of a large cache: if all elements counted, all that it writes could be wrong and be few.
ResultComparison compareResults(std::optional<itx_dtype> dtype, const ResultBytes &bytes, double tolerance);

} // namespace intarsia::runtime

#endif
