//===- CachesTest.cpp - Caches of language models and their sequences ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Decoder.h"

#include <random>
#include <thread>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {
class Caches : public CacheTest {};
INSTANTIATE_TEST_SUITE_P(Models, Caches, decoderFunctions, functionName);
} // namespace

TEST_P(Caches, RaggedMixturesInAnyOrder) {
  CachePointer cache = make(3, 18);
  std::vector<SequencePointer> sequences;
  std::vector<Tokens> texts(3);
  for (int i = 0; i < 3; ++i)
    sequences.push_back(sequence(cache));
  std::mt19937 random(7);
  std::vector<std::vector<std::pair<int, int64_t>>> mixtures = {
      {{1, 5}}, {{0, 1}, {1, 1}}, {{2, 9}, {0, 2}}, {{0, 1}, {1, 1}, {2, 1}}, {{2, 3}, {1, 8}, {0, 4}}, {{1, 7}}};
  for (const auto &mixture : mixtures) {
    std::vector<Tokens> added;
    std::vector<itx_chunk> chunks;
    int64_t rows = 0;
    for (auto [number, count] : mixture) {
      added.emplace_back(count);
      for (int64_t &token : added.back())
        token = random() % failing;
    }
    for (size_t i = 0; i < mixture.size(); ++i) {
      int64_t outputs = int64_t(random() % (mixture[i].second + 1));
      chunks.push_back({sequences[mixture[i].first].get(), added[i].data(), mixture[i].second, outputs});
      rows += outputs;
    }
    itx_tensor *made = nullptr;
    ASSERT_EQ(itx_cache_step(cache.get(), chunks.data(), chunks.size(), &made), ITX_OK) << itx_last_error();
    TensorPointer logits(made);
    ASSERT_EQ(logits ? itx_tensor_shape(made)[0] : 0, rows);
    const float *row = logits ? static_cast<float *>(itx_tensor_data(made)) : nullptr;
    for (size_t i = 0; i < mixture.size(); ++i) {
      Tokens &text = texts[mixture[i].first];
      for (int64_t t = 0; t < mixture[i].second; ++t) {
        text.push_back(added[i][t]);
        if (t < mixture[i].second - chunks[i].output_count)
          continue;
        for (int64_t v = 0; v < vocabulary; ++v)
          ASSERT_EQ(row[v], expectedLogit(text, v));
        row += vocabulary;
      }
    }
  }
  EXPECT_EQ(texts[1].size(), size_t(context));
}

TEST_P(Caches, ForksShareTheirPrefixAndDiverge) {
  CachePointer cache = make(4, 12);
  SequencePointer first = sequence(cache);
  Tokens prefix, text;
  extend(cache, first, {1, 2, 3, 4, 5, 6}, prefix);
  SequencePointer second = fork(first), third = fork(first);
  EXPECT_EQ(info(cache).free_pages, 10) << "nothing is copied yet";
  text = prefix;
  extend(cache, second, {7}, text);
  EXPECT_EQ(info(cache).free_pages, 9) << "the page that is not full";
  Tokens other = prefix;
  extend(cache, first, {9, 10, 11, 12}, other);
  extend(cache, second, {0, 1, 2, 3, 4}, text);
  text = prefix;
  extend(cache, third, {12, 12}, text);
  // Two full pages in addition to the shared first one, and one of each; `third` took over the original.
  EXPECT_EQ(info(cache).free_pages, 12 - 1 - 2 - 2 - 1);
  first.reset();
  second.reset();
  extend(cache, third, {1, 1, 1}, text);
  third.reset();
  EXPECT_EQ(info(cache).free_pages, 12);
  EXPECT_EQ(info(cache).free_sequences, 4);
}

TEST_P(Caches, ForksOfOnePromptStepTogether) {
  // One page in addition to the prompt's: the last fork continues in the page that all shared.
  CachePointer cache = make(2, 3);
  SequencePointer first = sequence(cache);
  Tokens prefix;
  extend(cache, first, {1, 2, 3, 4, 5, 6}, prefix);
  SequencePointer second = fork(first);
  Tokens tokens = {7, 8};
  itx_chunk chunks[] = {{first.get(), &tokens[0], 1, 1}, {second.get(), &tokens[1], 1, 1}};
  itx_tensor *made = nullptr;
  ASSERT_EQ(itx_cache_step(cache.get(), chunks, 2, &made), ITX_OK) << itx_last_error();
  TensorPointer logits(made);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t v = 0; v < vocabulary; ++v)
      EXPECT_EQ(static_cast<float *>(itx_tensor_data(made))[i * vocabulary + v],
                expectedLogit(prefix + Tokens{tokens[i]}, v));
  EXPECT_EQ(info(cache).free_pages, 0);
}

