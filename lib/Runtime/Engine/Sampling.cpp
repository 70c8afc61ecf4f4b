//===- Sampling.cpp - Choose the next token from logits -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/Sampling.h"

#include "lib/Runtime/Engine/VectorMath.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace intarsia::runtime {

/// Likeliest tokens that are looked at first: few tokens of a large vocabulary are likely.
static constexpr int64_t few = 1024;
/// Tokens are looked at that are at most so much less likely than the likeliest one, as logarithms; each next distance
/// is tried if those before do not decide.
static constexpr double distances[] = {1.5, 3, 6, 12};
/// Lower temperatures divide by this: differences of logits over lower ones are beyond what floats of 32 bits hold, and
/// the token with the largest logit takes all of the probability either way.
static constexpr double leastTemperature = 1e-30;
/// By a higher temperature all tokens are equally likely in single precision.
static constexpr double mostTemperature = 1e9;
/// By a larger penalty, or one over it, a logit in single precision may leave its range.
static constexpr double mostPenalty = 1e9;

static Status checkRange(const char *name, double value, double least, double most) {
  if (value >= least && value <= most)
    return Status::success();
  return error(ITX_INVALID_ARGUMENT, "%s is %g, must be in [%g, %g]", name, value, least, most);
}

Status SamplingRules::check(int64_t vocabulary) const {
  ITX_RETURN_IF_ERROR(checkRange("repetition_penalty", repetitionPenalty, 1 / mostPenalty, mostPenalty));
  ITX_RETURN_IF_ERROR(checkRange("presence_penalty", presencePenalty, -mostPenalty, mostPenalty));
  ITX_RETURN_IF_ERROR(checkRange("frequency_penalty", frequencyPenalty, -mostPenalty, mostPenalty));
  ITX_RETURN_IF_ERROR(checkRange("temperature", temperature, 0, mostTemperature));
  ITX_RETURN_IF_ERROR(checkRange("top_p", topP, std::numeric_limits<double>::min(), 1));
  ITX_RETURN_IF_ERROR(checkRange("min_p", minP, 0, 1));
  if (topK < 0)
    return error(ITX_INVALID_ARGUMENT, "top_k is %lld, must be at least 0", (long long)topK);
  for (auto [token, value] : bias) {
    if (token < 0 || token >= vocabulary)
      return error(ITX_INVALID_ARGUMENT, "logit_bias is for token %lld, tokens are in [0, %lld)", (long long)token,
                   (long long)vocabulary);
    if (std::isnan(value) || value == std::numeric_limits<float>::infinity())
      return error(ITX_INVALID_ARGUMENT, "logit_bias of token %lld is %g, must be a number", (long long)token, value);
  }
  return Status::success();
}

double SamplingRules::divisor() const { return temperature != 0 ? std::max(temperature, leastTemperature) : 1; }

/// Refuses scores that no distribution follows from.
static Status checkLargest(const Largest &largest) {
  if (std::isfinite(largest.value) && !largest.hasNan)
    return Status::success();
  return error(ITX_INVALID_ARGUMENT,
               "the largest logit is %s: no token can be drawn; the model's weights may be corrupted, or its "
               "activations beyond what their type holds",
               largest.hasNan      ? "nan"
               : largest.value > 0 ? "inf"
                                   : "-inf");
}

const float *SamplingRules::changed(const float *logits, int64_t vocabulary, const SeenTokens &seen,
                                    const uint32_t *allowed, std::vector<float> &copy) const {
  if (!needsAllLogits() && !allowed)
    return logits;
  copy.assign(logits, logits + vocabulary);
  if (allowed)
    for (int64_t word = 0; word * 32 < vocabulary; ++word) {
      uint32_t forbidden = ~allowed[word];
      if (forbidden == 0)
        continue;
      for (int64_t token = word * 32, end = std::min(token + 32, vocabulary); token < end; ++token)
        if (forbidden >> (token % 32) & 1)
          copy[token] = -std::numeric_limits<float>::infinity();
    }
  for (auto [token, value] : bias)
    copy[token] += value;
  if (penalises())
    for (auto [token, count] : seen.counts) {
      double score = copy[token];
      score = score > 0 ? score / repetitionPenalty : score * repetitionPenalty;
      if (count > 0)
        score -= presencePenalty + double(count) * frequencyPenalty;
      copy[token] = float(score);
    }
  return copy.data();
}

static bool isMoreLikely(const Scored &left, const Scored &right) {
  return left.score > right.score || (left.score == right.score && left.token < right.token);
}

