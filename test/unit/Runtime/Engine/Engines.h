//===- Engines.h - Engines of the sample language model -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIME_ENGINE_ENGINES_H
#define INTARSIA_TEST_UNIT_RUNTIME_ENGINE_ENGINES_H

#include "intarsia/engine.h"
#include "test/unit/Runtime/Decoder.h"

#include <atomic>
#include <map>
#include <memory>
#include <random>

namespace intarsia::testing {

struct FreeEngine {
  void operator()(itx_engine *engine) const { itx_engine_free(engine); }
};
using EnginePointer = std::unique_ptr<itx_engine, FreeEngine>;

/// What came of a sample.
struct Outcome {
  Tokens tokens;
  itx_finish finish = ITX_FINISH_NONE;
  int64_t endToken = -1, cached = 0;
  std::vector<float> logprobs;
  std::vector<std::vector<itx_logprob>> top;
  std::vector<std::pair<int64_t, float>> prompt;
  std::string message;
};
using Outcomes = std::map<std::pair<uint64_t, int32_t>, Outcome>;

/// A request as a value.
struct Asked {
  Tokens prompt;
  itx_request request = {};
  Tokens stops;
  Tokens biased = {failing};
  std::vector<float> bias = {-INFINITY}; // the model fails when it reads this token

  explicit Asked(Tokens tokens, int64_t maxTokens = 0) : prompt(std::move(tokens)) {
    request.struct_bytes = sizeof(request);
    request.max_tokens = maxTokens;
  }
  itx_status submit(itx_engine *engine, uint64_t &number) {
    request.prompt = prompt.data();
    request.prompt_count = prompt.size();
    request.stop_tokens = stops.data();
    request.stop_count = stops.size();
    request.bias_tokens = biased.data();
    request.bias_values = bias.data();
    request.bias_count = biased.size();
    return itx_engine_submit(engine, &request, &number);
  }
};

/// Takes events until so many samples have ended.
inline void collect(itx_engine *engine, size_t samples, Outcomes &outcomes) {
  for (size_t ended = 0; ended < samples;) {
    itx_engine_event events[8];
    size_t count = 0;
    ASSERT_EQ(itx_engine_poll(engine, 20, events, 8, &count), ITX_OK);
    ASSERT_NE(count, 0u) << "no event in 20 s";
    for (size_t i = 0; i < count; ++i) {
      const itx_engine_event &event = events[i];
      Outcome &outcome = outcomes[{event.request, event.sample}];
      ASSERT_EQ(outcome.finish, ITX_FINISH_NONE) << "an event after the last one";
      if (event.kind == ITX_EVENT_TOKEN) {
        outcome.tokens.push_back(event.token);
        outcome.logprobs.push_back(event.logprob);
        outcome.top.emplace_back(event.top, event.top + event.top_count);
        EXPECT_EQ(event.tokens, int64_t(outcome.tokens.size()));
      } else if (event.kind == ITX_EVENT_PROMPT_TOKEN) {
        outcome.prompt.push_back({event.token, event.logprob});
      } else {
        outcome.finish = event.finish;
        outcome.endToken = event.token;
        outcome.cached = event.cached_tokens;
        outcome.message = event.message ? event.message : "";
        ++ended;
      }
    }
  }
}

inline Outcome runAlone(itx_engine *engine, Asked asked) {
  uint64_t number = 0;
  EXPECT_EQ(asked.submit(engine, number), ITX_OK) << itx_last_error();
  Outcomes outcomes;
  collect(engine, 1, outcomes);
  return outcomes[{number, 0}];
}

inline itx_engine_stats stats(const EnginePointer &engine) {
  itx_engine_stats stats = {};
  stats.struct_bytes = sizeof(stats);
  EXPECT_EQ(itx_engine_get_stats(engine.get(), &stats), ITX_OK);
  return stats;
}

/// Returns the text that the sample model continues a prompt with, greedily and without the token that it fails with.
inline Tokens expectedText(const Tokens &prompt, size_t count) {
  Tokens text = prompt;
  while (text.size() < prompt.size() + count && text.size() <= size_t(context)) {
    int64_t best = 0;
    for (int64_t v = 0; v < vocabulary; ++v)
      if (v != failing && expectedLogit(text, v) > expectedLogit(text, best))
        best = v;
    text.push_back(best);
  }
  return Tokens(text.begin() + ptrdiff_t(prompt.size()), text.end());
}

class Engines : public CacheTest {
protected:
  EnginePointer makeEngine(int64_t sequences, int64_t pages, itx_engine_options options = {}, uint64_t spill = 0) {
    return makeEngine({sizeof(itx_cache_options), sequences, pages, 0, nullptr, spill, 0}, options);
  }
  EnginePointer makeEngine(const itx_cache_options &cache, itx_engine_options options = {}) {
    options.struct_bytes = sizeof(options);
    options.cache = &cache;
    options.function = function();
    itx_engine *engine = nullptr;
    EXPECT_EQ(itx_engine_create(module.get(), &options, &engine), ITX_OK) << itx_last_error();
    return EnginePointer(engine);
  }
  static itx_engine_options keeping(int64_t tokens) {
    itx_engine_options options = {};
    options.kept_tokens = tokens;
    return options;
  }
};

/// Returns short prompts, of which some begin like others.
inline std::vector<Tokens> somePrompts(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tokens> prompts;
  for (size_t i = 0; i < count; ++i) {
    Tokens prompt = i > 0 && random() % 2 ? prompts[random() % i] : Tokens();
    prompt.resize(std::min<size_t>(prompt.size(), random() % 12));
    for (size_t more = 1 + random() % 6; more > 0; --more)
      prompt.push_back(int64_t(random() % failing));
    prompts.push_back(prompt);
  }
  return prompts;
}

/// A mask that allows only even tokens, and ends texts after five.
inline int32_t evenTokens(void *user, itx_mask_row *rows, size_t count) {
  auto &calls = *static_cast<std::atomic<int> *>(user);
  ++calls;
  for (size_t i = 0; i < count; ++i) {
    for (int64_t token = 0; token < vocabulary; token += 2)
      rows[i].bits[token / 32] |= uint32_t(1) << (token % 32);
    rows[i].complete = rows[i].token_count == 5;
    for (size_t t = 0; t < rows[i].token_count; ++t)
      EXPECT_EQ(rows[i].tokens[t] % 2, 0);
  }
  return calls > 1000;
}

} // namespace intarsia::testing

#endif
