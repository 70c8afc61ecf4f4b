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
/// How much longer than expected a step is assumed to take at least, and at most: the time of the next one is not known
/// exactly, and a machine that stands still now and then is no reason to compute no prompts.
static constexpr double leastDelay = 1 / 0.9, mostDelay = 4;
/// The share of steps that may take longer than a target, and the change of the assumed delay after such a step. Those
/// that are in time take back as much in the mean. With four times the change a few steps whose number of samples is
/// new leave prompts too little time for hundreds of steps.
static constexpr double lateShare = 0.01, lateChange = 0.05;

static void average(double &value, double measured) {
  value = value == 0 ? measured : value + newWeight * (measured - value);
}

static size_t classOf(int64_t rows) { return size_t(std::bit_width(uint64_t(rows))); }

StepTimes::StepTimes() : delay_(leastDelay) {}

void StepTimes::observe(int64_t rows, int64_t promptTokens, double seconds) {
  bool isKnown = (rows == 0 || rowsSeconds(rows) > 0) && (promptTokens == 0 || tokenSeconds_ > 0);
  if (double expected = rowsSeconds(rows) + double(promptTokens) * tokenSeconds_; isKnown && expected > 0) {
    // Follows the quantile of the delays (Robbins and Monro, 1951), in steps that are proportional to it.
    bool isLate = seconds > delay_ * expected;
    delay_ *= 1 + lateChange * (isLate ? 1 - lateShare : -lateShare);
    delay_ = std::clamp(delay_, leastDelay, mostDelay);
  }
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
  double room = targetSeconds / delay_ - rowsSeconds(rows);
  return std::clamp(int64_t(std::min(room / tokenSeconds_, double(most))), least, most);
}

} // namespace intarsia::runtime
