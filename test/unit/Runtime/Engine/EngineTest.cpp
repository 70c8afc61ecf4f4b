//===- EngineTest.cpp - Many requests with one model -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "intarsia/engine.h"
#include "test/unit/Runtime/Decoder.h"

#include <map>
#include <poll.h>
#include <random>
#include <thread>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

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
void collect(itx_engine *engine, size_t samples, Outcomes &outcomes) {
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

Outcome runAlone(itx_engine *engine, Asked asked) {
  uint64_t number = 0;
  EXPECT_EQ(asked.submit(engine, number), ITX_OK) << itx_last_error();
  Outcomes outcomes;
  collect(engine, 1, outcomes);
  return outcomes[{number, 0}];
}

itx_engine_stats stats(const EnginePointer &engine) {
  itx_engine_stats stats = {};
  stats.struct_bytes = sizeof(stats);
  EXPECT_EQ(itx_engine_get_stats(engine.get(), &stats), ITX_OK);
  return stats;
}

/// Returns the text that the sample model continues a prompt with, greedily and without the token that it fails with.
Tokens expectedText(const Tokens &prompt, size_t count) {
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
    itx_cache_options cache = {sizeof(cache), sequences, pages, 0, nullptr, spill, 0};
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
INSTANTIATE_TEST_SUITE_P(Models, Engines, decoderFunctions, functionName);

/// With a draft: the same module's function "step", which is on the host.
class DraftingEngines : public Engines {};
INSTANTIATE_TEST_SUITE_P(Models, DraftingEngines, ::testing::Values("step", "tailed"), functionName);

std::vector<Tokens> somePrompts(size_t count, uint32_t seed) {
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

} // namespace

TEST_P(Engines, TextsAreThoseOfTheModel) {
  EnginePointer engine = makeEngine(4, 24);
  Outcome outcome = runAlone(engine.get(), Asked({1, 2, 3}, 6));
  EXPECT_EQ(outcome.tokens, expectedText({1, 2, 3}, 6));
  EXPECT_EQ(outcome.finish, ITX_FINISH_LENGTH);
  // As many as the context has room for: the last token need not be read.
  EXPECT_EQ(runAlone(engine.get(), Asked({4, 5})).tokens, expectedText({4, 5}, 100));
  EXPECT_EQ(expectedText({4, 5}, 100).size(), size_t(context - 2 + 1));
}

TEST_P(Engines, TextsDoNotDependOnWhatElseRuns) {
  for (int64_t kept : {-1, 20, 0})
    for (int64_t pages : {6, 9, 40})
      for (uint64_t spill : {0, 1 << 20}) {
        SCOPED_TRACE(::testing::Message() << "kept " << kept << ", pages " << pages << ", spill " << spill);
        EnginePointer engine = makeEngine(5, pages, keeping(kept), spill);
        std::vector<Tokens> prompts = somePrompts(24, uint32_t(pages));
        std::map<uint64_t, std::pair<Tokens, int64_t>> asked;
        for (size_t i = 0; i < prompts.size(); ++i) {
          int64_t count = 1 + int64_t(i * 7 % 9);
          Asked request(prompts[i], count);
          request.request.priority = int32_t(i % 3);
          uint64_t number = 0;
          ASSERT_EQ(request.submit(engine.get(), number), ITX_OK) << itx_last_error();
          asked[number] = {prompts[i], count};
        }
        Outcomes outcomes;
        collect(engine.get(), asked.size(), outcomes);
        for (const auto &[number, text] : asked)
          EXPECT_EQ((outcomes[{number, 0}].tokens), expectedText(text.first, size_t(text.second)))
              << outcomes[{number, 0}].message;
        EXPECT_EQ(stats(engine).free_pages, pages);
        EXPECT_EQ(stats(engine).running, 0);
        EXPECT_EQ(stats(engine).waiting, 0);
        EXPECT_EQ(stats(engine).finished[ITX_FINISH_LENGTH], int64_t(asked.size()));
      }
}

TEST_P(Engines, SeededTextsAreTheSameInAnyCompany) {
  auto ask = [](const Tokens &prompt, int64_t seed) {
    Asked asked(prompt, 8);
    asked.request.temperature = 30;
    asked.request.top_p = 0.95;
    asked.request.has_seed = 1;
    asked.request.seed = seed;
    asked.request.presence_penalty = 5;
    return asked;
  };
  std::vector<Tokens> prompts = somePrompts(12, 3), alone;
  for (size_t i = 0; i < prompts.size(); ++i) {
    EnginePointer engine = makeEngine(1, 40, keeping(-1));
    alone.push_back(runAlone(engine.get(), ask(prompts[i], int64_t(i))).tokens);
  }
  EXPECT_NE(alone[0], expectedText(prompts[0], 8)) << "nothing was drawn";
  for (int64_t pages : {6, 40}) {
    EnginePointer engine = makeEngine(6, pages);
    for (size_t i = 0; i < prompts.size(); ++i) {
      uint64_t number = 0;
      ASSERT_EQ(ask(prompts[i], int64_t(i)).submit(engine.get(), number), ITX_OK);
    }
    Outcomes outcomes;
    collect(engine.get(), prompts.size(), outcomes);
    for (size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ((outcomes[{i + 1, 0}].tokens), alone[i]);
  }
}

TEST_P(Engines, TextsThatAreLongerThanExpectedLeaveTheCacheAndGoOn) {
  // Where state goes: nowhere; to memory; to memory that is full at once; to a folder without room, or that is removed.
  std::filesystem::path removed = folder / "removed";
  for (int where = 0; where < 5; ++where) {
    SCOPED_TRACE(where);
    std::filesystem::create_directories(removed);
    itx_cache_options cache = {sizeof(cache), 6, 12, 0, nullptr, 0, 0};
    cache.spill_memory_bytes = where == 1 ? 1 << 20 : where == 2 ? 1 : 0;
    cache.spill_file_bytes = where == 3 ? 1 : 0;
    cache.spill_folder = where >= 3 ? removed.c_str() : nullptr;
    itx_engine_options options = {};
    options.struct_bytes = sizeof(options);
    options.cache = &cache;
    options.function = function();
    itx_engine *made = nullptr;
    ASSERT_EQ(itx_engine_create(module.get(), &options, &made), ITX_OK) << itx_last_error();
    EnginePointer engine(made);
    // Texts of one token let the engine expect more of them.
    for (int64_t token = 0; token < 8; ++token)
      runAlone(engine.get(), Asked({token}, 1));
    if (where == 4)
      std::filesystem::remove_all(removed);
    std::vector<Tokens> prompts = {{1, 2}, {3, 4, 5}, {6, 7}, {8, 9, 10}, {11, 12}, {0, 0, 1}};
    for (const Tokens &prompt : prompts) {
      uint64_t number = 0;
      ASSERT_EQ(Asked(prompt, 17).submit(engine.get(), number), ITX_OK) << itx_last_error();
    }
    Outcomes outcomes;
    collect(engine.get(), prompts.size(), outcomes);
    for (size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ((outcomes[{9 + i, 0}].tokens), expectedText(prompts[i], 17)) << outcomes[{9 + i, 0}].message;
    EXPECT_GT(stats(engine).preemptions, 0);
    if (where == 1)
      EXPECT_GT(stats(engine).moved_sequences, 0);
    else
      EXPECT_GT(stats(engine).recomputed_sequences, 0);
    if (where == 2 || where == 3)
      EXPECT_GT(stats(engine).lost_sequences, 0);
    EXPECT_EQ(stats(engine).free_pages, 12);
  }
}

TEST_P(Engines, PromptsShareTheirBeginnings) {
  EnginePointer engine = makeEngine(4, 40);
  Tokens system = {1, 2, 3, 4, 5, 6, 7, 8};
  runAlone(engine.get(), Asked(system + Tokens{9, 9}, 2));
  Outcome second = runAlone(engine.get(), Asked(system + Tokens{10, 10}, 4));
  EXPECT_EQ(second.tokens, expectedText(system + Tokens{10, 10}, 4));
  EXPECT_EQ(second.cached, 8);
  // Samples of one prompt compute it once.
  Asked several({11, 11, 11, 11, 11, 11, 11, 11, 12}, 3);
  several.request.samples = 3;
  uint64_t number = 0;
  ASSERT_EQ(several.submit(engine.get(), number), ITX_OK);
  Outcomes outcomes;
  collect(engine.get(), 3, outcomes);
  int64_t cached = 0;
  for (int32_t sample = 0; sample < 3; ++sample) {
    EXPECT_EQ((outcomes[{number, sample}].tokens), expectedText(several.prompt, 3));
    cached += outcomes[{number, sample}].cached;
  }
  EXPECT_EQ(cached, 2 * 8);
  // Salts share nothing.
  Asked salted(system + Tokens{10, 10}, 4);
  salted.request.salt = "other";
  EXPECT_EQ(runAlone(engine.get(), salted).cached, 0);
  EXPECT_EQ(runAlone(engine.get(), salted).cached, hasTail() ? 8 : 9);
}

TEST_P(Engines, PenaltiesCountTheTokensOfATextAlone) {
  for (int64_t pages : {6, 40}) {
    EnginePointer engine = makeEngine(3, pages);
    std::vector<Tokens> prompts = somePrompts(9, 8), expected;
    for (const Tokens &prompt : prompts) {
      Asked asked(prompt, 12);
      asked.biased = {failing, 2};
      asked.bias = {-INFINITY, 11};
      asked.request.repetition_penalty = 1.25;
      asked.request.presence_penalty = 7;
      asked.request.frequency_penalty = 9;
      uint64_t number = 0;
      ASSERT_EQ(asked.submit(engine.get(), number), ITX_OK) << itx_last_error();
      Tokens text = prompt;
      for (int i = 0; i < 12 && text.size() <= size_t(context); ++i) {
        std::vector<double> scores;
        for (int64_t v = 0; v < vocabulary; ++v) {
          double score = v == failing ? -INFINITY : double(expectedLogit(text, v)) + (v == 2 ? 11 : 0);
          auto generated = std::count(text.begin() + ptrdiff_t(prompt.size()), text.end(), v);
          if (std::count(text.begin(), text.end(), v) != 0)
            score = score > 0 ? score / 1.25 : score * 1.25;
          scores.push_back(score - (generated > 0 ? 7 + 9 * double(generated) : 0));
        }
        text.push_back(std::max_element(scores.begin(), scores.end()) - scores.begin());
      }
      expected.emplace_back(text.begin() + ptrdiff_t(prompt.size()), text.end());
    }
    Outcomes outcomes;
    collect(engine.get(), prompts.size(), outcomes);
    for (size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ((outcomes[{i + 1, 0}].tokens), expected[i]) << outcomes[{i + 1, 0}].message;
  }
}

TEST_P(Engines, StopTokensEndTexts) {
  EnginePointer engine = makeEngine(2, 20);
  Tokens text = expectedText({3, 1}, 10);
  Asked asked({3, 1}, 10);
  asked.stops = {text[4]};
  size_t first = size_t(std::find(text.begin(), text.end(), text[4]) - text.begin());
  Outcome outcome = runAlone(engine.get(), asked);
  EXPECT_EQ(outcome.tokens, Tokens(text.begin(), text.begin() + ptrdiff_t(first)));
  EXPECT_EQ(outcome.finish, ITX_FINISH_END);
  EXPECT_EQ(outcome.endToken, text[4]);
  asked.request.min_tokens = 7;
  outcome = runAlone(engine.get(), asked);
  EXPECT_GE(outcome.tokens.size(), 7u);
  EXPECT_EQ(std::count(outcome.tokens.begin(), outcome.tokens.begin() + 7, text[4]), 0);
}

TEST_P(Engines, LogarithmsOfProbabilities) {
  EnginePointer engine = makeEngine(2, 20);
  Asked asked({3, 1, 4, 1, 5}, 3);
  asked.request.logprobs = 1 + 3;
  asked.request.prompt_logprobs = 1;
  Outcome outcome = runAlone(engine.get(), asked);
  auto logprob = [](const Tokens &tokens, int64_t token) {
    double sum = 0;
    for (int64_t v = 0; v < vocabulary; ++v)
      sum += std::exp(double(expectedLogit(tokens, v)) - double(expectedLogit(tokens, token)));
    return -std::log(sum);
  };
  Tokens text = asked.prompt;
  for (size_t i = 0; i < outcome.tokens.size(); ++i) {
    EXPECT_NEAR(outcome.logprobs[i], logprob(text, outcome.tokens[i]), 1e-5);
    ASSERT_EQ(outcome.top[i].size(), 3u);
    for (const itx_logprob &top : outcome.top[i])
      EXPECT_NEAR(top.value, logprob(text, top.token), 1e-5 * std::abs(top.value) + 1e-5);
    EXPECT_GE(outcome.top[i][0].value, outcome.top[i][1].value);
    text.push_back(outcome.tokens[i]);
  }
  ASSERT_EQ(outcome.prompt.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(outcome.prompt[i].first, asked.prompt[i + 1]);
    Tokens before(asked.prompt.begin(), asked.prompt.begin() + ptrdiff_t(i + 1));
    EXPECT_NEAR(outcome.prompt[i].second, logprob(before, asked.prompt[i + 1]),
                1e-5 * std::abs(outcome.prompt[i].second) + 1e-5);
  }
  asked.request.max_tokens = -1;
  outcome = runAlone(engine.get(), asked);
  EXPECT_EQ(outcome.prompt.size(), 4u);
  EXPECT_TRUE(outcome.tokens.empty());
  EXPECT_EQ(outcome.finish, ITX_FINISH_LENGTH);
}

namespace {
/// Lets texts of even tokens alone come, and ends them after five.
int32_t evenTokens(void *user, itx_mask_row *rows, size_t count) {
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
} // namespace

TEST_P(Engines, MasksSayWhichTokensMayCome) {
  std::atomic<int> calls = 0;
  itx_engine_options options = {};
  options.mask = evenTokens;
  options.mask_user = &calls;
  EnginePointer engine = makeEngine(2, 20, options);
  Asked asked({3, 1, 4}, 9);
  asked.request.has_mask = 1;
  Outcome outcome = runAlone(engine.get(), asked);
  EXPECT_EQ(outcome.finish, ITX_FINISH_END);
  EXPECT_EQ(outcome.tokens.size(), 5u);
  asked.request.max_tokens = 5;
  EXPECT_EQ(runAlone(engine.get(), asked).finish, ITX_FINISH_END) << "complete with its last token";
  asked.request.max_tokens = 3;
  EXPECT_EQ(runAlone(engine.get(), asked).finish, ITX_FINISH_LENGTH);
  // A draft checks its proposals too.
  calls = 2000;
  outcome = runAlone(engine.get(), asked);
  EXPECT_EQ(outcome.finish, ITX_FINISH_FAILED);
  EXPECT_THAT(outcome.message, HasSubstr("may come next"));
}

namespace {
/// Has no masks for texts that begin with an odd token.
int32_t masksOfSome(void *, itx_mask_row *rows, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    for (int64_t token = 0; token < vocabulary; ++token)
      rows[i].bits[token / 32] |= uint32_t(1) << (token % 32);
    rows[i].complete = rows[i].token_count > 0 && rows[i].tokens[0] % 2 == 1 ? -1 : 0;
  }
  return 0;
}
} // namespace

TEST_P(Engines, AMaskThatCannotBeFoundEndsItsTextAlone) {
  itx_engine_options options = {};
  options.mask = masksOfSome;
  EnginePointer engine = makeEngine(8, 60, options);
  Outcomes outcomes;
  std::vector<Tokens> prompts = somePrompts(12, 6);
  for (const Tokens &prompt : prompts) {
    Asked asked(prompt, 4);
    asked.request.has_mask = 1;
    uint64_t number = 0;
    ASSERT_EQ(asked.submit(engine.get(), number), ITX_OK);
  }
  collect(engine.get(), prompts.size(), outcomes);
  size_t failed = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Tokens text = expectedText(prompts[i], 4);
    const Outcome &outcome = outcomes[{i + 1, 0}];
    bool fails = text[0] % 2 == 1;
    failed += fails;
    EXPECT_EQ(outcome.finish, fails ? ITX_FINISH_FAILED : ITX_FINISH_LENGTH);
    EXPECT_EQ(outcome.tokens, fails ? Tokens{text[0]} : text);
  }
  EXPECT_GT(failed, 0u);
  EXPECT_LT(failed, prompts.size());
}

TEST_P(DraftingEngines, DraftsChangeNothing) {
  itx_engine_options options = {};
  options.draft = module.get(); // "step": the same model for the function "step"
  std::atomic<int> calls = 0;
  options.mask = evenTokens;
  options.mask_user = &calls;
  EnginePointer engine = makeEngine(4, 30, options);
  for (bool masked : {false, true}) {
    uint64_t number = 0;
    std::vector<Tokens> prompts = somePrompts(6, 5);
    Outcomes drafted, plain;
    for (int64_t draft : {0, 3})
      for (const Tokens &prompt : prompts) {
        Asked asked(prompt, 9);
        asked.request.draft_tokens = int32_t(draft);
        asked.request.has_mask = masked;
        ASSERT_EQ(asked.submit(engine.get(), number), ITX_OK) << itx_last_error();
      }
    collect(engine.get(), 2 * prompts.size(), plain);
    for (size_t i = 0; i < prompts.size(); ++i) {
      const Outcome &with = plain[{number - prompts.size() + 1 + i, 0}];
      const Outcome &without = plain[{number - 2 * prompts.size() + 1 + i, 0}];
      EXPECT_EQ(with.tokens, without.tokens) << with.message;
      EXPECT_EQ(with.finish, without.finish);
      if (!masked)
        EXPECT_EQ(without.tokens, expectedText(prompts[i], 9));
    }
  }
  EXPECT_GT(stats(engine).draft_tokens, 0);
  EXPECT_GT(stats(engine).accepted_tokens, 0);
}

TEST_P(Engines, CancelledRequestsEnd) {
  EnginePointer engine = makeEngine(1, 6);
  std::vector<uint64_t> numbers(6);
  for (uint64_t &number : numbers)
    ASSERT_EQ(Asked({1, 2, 3}).submit(engine.get(), number), ITX_OK);
  for (uint64_t number : numbers)
    itx_engine_cancel(engine.get(), number);
  itx_engine_cancel(engine.get(), 77);
  Outcomes outcomes;
  collect(engine.get(), numbers.size(), outcomes);
  EXPECT_EQ(outcomes[(std::pair{numbers[5], 0})].finish, ITX_FINISH_CANCELLED);
  EXPECT_EQ(stats(engine).free_pages, 6);
  EXPECT_EQ(runAlone(engine.get(), Asked({1, 2, 3}, 4)).tokens, expectedText({1, 2, 3}, 4));
}

namespace {
struct FreeQueue {
  void operator()(itx_event_queue *queue) const { itx_event_queue_free(queue); }
};
using QueuePointer = std::unique_ptr<itx_event_queue, FreeQueue>;

QueuePointer makeQueue(const EnginePointer &engine) {
  itx_event_queue *queue = nullptr;
  EXPECT_EQ(itx_event_queue_create(engine.get(), &queue), ITX_OK);
  return QueuePointer(queue);
}

/// Takes the tokens of a queue's only request.
Tokens tokensOf(itx_event_queue *queue) {
  Tokens tokens;
  while (true) {
    itx_engine_event event;
    size_t count = 0;
    EXPECT_EQ(itx_event_queue_poll(queue, 20, &event, 1, &count), ITX_OK);
    if (count == 0)
      ADD_FAILURE() << "no event in 20 s";
    if (count == 0 || event.kind == ITX_EVENT_FINISHED)
      return tokens;
    tokens.push_back(event.token);
  }
}
} // namespace

TEST_P(Engines, QueuesTakeTheEventsOfTheirRequests) {
  EnginePointer engine = makeEngine(2, 20);
  std::vector<Tokens> prompts = somePrompts(6, 9), texts(6);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < prompts.size(); ++i)
    threads.emplace_back([&, i] {
      QueuePointer queue = makeQueue(engine);
      Asked asked(prompts[i], 7);
      asked.request.queue = queue.get();
      uint64_t number = 0;
      ASSERT_EQ(asked.submit(engine.get(), number), ITX_OK);
      pollfd readable = {itx_event_queue_descriptor(queue.get()), POLLIN, 0};
      EXPECT_EQ(poll(&readable, 1, 20000), 1);
      texts[i] = tokensOf(queue.get());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(texts[i], expectedText(prompts[i], 7));
  itx_engine_event event;
  size_t count = 0;
  ASSERT_EQ(itx_engine_poll(engine.get(), 0, &event, 1, &count), ITX_OK);
  EXPECT_EQ(count, 0u) << "an event of a queue came to the engine's own";
}

TEST_P(Engines, RequestsEndWithTheirQueue) {
  EnginePointer engine = makeEngine(1, 20), other = makeEngine(1, 20);
  QueuePointer queue = makeQueue(engine);
  Asked asked({1, 2, 3});
  asked.request.queue = queue.get();
  uint64_t number = 0;
  for (int i = 0; i < 300; ++i)
    ASSERT_EQ(asked.submit(engine.get(), number), ITX_OK);
  EXPECT_EQ(asked.submit(other.get(), number), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("another engine"));
  queue.reset();
  EXPECT_EQ(runAlone(engine.get(), Asked({1, 2, 3}, 4)).tokens, expectedText({1, 2, 3}, 4));
  EXPECT_GT(stats(engine).finished[ITX_FINISH_CANCELLED], 0);
  EXPECT_EQ(stats(engine).running, 0);
  EXPECT_EQ(stats(engine).waiting, 0);
  EXPECT_EQ(stats(engine).free_pages, 20);
  // The engine may be freed before the queue.
  queue = makeQueue(engine);
  asked.request.queue = queue.get();
  ASSERT_EQ(asked.submit(engine.get(), number), ITX_OK);
  engine.reset();
  tokensOf(queue.get());
}

TEST_P(DraftingEngines, DraftsAreSetBetweenRequestsThatUseThem) {
  EnginePointer engine = makeEngine(2, 20);
  Asked drafted({5, 6, 7}, 12);
  drafted.request.draft_tokens = 3;
  uint64_t number = 0;
  EXPECT_EQ(drafted.submit(engine.get(), number), ITX_INVALID_ARGUMENT);
  ASSERT_EQ(Asked({1, 2, 3}).submit(engine.get(), number), ITX_OK);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(itx_engine_set_draft(engine.get(), module.get()), ITX_OK) << itx_last_error();
    ASSERT_EQ(drafted.submit(engine.get(), number), ITX_OK) << itx_last_error();
  }
  ASSERT_EQ(itx_engine_set_draft(engine.get(), nullptr), ITX_OK);
  Outcomes outcomes;
  collect(engine.get(), 21, outcomes);
  for (uint64_t request = number - 19; request <= number; ++request)
    EXPECT_EQ((outcomes[{request, 0}].tokens), expectedText({5, 6, 7}, 12));
  EXPECT_EQ(drafted.submit(engine.get(), number), ITX_INVALID_ARGUMENT);
}

TEST_P(Engines, AStepThatFailsEndsItsRequestsAlone) {
  EnginePointer engine = makeEngine(2, 20);
  Outcome outcome = runAlone(engine.get(), Asked({1, failing, 3}, 4));
  EXPECT_EQ(outcome.finish, ITX_FINISH_FAILED);
  EXPECT_FALSE(outcome.message.empty());
  EXPECT_EQ(runAlone(engine.get(), Asked({1, 2, 3}, 4)).tokens, expectedText({1, 2, 3}, 4));
  EXPECT_EQ(stats(engine).free_pages, 20);
}

TEST_P(Engines, SequencesOfTheUser) {
  EnginePointer engine = makeEngine(4, 20);
  itx_cache *given = nullptr;
  ASSERT_EQ(itx_engine_cache(engine.get(), &given), ITX_OK);
  CachePointer cache(given);
  SequencePointer made = sequence(cache);
  Tokens text;
  extend(cache, made, {1, 2, 3, 4, 5, 6}, text);
  ASSERT_EQ(itx_engine_keep(engine.get(), made.release(), nullptr), ITX_OK) << itx_last_error();
  EXPECT_EQ(runAlone(engine.get(), Asked({1, 2, 3, 4, 5, 6, 7}, 3)).cached, 6);
  EXPECT_EQ(runAlone(engine.get(), Asked({1, 2, 3, 4, 5, 6, 7}, 3)).tokens, expectedText({1, 2, 3, 4, 5, 6, 7}, 3));
  // Pages that a user has are nobody else's: the request ends with a reason.
  SequencePointer large = sequence(cache);
  Tokens all;
  extend(cache, large, Tokens(16, 1), all);
  std::vector<SequencePointer> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(sequence(cache));
    all.clear();
    extend(cache, others.back(), Tokens(16, int64_t(i + 2)), all);
  }
  Outcome outcome = runAlone(engine.get(), Asked(Tokens(15, 5), 6));
  EXPECT_EQ(outcome.finish, ITX_FINISH_FAILED);
  EXPECT_THAT(outcome.message, HasSubstr("not the engine's"));
}

TEST_P(Engines, WhatIsRefused) {
  itx_engine_options options = {};
  options.waiting = 2;
  EnginePointer engine = makeEngine(1, 3, options);
  uint64_t number = 0;
  auto refused = [&](Asked asked, itx_status status, const char *why) {
    EXPECT_EQ(asked.submit(engine.get(), number), status);
    EXPECT_THAT(itx_last_error(), HasSubstr(why));
  };
  refused(Asked({}), ITX_INVALID_ARGUMENT, "empty");
  refused(Asked(Tokens(23, 1)), ITX_INVALID_ARGUMENT, "a prompt has 23 tokens, the model's context is 22");
  refused(Asked({1, 99}), ITX_INVALID_ARGUMENT, "token 1 of a prompt is 99");
  refused(Asked({1, 2}, 20), ITX_CACHE_FULL, "need 6 pages, the cache has 3");
  refused(Asked(Tokens(13, 1)), ITX_CACHE_FULL, "needs 4 pages");
  refused(Asked({1, 2}, INT64_MAX), ITX_CACHE_FULL, "need 6 pages, the cache has 3");
  Asked asked({1, 2}, 3);
  asked.request.temperature = INFINITY;
  refused(asked, ITX_INVALID_ARGUMENT, "temperature is inf");
  asked.request.temperature = 0;
  asked.request.top_p = 1.5;
  refused(asked, ITX_INVALID_ARGUMENT, "top_p is 1.5");
  asked.request.top_p = 0;
  asked.request.samples = 200;
  refused(asked, ITX_INVALID_ARGUMENT, "200 samples");
  asked.request.samples = 4;
  refused(asked, ITX_BUSY, "the engine lets 2");
  asked.request.samples = 1;
  asked.request.draft_tokens = 1;
  refused(asked, ITX_INVALID_ARGUMENT, "no draft model");
  asked.request.draft_tokens = 0;
  asked.request.has_mask = 1;
  refused(asked, ITX_INVALID_ARGUMENT, "no function that makes them");
  asked.request.has_mask = 0;
  asked.stops = {16};
  refused(asked, ITX_INVALID_ARGUMENT, "stop token 16");
  asked.stops = {};
  asked.biased = {failing + 9};
  refused(asked, ITX_INVALID_ARGUMENT, "logit_bias");
  EXPECT_EQ(runAlone(engine.get(), Asked({1, 2, 3}, 4)).tokens, expectedText({1, 2, 3}, 4));
}
