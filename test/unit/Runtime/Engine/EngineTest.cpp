//===- EngineTest.cpp - Many requests with one model -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Engine/Engines.h"

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Models, Engines, decoderFunctions, functionName);

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
    EnginePointer engine = makeEngine(cache);
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
