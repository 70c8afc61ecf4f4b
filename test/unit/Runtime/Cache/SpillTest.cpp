//===- SpillTest.cpp - Sequences that leave the cache and come back -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Decoder.h"

#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace intarsia;

using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {

struct Spilled : CacheTest {
  /// The bytes of a page of all states, as the store has them.
  uint64_t pageBytes() const { return hasTail() ? 4 * 8 + 8 * 2 : 4 * 8; }

  CachePointer makeSpilling(int64_t sequences, int64_t pages, uint64_t memory, bool hasFolder, uint64_t files = 0) {
    path = folder.path();
    itx_cache_options options = {sizeof(options), sequences, pages, 0, hasFolder ? path.c_str() : nullptr,
                                 memory,          files};
    itx_cache *cache = nullptr;
    EXPECT_EQ(itx_cache_create(module.get(), function(), &options, &cache), ITX_OK) << itx_last_error();
    return CachePointer(cache);
  }

  /// Appends eight tokens, two pages, to a new sequence that may be evicted.
  SequencePointer text(const CachePointer &cache, int64_t first, Tokens &tokens) {
    SequencePointer made = sequence(cache);
    Tokens added;
    for (int64_t i = 0; i < 8; ++i)
      added.push_back((first + i) % failing);
    extend(cache, made, added, tokens);
    itx_sequence_set_evictable(made.get(), 1);
    return made;
  }

  std::string path;
};

TEST_P(Spilled, ComeBackFromMemoryAndFiles) {
  for (bool isInMemory : {true, false}) {
    CachePointer cache = makeSpilling(4, 4, isInMemory ? 1 << 20 : 0, !isInMemory);
    std::vector<Tokens> texts(4);
    std::vector<SequencePointer> sequences;
    for (int64_t i = 0; i < 4; ++i)
      sequences.push_back(text(cache, i, texts[i]));
    EXPECT_EQ(info(cache).spilled_sequences, 2);
    EXPECT_EQ(info(cache).spilled_bytes, 4 * pageBytes());
    for (int round = 0; round < 3; ++round)
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(itx_sequence_is_evicted(sequences[i].get()), 0);
        EXPECT_EQ(itx_sequence_length(sequences[i].get()), int64_t(texts[i].size()));
        if (texts[i].size() < 8) // others left for it
          extend(cache, sequences[i], {(i + round) % failing}, texts[i]);
        int64_t kept = 0;
        ASSERT_EQ(itx_sequence_truncate(sequences[i].get(), 7, &kept), ITX_OK) << itx_last_error();
        texts[i].resize(kept);
        extend(cache, sequences[i], {(i + round + 5) % failing}, texts[i]);
      }
    EXPECT_EQ(info(cache).lost_sequences, 0);
    EXPECT_EQ(itx_cache_spill_status(cache.get()), ITX_OK);
    sequences.clear();
    EXPECT_EQ(info(cache).spilled_bytes, 0u);
    EXPECT_EQ(info(cache).free_pages, 4);
  }
  EXPECT_EQ(folder.files(), 1u) << "the artifact; files of sequences have no names";
}

TEST_P(Spilled, SeveralInOneStep) {
  CachePointer cache = makeSpilling(4, 6, 0, /*hasFolder=*/true);
  std::vector<Tokens> texts(4);
  std::vector<SequencePointer> sequences;
  for (int64_t i = 0; i < 4; ++i)
    sequences.push_back(text(cache, i, texts[i]));
  int64_t token = 3;
  itx_chunk chunks[] = {{sequences[0].get(), &token, 1, 0}, {sequences[3].get(), &token, 1, 0}};
  ASSERT_EQ(itx_cache_step(cache.get(), chunks, 2, nullptr), ITX_OK) << itx_last_error();
  for (int64_t i : {0, 3}) {
    texts[i].push_back(token);
    extend(cache, sequences[i], {4}, texts[i]);
  }
  // More than the cache has at a time: nothing is lost.
  itx_chunk all[] = {{sequences[0].get(), &token, 1, 0},
                     {sequences[1].get(), &token, 1, 0},
                     {sequences[2].get(), &token, 1, 0},
                     {sequences[3].get(), &token, 1, 0}};
  EXPECT_EQ(itx_cache_step(cache.get(), all, 4, nullptr), ITX_CACHE_FULL);
  for (int64_t i = 0; i < 4; ++i)
    extend(cache, sequences[i], {5}, texts[i]);
  EXPECT_EQ(info(cache).lost_sequences, 0);
}