/// Returns the `count` likeliest tokens of a row.
static std::vector<Scored> likeliestOf(const float *scores, int64_t vocabulary, int64_t count) {
  count = std::min(count, vocabulary);
  std::vector<int32_t> tokens;
  if (count < vocabulary) {
    // Numbers alone are divided faster than pairs.
    std::vector<float> values(scores, scores + vocabulary);
    std::nth_element(values.begin(), values.begin() + count, values.end(), std::greater<float>());
    (void)indicesFrom(scores, vocabulary, values[size_t(count)], size_t(vocabulary), tokens);
  } else {
    tokens.resize(size_t(vocabulary));
    std::iota(tokens.begin(), tokens.end(), 0);
  }
  std::vector<Scored> all;
  for (int32_t token : tokens)
    all.push_back({scores[token], token});
  // More than `count` may have the least score.
  std::sort(all.begin(), all.end(), isMoreLikely);
  all.resize(size_t(count));
  return all;
}

Status SamplingRules::decide(const float *scores, int64_t vocabulary,
                             const std::function<bool(const Likeliest &)> &decide) const {
  Largest largest = largestOf(scores, vocabulary);
  ITX_RETURN_IF_ERROR(checkLargest(largest));
  double by = divisor();
  Likeliest likeliest;
  likeliest.vocabulary = vocabulary;
  // A factor in single precision may be infinite: then only the largest score counts.
  double factor = std::min(1 / by, double(std::numeric_limits<float>::max()));
  likeliest.total = sumOfExponentials(scores, vocabulary, largest.value, float(factor));
  // Most numbers mean a token that is not much less likely than the likeliest one: those are found without sorting all.
  std::vector<int32_t> near;
  for (double distance : distances) {
    double least = std::max(double(largest.value) - distance * by, -double(std::numeric_limits<float>::max()));
    size_t known = near.size();
    near.clear();
    if (!indicesFrom(scores, vocabulary, float(least), few, near))
      break;
    if (near.size() == known)
      continue;
    likeliest.tokens.clear();
    for (int32_t token : near)
      likeliest.tokens.push_back({scores[token], token});
    std::sort(likeliest.tokens.begin(), likeliest.tokens.end(), isMoreLikely);
    if (decide(likeliest))
      return Status::success();
  }
  for (int64_t count = std::min(few, vocabulary);; count = std::min(8 * count, vocabulary)) {
    likeliest.tokens = likeliestOf(scores, vocabulary, count);
    if (decide(likeliest))
      return Status::success();
    if (count == vocabulary)
      return error(ITX_INTERNAL, "no token was chosen from all of the vocabulary");
  }
}

std::vector<double> SamplingRules::weights(const Likeliest &likeliest) const {
  std::vector<double> result;
  result.reserve(likeliest.tokens.size());
  double by = divisor();
  for (const Scored &scored : likeliest.tokens)
    result.push_back(std::exp((scored.score - likeliest.tokens[0].score) / by));
  return result;
}

/// Returns running sums.
static std::vector<double> sumsOf(const std::vector<double> &weights, size_t count) {
  std::vector<double> sums(count);
  std::partial_sum(weights.begin(), weights.begin() + ptrdiff_t(count), sums.begin());
  return sums;
}

/// True if a number may be on the other side of one of some ascending sums than it seems.
static bool isNear(const std::vector<double> &sums, double at, double error) {
  return error > 0 && std::lower_bound(sums.begin(), sums.end(), at - error) !=
                          std::upper_bound(sums.begin(), sums.end(), at + error);
}

std::optional<SamplingRules::Kept> SamplingRules::keep(const Likeliest &likeliest,
                                                       const std::vector<double> &weights) const {
  auto known = int64_t(weights.size());
  Kept kept = {likeliest.vocabulary, likeliest.total, likeliest.total * likeliest.error};
  std::vector<double> sums = sumsOf(weights, weights.size());
  if (topK > 0 && topK < kept.count) {
    if (topK > known)
      return std::nullopt;
    kept = {topK, sums[topK - 1], 0};
  }
  if (topP < 1) {
    // A token remains if those before it sum to less than the limit.
    double limit = topP * kept.total;
    std::vector<double> before(sums.begin(), sums.begin() + std::min(kept.count, known));
    int64_t count = std::lower_bound(before.begin(), before.end(), limit) - before.begin() + 1;
    if (isNear(before, limit, kept.error) || (count > known && known < kept.count))
      return std::nullopt;
    count = std::min(count, kept.count);
    kept = {count, sums[count - 1], 0};
  }
  if (minP > 0) {
    int64_t count = 0;
    for (int64_t i = 0; i < std::min(kept.count, known); ++i)
      count += weights[i] >= minP;
    if (count == known && known < kept.count)
      return std::nullopt;
    if (count < kept.count)
      kept = {count, sums[count - 1], 0};
  }
  return kept;
}

