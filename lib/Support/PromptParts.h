//===- PromptParts.h - How prompts go through a pipeline ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_SUPPORT_PROMPTPARTS_H
#define INTARSIA_SUPPORT_PROMPTPARTS_H

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace intarsia {

/// Returns how many tokens of a prompt a call best takes, if so many stages compute parts of it at the same time.
///
/// A prompt has n tokens, and a part c. S stages take as long as one stage takes for n / c + S - 1 parts, and a part
/// takes time in proportion to c + h. This is least for c = sqrt(n h / (S - 1)).
inline int64_t promptPart(int64_t tokens, int64_t stages) {
  // More tokens of a call do not make it faster: weights are read once for many tokens.
  constexpr int64_t most = 512;
  // The rows that kernels compute at once.
  constexpr int64_t unit = 16;
  // h: what a call takes beside its tokens, as the time of so many. 512 tokens in two stages take least in parts of 32
  // to 64 (docs/decisions/0072-prompts-go-through-pipelines-in-parts.md).
  constexpr double overhead = 8;
  if (stages < 2)
    return most;
  double best = std::sqrt(double(std::max<int64_t>(tokens, 1)) * overhead / double(stages - 1));
  return std::clamp<int64_t>(int64_t(best) / unit * unit, unit, most);
}

} // namespace intarsia

#endif
