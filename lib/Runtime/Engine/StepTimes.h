//===- StepTimes.h - How long steps take --------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_STEPTIMES_H
#define INTARSIA_RUNTIME_ENGINE_STEPTIMES_H

#include <array>
#include <cstdint>

namespace intarsia::runtime {

/// Measured times of steps, by which the next one's share of prompts is chosen.
class StepTimes {
public:
  StepTimes();

  /// Takes the time of a step with a token of each of `rows` samples and `promptTokens` of prompts.
  void observe(int64_t rows, int64_t promptTokens, double seconds);

  /// Returns how many tokens of prompts a step with `rows` other tokens may have so that 99 of 100 such steps take no
  /// more than so many seconds, at least `least`: prompts go on where the target cannot be kept.
  int64_t promptTokens(int64_t rows, double targetSeconds, int64_t least, int64_t most) const;

  /// Returns the time of a step of `rows` alone; 0 if nothing is known.
  double rowsSeconds(int64_t rows) const;
  /// Returns the prompt tokens that are computed in a second; 0 if nothing is known.
  double promptRate() const { return tokenSeconds_ > 0 ? 1 / tokenSeconds_ : 0; }

private:
  /// By the number of binary digits of the rows.
  std::array<double, 64> rowsSeconds_ = {};
  double tokenSeconds_ = 0; // of a token of a prompt
  double delay_;            // 99 of 100 steps take no more than so many times what was expected of them
};

} // namespace intarsia::runtime

#endif
