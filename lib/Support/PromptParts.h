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
///
/// Ranks that compute `turns` stages each begin and end with one of them: n / c + (S - 1) / turns, where S is the
/// number of ranks (StageOrder.h).
inline int64_t promptPart(int64_t tokens, int64_t stages, int64_t turns = 1) {
  // More tokens of a call do not make it faster: weights are read once for many tokens.
  constexpr int64_t most = 512;
  // The rows that kernels compute at once.
  constexpr int64_t unit = 16;
  // h: what a call takes beside its tokens, as the time of so many. 512 tokens in two stages take least in parts of 32
  // to 64 (docs/decisions/0072-prompts-go-through-pipelines-in-parts.md).
  constexpr double overhead = 8;
  if (stages < 2)
    return most;
  double best = std::sqrt(double(std::max<int64_t>(tokens, 1)) * overhead * double(turns) / double(stages - 1));
  return std::clamp<int64_t>(int64_t(best) / unit * unit, unit, most);
}

/// The most tokens of a prompt that ranks with several stages each are given in one call, which they compute in parts:
/// ranks that have several parts of it behind each other have no more to gain.
inline constexpr int64_t mostTokensInTurns = 2048;

/// Returns how many tokens each part has of a call with so many tokens of so many sequences, which ranks with several
/// stages each compute in parts: about as many as promptPart says, in parts of one size. Several sequences are at least
/// as many parts as there are ranks.
inline int64_t partInTurns(int64_t tokens, int64_t sequences, int64_t ranks, int64_t turns) {
  auto quotient = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  int64_t parts = quotient(tokens, promptPart(tokens, ranks, turns));
  if (parts < std::min(ranks, sequences))
    return quotient(tokens, std::min(ranks, sequences));
  constexpr int64_t unit = 16; // as above
  return std::min(quotient(quotient(tokens, parts), unit) * unit, tokens);
}

} // namespace intarsia

#endif
