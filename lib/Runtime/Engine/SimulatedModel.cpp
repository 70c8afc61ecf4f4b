//===- SimulatedModel.cpp - A model that computes nothing ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/SimulatedModel.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace intarsia::runtime {

/// Scrambles a number (Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators", figure 16).
static uint64_t scramble(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// Fills a row of logits: a few tokens are likely, all others are equally unlikely. One row in 64 prefers the stop
/// token.
static void fillLogits(const itx_mock_options &mock, int64_t position, int64_t token, float *row) {
  constexpr int64_t likely = 8;
  constexpr uint64_t oneIn = 64;
  std::fill_n(row, mock.vocabulary, -20.0f);
  uint64_t bits = scramble(mock.seed ^ scramble(uint64_t(position) * 0x9e3779b97f4a7c15 + uint64_t(token)));
  for (int64_t i = 0; i < likely; ++i) {
    auto chosen = int64_t(scramble(bits + uint64_t(i)) % uint64_t(mock.vocabulary));
    if (chosen != mock.stop_token)
      row[chosen] = float(likely - i) / 2;
  }
  if (mock.stop_token >= 0)
    row[mock.stop_token] = bits % oneIn == 0 ? float(likely) : -20.0f;
}

Status createSimulatedCache(const itx_mock_options &mock, const Cache::Options &options,
                            std::shared_ptr<Cache> &cache) {
  constexpr int64_t most = int64_t(1) << 24;
  if (mock.vocabulary < 2 || mock.vocabulary > most || mock.context < 1 || mock.context > most ||
      mock.page_tokens < 1 || mock.page_tokens > mock.context)
    return error(
        ITX_INVALID_ARGUMENT,
        "a simulated model of %lld tokens, a context of %lld and pages of %lld: 2 to 2^24, 1 to 2^24 and up to "
        "the context are possible",
        (long long)mock.vocabulary, (long long)mock.context, (long long)mock.page_tokens);
  if (mock.stop_token >= mock.vocabulary)
    return error(ITX_INVALID_ARGUMENT, "the stop token %lld of a simulated model, its tokens are in [0, %lld)",
                 (long long)mock.stop_token, (long long)mock.vocabulary);
  if (!(mock.step_seconds >= 0) || !(mock.token_seconds >= 0))
    return error(ITX_INVALID_ARGUMENT,
                 "steps of a simulated model take %g seconds and %g for each token: these cannot "
                 "be negative",
                 mock.step_seconds, mock.token_seconds);
  StepLayout layout;
  layout.vocabulary = mock.vocabulary;
  layout.context = mock.context;
  layout.pageTokens = mock.page_tokens;
  layout.turns.emplace_back();
  auto compute = [mock](const std::vector<Chunk> &chunks, Tensor &logits) -> Status {
    int64_t outputs = 0, tokens = 0;
    for (const Chunk &chunk : chunks) {
      outputs += chunk.outputs;
      tokens += chunk.count;
    }
    double seconds = mock.step_seconds + double(tokens) * mock.token_seconds;
    if (seconds > 0)
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    if (outputs == 0)
      return Status::success();
    const int64_t shape[] = {outputs, mock.vocabulary};
    ITX_RETURN_IF_ERROR(makeTensor(ITX_F32, shape, 2, logits));
    auto *row = static_cast<float *>(logits.data.get());
    for (const Chunk &chunk : chunks)
      for (int64_t i = chunk.count - chunk.outputs; i < chunk.count; ++i, row += mock.vocabulary)
        fillLogits(mock, chunk.sequence->length() + i, chunk.tokens[i], row);
    return Status::success();
  };
  return Cache::createSimulated(std::move(layout), options, std::move(compute), cache);
}

} // namespace intarsia::runtime