TEST_P(Caches, LogitsAreTakenAfterTheStep) {
  CachePointer cache = make(2, 12);
  EXPECT_EQ(info(cache).stages, 1);
  SequencePointer first = sequence(cache), second = sequence(cache);
  Tokens tokens = {1, 2, 3, 4, 5};
  itx_chunk chunks[] = {{first.get(), &tokens[0], 2, 1},
                        {second.get(), &tokens[2], 1, 1},
                        {first.get(), &tokens[3], 1, 0},
                        {second.get(), &tokens[4], 1, 1}};
  itx_step *steps[4] = {};
  for (size_t i = 0; i < 4; ++i)
    ASSERT_EQ(itx_cache_step_start(cache.get(), &chunks[i], 1, &steps[i]), ITX_OK) << itx_last_error();
  itx_step_free(steps[3]);
  EXPECT_EQ(itx_sequence_length(second.get()), 2);
  const Tokens texts[] = {{1, 2}, {3}};
  for (size_t i : {1, 0}) {
    itx_tensor *made = nullptr;
    ASSERT_EQ(itx_step_wait(steps[i], &made), ITX_OK) << itx_last_error();
    TensorPointer logits(made);
    for (int64_t v = 0; v < vocabulary; ++v)
      EXPECT_EQ(static_cast<float *>(itx_tensor_data(made))[v], expectedLogit(texts[i], v));
  }
  itx_tensor *none = nullptr;
  EXPECT_EQ(itx_step_wait(steps[2], &none), ITX_OK);
  EXPECT_EQ(none, nullptr);
  itx_step *failed = nullptr;
  Tokens unknown = {vocabulary};
  itx_chunk bad = {first.get(), unknown.data(), 1, 1};
  EXPECT_EQ(itx_cache_step_start(cache.get(), &bad, 1, &failed), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(failed, nullptr);
  itx_step_free(nullptr);
}

TEST_P(Caches, AFailedStepChangesNothing) {
  CachePointer cache = make(3, 12);
  SequencePointer first = sequence(cache);
  Tokens text, longer;
  extend(cache, first, {1, 2, 3, 4, 5}, text);
  longer = text;
  SequencePointer second = fork(first);
  extend(cache, second, {6, 7}, longer);
  SequencePointer third = fork(second);
  int64_t kept = 0;
  ASSERT_EQ(itx_sequence_truncate(third.get(), 6, &kept), ITX_OK) << itx_last_error();
  ASSERT_EQ(kept, 6);
  int64_t before = info(cache).free_pages;
  // All write within and beyond pages that they share; the last one, behind less of it than the others use.
  Tokens bad = {9, 9, 9, 9, 9, 9, failing};
  itx_chunk chunks[] = {
      {first.get(), bad.data(), 7, 0}, {second.get(), bad.data(), 6, 0}, {third.get(), bad.data(), 6, 0}};
  EXPECT_EQ(itx_cache_step(cache.get(), chunks, 3, nullptr), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("'failing' needs it"));
  EXPECT_EQ(info(cache).free_pages, before);
  EXPECT_EQ(itx_sequence_length(first.get()), 5);
  Tokens cut(longer.begin(), longer.begin() + 6);
  extend(cache, third, {10, 10, 10}, cut);
  extend(cache, second, {11, 11, 11}, longer);
  extend(cache, first, {12, 12, 12, 12}, text);
}

TEST_P(Caches, ExhaustedCachesRefuse) {
  CachePointer cache = make(2, 3);
  SequencePointer first = sequence(cache), second = sequence(cache);
  Tokens text, other;
  extend(cache, first, {1, 2, 3, 4, 5}, text);
  extend(cache, second, {4, 4}, other);
  EXPECT_EQ(append(cache, first, {1, 2, 3, 4}), ITX_CACHE_FULL);
  EXPECT_THAT(itx_last_error(), AllOf(HasSubstr("1 more pages (of 4 tokens) are needed, 0 of 3 are free"),
                                      HasSubstr("make a larger cache")));
  EXPECT_STREQ(itx_status_name(ITX_CACHE_FULL), "cache full");
  itx_sequence *third = nullptr;
  EXPECT_EQ(itx_sequence_create(cache.get(), &third), ITX_CACHE_FULL);
  EXPECT_THAT(itx_last_error(), HasSubstr("the cache is for 2 sequences, and all are in use"));
  EXPECT_EQ(itx_sequence_fork(first.get(), &third), ITX_CACHE_FULL);
  // Others go on.
  extend(cache, second, {5, 5}, other);
  extend(cache, first, {6, 7, 8}, text);
  EXPECT_EQ(append(cache, first, {1}), ITX_CACHE_FULL);
  second.reset();
  extend(cache, first, {9}, text);
}

TEST_P(Caches, Eviction) {
  CachePointer cache = make(4, 6);
  SequencePointer oldest = sequence(cache), shared = sequence(cache), kept = sequence(cache);
  Tokens a, b, c;
  extend(cache, oldest, {1, 2, 3, 4, 5}, a);
  extend(cache, shared, {3, 3}, b);
  extend(cache, kept, {1, 1, 1, 1, 1}, c);
  EXPECT_EQ(append(cache, kept, Tokens(8, 1)), ITX_CACHE_FULL);
  itx_sequence_set_evictable(oldest.get(), 1);
  itx_sequence_set_evictable(shared.get(), 1);
  EXPECT_EQ(append(cache, kept, Tokens(17, 1)), ITX_OK) << itx_last_error();
  EXPECT_TRUE(itx_sequence_is_evicted(oldest.get()));
  EXPECT_TRUE(itx_sequence_is_evicted(shared.get()));
  EXPECT_EQ(append(cache, shared, {1}), ITX_EVICTED);
  EXPECT_THAT(itx_last_error(), HasSubstr("chunk 0 was evicted: truncate it to 0, and give its 2 tokens again"));
  EXPECT_EQ(itx_sequence_length(shared.get()), 0);
  EXPECT_EQ(itx_sequence_save(shared.get(), (folder / "s").c_str()), ITX_EVICTED);
  EXPECT_EQ(itx_sequence_truncate(shared.get(), 1, nullptr), ITX_EVICTED);
  Tokens again(8, -1);
  size_t count = 0;
  ASSERT_EQ(itx_sequence_tokens(shared.get(), again.data(), again.size(), &count), ITX_OK);
  again.resize(count);
  EXPECT_EQ(again, b);
  ASSERT_EQ(itx_sequence_truncate(shared.get(), 0, nullptr), ITX_OK);
  EXPECT_EQ(append(cache, shared, {3, 3}), ITX_CACHE_FULL) << "its pages are taken, and nothing may be evicted";
  ASSERT_EQ(itx_sequence_evict(kept.get()), ITX_OK);
  b.clear();
  extend(cache, shared, again, b);
  EXPECT_FALSE(itx_sequence_is_evicted(shared.get()));
}

TEST_P(Caches, TheLongestUnusedGoesFirst) {
  CachePointer cache = make(4, 4);
  SequencePointer first = sequence(cache), second = sequence(cache), third = sequence(cache);
  Tokens a, b, c;
  extend(cache, first, {1}, a);
  extend(cache, second, {2}, b);
  extend(cache, first, {3}, a);
  SequencePointer child = fork(second); // keeps the page of `second`
  for (const SequencePointer *sequence : {&first, &second})
    itx_sequence_set_evictable(sequence->get(), 1);
  // first's page would not be enough, and second's is shared: nothing is evicted.
  EXPECT_EQ(append(cache, third, Tokens(13, 1)), ITX_CACHE_FULL);
  EXPECT_FALSE(itx_sequence_is_evicted(first.get()) || itx_sequence_is_evicted(second.get()));
  extend(cache, third, Tokens(9, 1), c);
  EXPECT_FALSE(itx_sequence_is_evicted(second.get())) << "its page is its child's too, and frees nothing";
  EXPECT_TRUE(itx_sequence_is_evicted(first.get()));
  ASSERT_EQ(itx_sequence_evict(second.get()), ITX_OK);
  extend(cache, child, {4}, b);
}

TEST_P(Caches, Truncation) {
  CachePointer cache = make(2, 8);
  SequencePointer first = sequence(cache);
  Tokens text;
  extend(cache, first, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, text);
  SequencePointer second = fork(first);
  int64_t kept = -1;
  ASSERT_EQ(itx_sequence_truncate(first.get(), 9, nullptr), ITX_OK) << itx_last_error();
  Tokens cut(text.begin(), text.begin() + 9);
  extend(cache, first, {0, 0}, cut);
  // Into a page that is full, and another's too.
  if (hasTail()) {
    EXPECT_EQ(itx_sequence_truncate(first.get(), 6, nullptr), ITX_INVALID_ARGUMENT);
    EXPECT_THAT(itx_last_error(), HasSubstr("of the sequence's 11 tokens 4 can be kept, not 6"));
  }
  ASSERT_EQ(itx_sequence_truncate(first.get(), 6, &kept), ITX_OK) << itx_last_error();
  ASSERT_EQ(kept, hasTail() ? 4 : 6);
  EXPECT_EQ(itx_sequence_length(first.get()), kept);
  cut.resize(kept);
  extend(cache, first, {11, 11, 11, 11}, cut);
  extend(cache, second, {12}, text);
  ASSERT_EQ(itx_sequence_truncate(first.get(), 4, nullptr), ITX_OK) << "the end of a page";
  cut.resize(4);
  extend(cache, first, {2}, cut);
  EXPECT_EQ(itx_sequence_truncate(first.get(), 6, &kept), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("the sequence has 5 tokens, it cannot be cut to 6"));
}

TEST_P(Caches, TruncationAtTheEndOfAPage) {
  CachePointer cache = make(2, 8);
  SequencePointer first = sequence(cache);
  Tokens text;
  extend(cache, first, {1, 2, 3, 4, 5, 6, 7, 8}, text);
  SequencePointer second = fork(first);
  // A failing step has overwritten the state of the last page.
  EXPECT_EQ(append(cache, first, {9, failing}), ITX_INVALID_ARGUMENT);
  for (const SequencePointer *sequence : {&first, &second}) {
    ASSERT_EQ(itx_sequence_truncate(sequence->get(), 6, nullptr), ITX_OK) << itx_last_error();
    Tokens cut(text.begin(), text.begin() + 6);
    extend(cache, *sequence, {12, 11}, cut);
  }
  // So has a successful step, whether or not its tokens are kept.
  ASSERT_EQ(append(cache, first, {9}), ITX_OK);
  ASSERT_EQ(itx_sequence_truncate(first.get(), 8, nullptr), ITX_OK) << itx_last_error();
  int64_t kept = 0;
  ASSERT_EQ(itx_sequence_truncate(first.get(), 6, &kept), ITX_OK);
  ASSERT_EQ(kept, hasTail() ? 4 : 6);
  text.resize(kept);
  extend(cache, first, {10, 10, 10}, text);
}

TEST_P(Caches, WrongSteps) {
  CachePointer cache = make(2, 8), other = make(1, 1);
  SequencePointer first = sequence(cache), foreign = sequence(other);
  Tokens text;
  extend(cache, first, {1, 2, 3}, text);
  auto refused = [&](std::vector<itx_chunk> chunks) {
    EXPECT_EQ(itx_cache_step(cache.get(), chunks.data(), chunks.size(), nullptr), ITX_INVALID_ARGUMENT);
    return std::string(itx_last_error());
  };
  Tokens good = {1}, high = {1, 16}, low = {-1}, many(20, 1);
  EXPECT_THAT(refused({}), HasSubstr("a forward step has no chunks"));
  EXPECT_THAT(refused({{nullptr, good.data(), 1, 0}}), HasSubstr("the sequence of chunk 0"));
  EXPECT_THAT(refused({{first.get(), nullptr, 1, 0}}), HasSubstr("the tokens of chunk 0 are null"));
  EXPECT_THAT(refused({{first.get(), good.data(), 0, 0}}), HasSubstr("chunk 0 of a forward step has no tokens"));
  EXPECT_THAT(refused({{first.get(), good.data(), 1, 1}}), HasSubstr("'logits' is null"));
  EXPECT_THAT(refused({{foreign.get(), good.data(), 1, 0}}), HasSubstr("chunk 0 is of another cache"));
  EXPECT_THAT(refused({{first.get(), good.data(), 1, 0}, {first.get(), good.data(), 1, 0}}),
              HasSubstr("chunks 0 and 1 of a forward step are of the same sequence"));
  EXPECT_THAT(refused({{first.get(), high.data(), 2, 0}}),
              HasSubstr("'input_ids' is 16 at [1] of chunk 0: values must be in [0, 16)"));
  EXPECT_THAT(refused({{first.get(), low.data(), 1, 0}}), HasSubstr("'input_ids' is -1 at [0]"));
  EXPECT_THAT(refused({{first.get(), many.data(), 20, 0}}),
              HasSubstr("adds 20 tokens to the 3 of its sequence, the model's context is 22"));
  itx_tensor *logits = nullptr;
  itx_chunk chunk = {first.get(), good.data(), 1, 2};
  EXPECT_EQ(itx_cache_step(cache.get(), &chunk, 1, &logits), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("has 1 tokens, logits of the last 2 are wanted"));
  extend(cache, first, {4}, text);
}

TEST_P(Caches, HandlesMayBeFreedInAnyOrder) {
  CachePointer cache = make(2, 4);
  SequencePointer first = sequence(cache);
  module.reset();
  Tokens text;
  extend(cache, first, {1, 2, 3, 4, 5}, text);
  SequencePointer second = fork(first);
  cache.reset();
  EXPECT_EQ(itx_sequence_length(second.get()), 5);
}

TEST_P(Caches, SeveralThreads) {
  CachePointer cache = make(4, 4 * 6);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        SequencePointer own = sequence(cache);
        Tokens text;
        for (int i = 0; i < 6; ++i)
          extend(cache, own, Tokens(3, (t + i + round) % failing), text);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(info(cache).free_pages, 24);
}

// ---- Memory -----------------------------------------------------------------------------------------------

TEST_P(Caches, MemoryIsKnownBefore) {
  auto needed = [&](itx_cache_options options) {
    uint64_t bytes = 0;
    options.struct_bytes = sizeof(options);
    EXPECT_EQ(itx_cache_bytes_needed(module.get(), function(), &options, &bytes), ITX_OK) << itx_last_error();
    return bytes;
  };
  uint64_t page = hasTail() ? 4 * 8 + 8 * 2 : 4 * 8, slot = hasTail() ? 16 : 0;
  EXPECT_EQ(needed({0, 0, 0, 0}), 6 * page + slot) << "a context of 22 tokens";
  EXPECT_EQ(needed({0, 5, 0, 0}), 5 * (6 * page + slot));
  EXPECT_EQ(needed({0, 3, 7, 0}), 7 * page + 3 * slot);
  EXPECT_EQ(needed({0, 3, 0, 200}), (200 - 3 * slot) / page * page + 3 * slot);
  EXPECT_EQ(needed({0, 1, 0, 1 << 20}), 6 * page + slot) << "no more than a sequence can use";
  CachePointer cache = make(3, 7);
  EXPECT_EQ(info(cache).bytes, 7 * page + 3 * slot);
  EXPECT_EQ(info(cache).page_bytes, page);
  EXPECT_EQ(info(cache).sequence_bytes, slot);
  EXPECT_EQ(info(cache).page_tokens, pageTokens);
  EXPECT_EQ(info(cache).context, context);
  EXPECT_EQ(info(cache).vocabulary, vocabulary);

  auto refused = [&](itx_status expected, itx_cache_options options) {
    itx_cache *made = nullptr;
    options.struct_bytes = sizeof(options);
    EXPECT_EQ(itx_cache_create(module.get(), function(), &options, &made), expected) << itx_last_error();
    EXPECT_EQ(made, nullptr);
    return std::string(itx_last_error());
  };
  EXPECT_THAT(refused(ITX_INVALID_ARGUMENT, {0, 3, 7, 100}), HasSubstr("more than the 100 that it may take"));
  EXPECT_THAT(refused(ITX_INVALID_ARGUMENT, {0, 1, 0, 20}), HasSubstr("a cache of 20 bytes has no page"));
  EXPECT_THAT(refused(ITX_INVALID_ARGUMENT, {0, -1, 7, 0}), HasSubstr("a cache for -1 sequences"));
  EXPECT_THAT(refused(ITX_INVALID_ARGUMENT, {0, 1, -7, 0}), HasSubstr("a cache of -7 pages"));
}

TEST_P(Caches, MoreMemoryThanThereIs) {
  std::string manifest = this->manifest();
  for (const char *shape : {"\"shape\":[\"pages\",4]", "\"shape\":[\"pages\",2,4]"})
    for (size_t at = 0; (at = manifest.find(shape, at)) != std::string::npos; ++at)
      manifest.replace(at + std::strlen(shape) - 2, 1, "4194304");
  module = load(write(manifest, "large.itx", artifact()));
  itx_cache_options options = {sizeof(options), 1, 1 << 30, 0};
  itx_cache *made = nullptr;
  EXPECT_EQ(itx_cache_create(module.get(), function(), &options, &made), ITX_OUT_OF_MEMORY);
  if (isOnDevice())
    EXPECT_THAT(itx_last_error(), AllOf(HasSubstr("large.itx: no memory on the device 'reference' for the "),
                                        HasSubstr(": give fewer pages")));
  else
    EXPECT_THAT(itx_last_error(), AllOf(HasSubstr("a cache of 1073741824 pages (of 4 tokens) for 1 sequences takes "),
                                        HasSubstr(" are available to this process")));
  options.pages = INT64_MAX;
  EXPECT_EQ(itx_cache_create(module.get(), function(), &options, &made), ITX_INVALID_ARGUMENT);
}

// ---- Functions that are no forward steps ------------------------------------------------------------------

TEST_P(Caches, OtherFunctions) {
  auto refused = [&](const std::string &from, const std::string &to, itx_status status = ITX_INVALID_ARGUMENT) {
    ModulePointer other = load(write(replaced(decoderManifest(), from, to), "other.itx"));
    itx_cache *made = nullptr;
    EXPECT_EQ(itx_cache_create(other.get(), nullptr, nullptr, &made), status);
    return std::string(itx_last_error());
  };
  EXPECT_THAT(refused("\"name\":\"step\"", "\"name\":\"stem\"", ITX_NOT_FOUND),
              HasSubstr("has no function 'step'; it has: stem, tailed"));
  EXPECT_THAT(refused("\"name\":\"page_table\"", "\"name\":\"pages\""),
              HasSubstr("function 'step' is no forward step of a language model: it has no input 'page_table'"));
  EXPECT_THAT(refused("\"input_ids\",\"dtype\":\"i64\"", "\"input_ids\",\"dtype\":\"i32\""),
              HasSubstr("'input_ids' is not i64 of rank 1"));
  EXPECT_THAT(refused("\"below\":{\"size\":\"pages_of_a_sequence\"", "\"below\":{\"size\":\"sequences\""),
              HasSubstr("'positions' and 'page_table' do not say what limits them"));
  EXPECT_THAT(refused("\"page_tokens\":4,", ""),
              HasSubstr("its manifest does not say how many tokens a page has; if an older compiler made the artifact, "
                        "compile the model again"));
  EXPECT_THAT(refused("\"page_tokens\":4", "\"page_tokens\":3"),
              HasSubstr("'positions' may be 4 times the pages of a sequence, a page has 3 tokens"));
  EXPECT_THAT(refused("\"shape\":[\"pages\",4],\"state\":true", "\"shape\":[\"pages\",4]"),
              HasSubstr("nothing is known of its input 'keys'"));
  EXPECT_THAT(refused("\"shape\":[\"pages\",4],\"state\":true", "\"shape\":[\"pages\",4],\"default\":1"),
              HasSubstr("no input is state"));
  EXPECT_THAT(refused("\"shape\":[\"pages\",4]", "\"shape\":[\"pages\",\"outputs\"]"),
              HasSubstr("the state 'keys' has a second size that the call decides"));
  EXPECT_THAT(refused("\"logits\",\"dtype\":\"f32\"", "\"logits\",\"dtype\":\"f16\""),
              HasSubstr("its outputs are not logits"));
}