TEST_P(Spilled, ForksTruncationsAndFiles) {
  CachePointer cache = makeSpilling(5, 4, 1 << 20, /*hasFolder=*/false);
  Tokens first, second, third;
  SequencePointer one = text(cache, 1, first), two = text(cache, 2, second), three = text(cache, 3, third);
  ASSERT_EQ(info(cache).spilled_sequences, 1);
  SequencePointer child = fork(one);
  itx_sequence_set_evictable(child.get(), 1);
  Tokens text = first;
  extend(cache, child, {7}, text);
  extend(cache, one, {8}, first);
  // A spilled sequence is cut where it lies.
  int64_t kept = 0;
  ASSERT_EQ(itx_sequence_truncate(two.get(), 4, &kept), ITX_OK) << itx_last_error();
  ASSERT_EQ(kept, 4);
  second.resize(4);
  extend(cache, two, {9, 10}, second);
  ASSERT_EQ(itx_sequence_save(three.get(), (folder / "saved").c_str()), ITX_OK) << itx_last_error();
  itx_sequence *made = nullptr;
  ASSERT_EQ(itx_sequence_restore(cache.get(), (folder / "saved").c_str(), &made), ITX_OK) << itx_last_error();
  SequencePointer restored(made);
  itx_sequence_set_evictable(made, 1);
  text = third;
  extend(cache, restored, {2}, text);
  // What is evicted by hand is gone.
  ASSERT_EQ(itx_sequence_evict(one.get()), ITX_OK);
  EXPECT_EQ(itx_sequence_is_evicted(one.get()), 1);
  EXPECT_EQ(append(cache, one, {1}), ITX_EVICTED);
}

TEST_P(Spilled, WithoutRoomTheOldestAreLost) {
  for (bool isInMemory : {true, false}) {
    uint64_t room = 4 * pageBytes(); // of two sequences
    CachePointer cache = makeSpilling(5, 4, isInMemory ? room : 0, !isInMemory, isInMemory ? 0 : room);
    std::vector<Tokens> texts(5);
    std::vector<SequencePointer> sequences;
    for (int64_t i = 0; i < 5; ++i)
      sequences.push_back(text(cache, i, texts[i]));
    EXPECT_EQ(itx_sequence_is_evicted(sequences[0].get()), 1);
    EXPECT_EQ(append(cache, sequences[0], {1}), ITX_EVICTED);
    EXPECT_EQ(info(cache).spilled_sequences, 2);
    EXPECT_EQ(info(cache).lost_sequences, 1);
    for (int64_t i = 1; i < 5; ++i)
      if (!itx_sequence_is_evicted(sequences[i].get()))
        extend(cache, sequences[i], {2}, texts[i]);
  }
}

TEST_P(Spilled, SequencesThatAreTooLargeAreLostWithAReason) {
  CachePointer cache = makeSpilling(3, 2, 8, /*hasFolder=*/false);
  Tokens first, second;
  SequencePointer one = text(cache, 1, first), two = text(cache, 2, second);
  EXPECT_EQ(itx_sequence_is_evicted(one.get()), 1);
  EXPECT_EQ(itx_cache_spill_status(cache.get()), ITX_CACHE_FULL);
  EXPECT_THAT(itx_last_error(), HasSubstr("leaves the cache, for which 8 bytes of memory and 0 of files are left"));
}

