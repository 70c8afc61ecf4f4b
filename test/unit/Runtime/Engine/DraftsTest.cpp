//===- DraftsTest.cpp - Tokens that a smaller model proposes --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Engine/Engines.h"

using namespace intarsia;
using namespace intarsia::testing;

namespace {

/// With a draft: the same module's function "step", which is on the host.
class DraftingEngines : public Engines {};
INSTANTIATE_TEST_SUITE_P(Models, DraftingEngines, ::testing::Values("step", "tailed"), functionName);

} // namespace

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