std::optional<int64_t> SamplingRules::draw(const Likeliest &likeliest, double number) const {
  std::vector<double> all = weights(likeliest);
  std::optional<Kept> kept = keep(likeliest, all);
  if (!kept)
    return std::nullopt;
  std::vector<double> sums = sumsOf(all, size_t(std::min<int64_t>(kept->count, int64_t(all.size()))));
  double at = number * kept->total;
  auto index = int64_t(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
  if (isNear(sums, at, kept->error))
    return std::nullopt;
  if (index == int64_t(sums.size())) {
    if (index < kept->count)
      return std::nullopt;
    // The total may be above the running sum by its rounding.
    index = -1;
    for (size_t i = 0; i < sums.size(); ++i)
      index += all[i] != 0;
  }
  return likeliest.tokens[index].token;
}

Status SamplingRules::choose(const float *logits, int64_t vocabulary, const SeenTokens &seen, const uint32_t *allowed,
                             double number, int64_t &token) const {
  std::vector<float> copy;
  const float *scores = changed(logits, vocabulary, seen, allowed, copy);
  if (temperature == 0) {
    Largest largest = largestOf(scores, vocabulary);
    ITX_RETURN_IF_ERROR(checkLargest(largest));
    token = indexOf(scores, vocabulary, largest.value);
    return Status::success();
  }
  return decide(scores, vocabulary, [&](const Likeliest &likeliest) {
    std::optional<int64_t> drawn = draw(likeliest, number);
    token = drawn.value_or(0);
    return drawn.has_value();
  });
}

std::optional<int64_t> SamplingRules::chooseCandidate(const Likeliest &likeliest, double number) const {
  if (!std::isfinite(likeliest.tokens[0].score))
    return std::nullopt;
  if (temperature == 0)
    return likeliest.tokens[0].token;
  if (!std::isfinite(likeliest.total))
    return std::nullopt;
  return draw(likeliest, number);
}

Status SamplingRules::probabilities(const float *logits, int64_t vocabulary, const SeenTokens &seen,
                                    const uint32_t *allowed, std::vector<double> &result) const {
  std::vector<float> copy;
  const float *scores = changed(logits, vocabulary, seen, allowed, copy);
  result.assign(vocabulary, 0);
  Largest largest = largestOf(scores, vocabulary);
  ITX_RETURN_IF_ERROR(checkLargest(largest));
  if (temperature == 0) {
    result[indexOf(scores, vocabulary, largest.value)] = 1;
    return Status::success();
  }
  double by = divisor();
  if (topK == 0 && topP == 1 && minP == 0) {
    double total = 0;
    for (int64_t token = 0; token < vocabulary; ++token)
      total += result[token] = std::exp((double(scores[token]) - double(largest.value)) / by);
    for (double &value : result)
      value /= total;
    return Status::success();
  }
  return decide(scores, vocabulary, [&](const Likeliest &likeliest) {
    std::vector<double> all = weights(likeliest);
    std::optional<Kept> kept = keep(likeliest, all);
    if (!kept || kept->count > int64_t(all.size()))
      return false;
    double total = std::accumulate(all.begin(), all.begin() + kept->count, 0.0);
    for (int64_t i = 0; i < kept->count; ++i)
      result[likeliest.tokens[i].token] = all[i] / total;
    return true;
  });
}

int64_t drawToken(const std::vector<double> &probabilities, double number) {
  std::vector<Scored> all;
  for (size_t token = 0; token < probabilities.size(); ++token)
    if (probabilities[token] > 0)
      all.push_back({probabilities[token], int64_t(token)});
  double at = number * std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  // Few tokens decide nearly always, so that not all need be sorted.
  for (size_t count = std::min<size_t>(few, all.size());; count = std::min(8 * count, all.size())) {
    std::partial_sort(all.begin(), all.begin() + ptrdiff_t(count), all.end(), isMoreLikely);
    double sum = 0;
    for (size_t i = 0; i < count; ++i)
      if ((sum += all[i].score) > at)
        return all[i].token;
    if (count == all.size()) // the running sum may be below the total by its rounding
      return all.empty() ? 0 : all.back().token;
  }
}

LogProbabilities::LogProbabilities(const float *logits, int64_t vocabulary)
    : logits_(logits), vocabulary_(vocabulary), largest_(largestOf(logits, vocabulary).value),
      logarithm_(std::log(sumOfExponentials(logits, vocabulary, float(largest_), 1))) {}

std::vector<Scored> LogProbabilities::likeliest(int64_t count) const {
  std::vector<Scored> result = likeliestOf(logits_, vocabulary_, count);
  for (Scored &scored : result)
    scored.score = of(scored.token);
  return result;
}

} // namespace intarsia::runtime
