//===- StepTimes.cpp - How long steps take ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/StepTimes.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace intarsia::runtime {

/// The weight of a new measurement: the last ten or so count, so that one interrupted step does not.
static constexpr double newWeight = 0.2;
/// The share of the target that a step is planned for: the time of the next one is not known exactly.
static constexpr double targetShare = 0.9;

static void average(double &value, double measured) {
  value = value == 0 ? measured : value + newWeight * (measured - value);
}

static size_t classOf(int64_t rows) { return size_t(std::bit_width(uint64_t(rows))); }

void StepTimes::observe(int64_t rows, int64_t promptTokens, double seconds) {
  if (promptTokens == 0) {
    average(rowsSeconds_[classOf(rows)], seconds);
    return;
  }
  double rest = seconds - rowsSeconds(rows);
  // Few tokens take hardly longer than none: what they say of one token is noise.
  if (rest > 0 && promptTokens >= 8)
    average(tokenSeconds_, rest / double(promptTokens));
}

double StepTimes::rowsSeconds(int64_t rows) const {
  if (rows == 0)
    return 0;
  // The nearest number of rows that was measured: times grow more slowly than rows.
  auto own = ptrdiff_t(classOf(rows));
  for (ptrdiff_t distance = 0; distance < ptrdiff_t(rowsSeconds_.size()); ++distance)
    for (ptrdiff_t at : {own - distance, own + distance})
      if (at >= 0 && at < ptrdiff_t(rowsSeconds_.size()) && rowsSeconds_[at] > 0)
        return rowsSeconds_[at];
  return 0;
}

int64_t StepTimes::promptTokens(int64_t rows, double targetSeconds, int64_t least, int64_t most) const {
  least = std::min(least, most);
  if (rows == 0 || targetSeconds <= 0)
    return most;
  if (tokenSeconds_ == 0)
    return least; // measured by the first step
  double room = targetShare * targetSeconds - rowsSeconds(rows);
  return std::clamp(int64_t(std::min(room / tokenSeconds_, double(most))), least, most);
}

} // namespace intarsia::runtime
