//===- Sampling.h - Choose the next token from logits -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_SAMPLING_H
#define INTARSIA_RUNTIME_ENGINE_SAMPLING_H

#include "lib/Runtime/Engine/Random.h"
#include "lib/Support/Status.h"

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace intarsia::runtime {

/// A token and its score.
struct Scored {
  double score = 0;
  int64_t token = 0;
};

/// The likeliest tokens of a vocabulary, as many as are known.
struct Likeliest {
  std::vector<Scored> tokens; // the likeliest first; of those with equal scores the lower token
  double total = 0;           // of the whole vocabulary: the sum of exp((score - largest score) / temperature)
  double error = 0;           // by how much, relatively, `total` may be off
  int64_t vocabulary = 0;
};

/// The tokens of a text that penalties ask for.
struct SeenTokens {
  std::unordered_map<int64_t, int64_t> counts; // of generated tokens; 0: the token occurs in the prompt alone
};

/// By how much, relatively, a sum of exponentials that a device computed may be off. Measured are at most 1e-6
/// (test_gpu_candidates.py); what a larger error than this could change is decided by all logits.
constexpr double deviceError = 1e-5;

/// The rules for choosing the next token, applied in the order of the fields. Each rule sees only the tokens that
/// remain.
///
/// A token is drawn by one random number: it is the one in whose share of the probability the number lies, when the
/// shares of the tokens that remain lie side by side, that of the likeliest first. What the likeliest tokens decide
/// needs no others (decision 35).
struct SamplingRules {
  std::vector<std::pair<int64_t, float>> bias; // added to logits of tokens
  double repetitionPenalty = 1; // divides positive and multiplies negative logits of tokens that already occur
                                // (arXiv 1909.05858, section 4.1)
  double presencePenalty = 0;   // subtracted from the logits of tokens that were generated
  double frequencyPenalty = 0;  // likewise, as often as they were
  double temperature = 0;       // divides logits; 0 takes the most likely token
  int64_t topK = 0;             // keeps so many most likely tokens, of equally likely ones the lower; 0: all
  double topP =
      1; // keeps the fewest most likely tokens whose probabilities sum to at least this (arXiv 1904.09751, 3.1)
  double minP = 0; // keeps tokens at least this times as likely as the most likely one (arXiv 2407.01082, section 3)

  /// Refuses values out of range, and names them.
  Status check(int64_t vocabulary) const;

  /// True if the likeliest tokens by the model's own logits say nothing of those by the rules.
  bool needsAllLogits() const { return !bias.empty() || penalises(); }
  bool penalises() const { return repetitionPenalty != 1 || presencePenalty != 0 || frequencyPenalty != 0; }

  /// What differences of logits are divided by; 1 if the most likely token is taken.
  double divisor() const;

  /// Chooses the next token, given its logits [vocabulary] and a number in [0, 1). Bits of `allowed`, unless null, are
  /// those of tokens that may come.
  Status choose(const float *logits, int64_t vocabulary, const SeenTokens &seen, const uint32_t *allowed, double number,
                int64_t &token) const;

  /// Returns what `choose` chooses for the same number; nothing if that needs all logits.
  std::optional<int64_t> chooseCandidate(const Likeliest &likeliest, double number) const;

  /// Gives the probability of each token as the next one.
  Status probabilities(const float *logits, int64_t vocabulary, const SeenTokens &seen, const uint32_t *allowed,
                       std::vector<double> &result) const;

private:
  struct Kept {
    int64_t count = 0; // of the likeliest tokens
    double total = 0;  // of their weights
    double error = 0;  // of the total
  };

  std::vector<double> weights(const Likeliest &likeliest) const;
  std::optional<Kept> keep(const Likeliest &likeliest, const std::vector<double> &weights) const;
  std::optional<int64_t> draw(const Likeliest &likeliest, double number) const;
  /// Calls `decide` with as few of the likeliest tokens as suffice, until it returns true.
  Status decide(const float *scores, int64_t vocabulary, const std::function<bool(const Likeliest &)> &decide) const;
  /// Gives the logits after bias, penalties and mask; `copy` is memory for them.
  const float *changed(const float *logits, int64_t vocabulary, const SeenTokens &seen, const uint32_t *allowed,
                       std::vector<float> &copy) const;
};

/// Returns a token with its probability, given a number in [0, 1); `probabilities` need not sum to 1.
int64_t drawToken(const std::vector<double> &probabilities, double number);

/// Gives the natural logarithms of the probabilities of tokens by the model: of some, and of the `count` likeliest.
class LogProbabilities {
public:
  LogProbabilities(const float *logits, int64_t vocabulary);
  double of(int64_t token) const { return double(logits_[token]) - largest_ - logarithm_; }
  std::vector<Scored> likeliest(int64_t count) const;

private:
  const float *logits_;
  int64_t vocabulary_;
  double largest_, logarithm_;
};

} // namespace intarsia::runtime

#endif