TEST_P(Spilled, OthersStayWhenOneIsTooLargeForTheStore) {
  CachePointer cache = makeSpilling(3, 4, 2 * pageBytes(), /*hasFolder=*/false);
  Tokens first, second, third;
  SequencePointer one = text(cache, 1, first), two = sequence(cache), three = sequence(cache);
  extend(cache, two, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, second);
  ASSERT_EQ(info(cache).spilled_sequences, 1);
  itx_sequence_set_evictable(two.get(), 1);
  extend(cache, three, {1, 2, 3, 4, 5}, third); // two is larger than the store
  EXPECT_EQ(itx_sequence_is_evicted(two.get()), 1);
  EXPECT_EQ(info(cache).spilled_sequences, 1);
  EXPECT_EQ(info(cache).lost_sequences, 1);
  itx_sequence_set_evictable(three.get(), 1);
  extend(cache, one, {3}, first);
}

TEST_P(Spilled, WhatMayNotBeEvictedStays) {
  CachePointer cache = makeSpilling(4, 3, 2 * pageBytes(), /*hasFolder=*/false);
  Tokens first, second, third;
  SequencePointer one = text(cache, 1, first), two = text(cache, 2, second);
  ASSERT_EQ(info(cache).spilled_sequences, 1);
  itx_sequence_set_evictable(one.get(), 0);
  SequencePointer three = text(cache, 3, third);
  EXPECT_EQ(itx_sequence_is_evicted(one.get()), 0);
  EXPECT_EQ(itx_sequence_is_evicted(two.get()), 1);
  extend(cache, one, {4, 5}, first);
}

TEST_P(Spilled, MemoryIsUsedBeforeFiles) {
  CachePointer cache = makeSpilling(4, 2, 2 * pageBytes(), /*hasFolder=*/true, 2 * pageBytes());
  std::vector<Tokens> texts(4);
  std::vector<SequencePointer> sequences;
  for (int64_t i = 0; i < 4; ++i)
    sequences.push_back(text(cache, i, texts[i]));
  EXPECT_EQ(info(cache).spilled_sequences, 2) << "one in each";
  EXPECT_EQ(info(cache).lost_sequences, 1);
  for (int64_t i : {1, 2}) {
    sequences[i == 1 ? 3 : 1].reset(); // gives its pages back
    int64_t kept = 0;
    ASSERT_EQ(itx_sequence_truncate(sequences[i].get(), 7, &kept), ITX_OK);
    texts[i].resize(kept);
    extend(cache, sequences[i], {1}, texts[i]);
  }
  EXPECT_EQ(info(cache).lost_sequences, 1);
  EXPECT_EQ(info(cache).spilled_bytes, 0u);
}

TEST_P(Spilled, AForkIsNotCopiedOut) {
  CachePointer cache = makeSpilling(4, 5, 1 << 20, /*hasFolder=*/false);
  Tokens first, second;
  SequencePointer other = text(cache, 2, second), parent = text(cache, 1, first), child = fork(parent);
  Tokens branch = first;
  extend(cache, child, {1, 2, 3, 4, 5, 6, 7, 8}, branch); // the pages of the parent are the child's
  EXPECT_EQ(info(cache).spilled_sequences, 1);
  EXPECT_EQ(info(cache).spilled_bytes, 2 * pageBytes());
  EXPECT_EQ(info(cache).free_pages, 1);
  child.reset();
  extend(cache, other, {5}, second);
}

TEST_P(Spilled, AFullDiskIsNoError) {
  CachePointer cache = makeSpilling(3, 2, 0, /*hasFolder=*/true);
  Tokens first, second;
  SequencePointer one = text(cache, 1, first);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limited = {8, before.rlim_max}; // of a file: writing more fails as it does on a full disk
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  SequencePointer two = text(cache, 2, second);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(itx_sequence_is_evicted(one.get()), 1);
  EXPECT_EQ(info(cache).lost_sequences, 1);
  EXPECT_EQ(itx_cache_spill_status(cache.get()), ITX_IO_ERROR);
  EXPECT_THAT(itx_last_error(), HasSubstr("a sequence that leaves the cache cannot be written: File too large: free "
                                          "space there, or limit what may be spilled"));
  // Its tokens can be given again.
  int64_t kept = 1;
  ASSERT_EQ(itx_sequence_truncate(one.get(), 0, &kept), ITX_OK);
  Tokens again;
  extend(cache, one, first, again);
}

/// Opens files until only so many more can be opened.
struct FewFiles {
  explicit FewFiles(int left) {
    int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC); // the lowest number that is free
    ::close(next);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit limited = {rlim_t(next + left), before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limited), 0);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before = {};
};

TEST_P(Spilled, AProcessMayHaveFewFiles) {
  CachePointer cache = makeSpilling(4, 2, 0, /*hasFolder=*/true);
  std::vector<Tokens> texts(4);
  std::vector<SequencePointer> sequences;
  {
    FewFiles limit(1);
    for (int64_t i = 0; i < 4; ++i)
      sequences.push_back(text(cache, i, texts[i]));
  }
  // Each took the file of the one before.
  EXPECT_EQ(info(cache).spilled_sequences, 1);
  EXPECT_EQ(info(cache).lost_sequences, 2);
  EXPECT_EQ(itx_cache_spill_status(cache.get()), ITX_OK);
  for (int64_t i : {0, 1})
    EXPECT_EQ(itx_sequence_is_evicted(sequences[i].get()), 1);
  ASSERT_EQ(itx_sequence_truncate(sequences[2].get(), 7, nullptr), ITX_OK) << itx_last_error();
  texts[2].resize(7);
  extend(cache, sequences[2], {3}, texts[2]);
  sequences.clear();
  {
    FewFiles limit(0);
    SequencePointer one = text(cache, 1, texts[0] = {}), two = text(cache, 2, texts[1] = {});
    EXPECT_EQ(itx_sequence_is_evicted(one.get()), 1);
    EXPECT_EQ(itx_cache_spill_status(cache.get()), ITX_CACHE_FULL);
    EXPECT_THAT(itx_last_error(), HasSubstr("cannot be written: Too many open files: raise the limit (ulimit -n)"));
  }
}

TEST_P(Spilled, AFileThatCannotBeRead) {
  CachePointer cache = makeSpilling(3, 2, 0, /*hasFolder=*/true);
  int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC); // whose number the sequence's file gets
  ::close(file);
  Tokens first, second;
  SequencePointer one = text(cache, 1, first), two = text(cache, 2, second);
  EXPECT_EQ(info(cache).spilled_sequences, 1);
  ASSERT_EQ(::ftruncate(file, 3), 0);
  EXPECT_EQ(append(cache, one, {1}), ITX_IO_ERROR);
  EXPECT_THAT(itx_last_error(), HasSubstr("what was written there cannot be read again: the file has become shorter"));
  // The other one is as it was, and tokens of this one can be given again.
  ASSERT_EQ(itx_sequence_truncate(two.get(), 7, nullptr), ITX_OK);
  second.resize(7);
  extend(cache, two, {4}, second);
  ASSERT_EQ(itx_sequence_truncate(one.get(), 0, nullptr), ITX_OK) << itx_last_error();
  Tokens again;
  extend(cache, one, first, again);
}

TEST_P(Spilled, WrongOptions) {
  itx_cache_options files = {sizeof(files), 1, 2, 0, nullptr, 0, 100};
  itx_cache *made = nullptr;
  EXPECT_EQ(itx_cache_create(module.get(), function(), &files, &made), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("files of 100 bytes for sequences that leave the cache need a folder"));
  std::string missing = folder / "missing";
  itx_cache_options options = {sizeof(options), 1, 2, 0, missing.c_str(), 0, 0};
  itx_cache *cache = nullptr;
  EXPECT_EQ(itx_cache_create(module.get(), function(), &options, &cache), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("missing: no file for sequences that leave the cache can be made there: No "
                                          "such file or directory: give an existing folder"));
}

INSTANTIATE_TEST_SUITE_P(Functions, Spilled, decoderFunctions, functionName);

} // namespace
