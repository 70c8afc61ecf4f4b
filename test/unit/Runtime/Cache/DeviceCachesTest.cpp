//===- DeviceCachesTest.cpp - Caches whose state is on a device that fails -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Decoder.h"
#include "test/unit/Runtime/Mixed.h"

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {
class DeviceCaches : public CacheTest {
protected:
  /// Fails an action at each command of the reference device in turn, until it has fewer. Returns how often it failed.
  template <typename Action> int failEachCommand(Action action) {
    for (int command = 1;; ++command) {
      itx_status status;
      {
        ScopedFault fault(Fault::OutOfMemory, uint64_t(command));
        status = action();
      }
      if (status == ITX_OK)
        return command - 1;
      EXPECT_EQ(status, ITX_OUT_OF_MEMORY) << itx_last_error();
      EXPECT_THAT(itx_last_error(), HasSubstr("an injected fault"));
      if (command == 1000)
        return command;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Models, DeviceCaches, ::testing::Values("device_step", "device_tailed"), functionName);
} // namespace

TEST_P(DeviceCaches, WorkLater) {
  ScopedDelay delayed(200);
  CachePointer cache = make(3, 12);
  SequencePointer first = sequence(cache);
  Tokens text;
  extend(cache, first, {1, 2, 3, 4, 5, 6}, text);
  SequencePointer second = fork(first);
  Tokens other = text;
  extend(cache, first, {7, 8, 9}, text);
  extend(cache, second, {10}, other);
  ASSERT_EQ(itx_sequence_save(first.get(), (folder / "s").c_str()), ITX_OK) << itx_last_error();
  itx_sequence *made = nullptr;
  ASSERT_EQ(itx_sequence_restore(cache.get(), (folder / "s").c_str(), &made), ITX_OK) << itx_last_error();
  SequencePointer third(made);
  extend(cache, third, {11, 12}, text);
}

TEST_P(DeviceCaches, AStepThatFailsAnywhereChangesNothing) {
  CachePointer cache = make(2, 8);
  SequencePointer first = sequence(cache);
  Tokens text;
  extend(cache, first, {1, 2, 3, 4, 5}, text);
  SequencePointer second = fork(first);
  Tokens other = text;
  int64_t before = info(cache).free_pages;
  Tokens more = {6, 7, 8, 9, 10, 11};
  int failures = failEachCommand([&] {
    itx_chunk chunk = {first.get(), more.data(), int64_t(more.size()), 1};
    itx_tensor *logits = nullptr;
    itx_status status = itx_cache_step(cache.get(), &chunk, 1, &logits);
    itx_tensor_free(logits);
    if (status != ITX_OK) {
      EXPECT_EQ(info(cache).free_pages, before);
      EXPECT_EQ(itx_sequence_length(first.get()), 5);
    }
    return status;
  });
  // Each paged state: a page cleared and copied, a new page cleared. The slot saved. Five inputs, the kernel, logits.
  EXPECT_EQ(failures, hasTail() ? 6 + 1 + 7 : 3 + 7);
  text = text + more;
  extend(cache, first, {3, 3}, text);
  extend(cache, second, {4, 4, 4, 4}, other);
}

TEST_P(DeviceCaches, OtherWorkThatFailsChangesNothing) {
  CachePointer cache = make(4, 8);
  SequencePointer first = sequence(cache);
  Tokens text;
  extend(cache, first, {1, 2, 3, 4, 5}, text);
  int64_t pages = info(cache).free_pages, sequences = info(cache).free_sequences;
  std::string path = folder / "s";
  itx_sequence *made = nullptr;
  int failures = failEachCommand([&] { return itx_sequence_save(first.get(), path.c_str()); });
  EXPECT_EQ(failures, hasTail() ? 5 : 2) << "two pages of each state, and the slot";
  auto count = [&](itx_status status) {
    if (status != ITX_OK) {
      EXPECT_EQ(info(cache).free_pages, pages);
      EXPECT_EQ(info(cache).free_sequences, sequences);
    }
    return status;
  };
  failures = failEachCommand([&] { return count(itx_sequence_restore(cache.get(), path.c_str(), &made)); });
  EXPECT_EQ(failures, hasTail() ? 10 : 4);
  SequencePointer restored(made);
  Tokens again = text;
  pages = info(cache).free_pages;
  sequences = info(cache).free_sequences;
  failures = failEachCommand([&] { return count(itx_sequence_fork(first.get(), &made)); });
  EXPECT_EQ(failures, hasTail() ? 2 : 0);
  SequencePointer forked(made);
  Tokens third = text;
  sequences = info(cache).free_sequences;
  failures = failEachCommand([&] { return count(itx_sequence_create(cache.get(), &made)); });
  EXPECT_EQ(failures, hasTail() ? 1 : 0);
  SequencePointer created(made);
  extend(cache, restored, {6, 7}, again);
  extend(cache, forked, {8}, third);
  extend(cache, first, {9, 10}, text);
}

TEST_P(DeviceCaches, WhatALostDeviceHeldIsGone) {
  CachePointer cache = make(1, 8);
  SequencePointer first = sequence(cache);
  Tokens text;
  extend(cache, first, {1, 2, 3, 4, 5, 6, 7, 8}, text);
  {
    ScopedFault fault(Fault::DeviceLost, 4); // a step that overwrites the slot of the last page
    EXPECT_EQ(append(cache, first, {9}), ITX_DEVICE_LOST);
  }
  // Pages were only written to behind the tokens, the slot could not be given its earlier contents.
  EXPECT_EQ(itx_sequence_is_evicted(first.get()) != 0, hasTail());
  if (hasTail()) {
    EXPECT_EQ(append(cache, first, {9}), ITX_EVICTED);
    ASSERT_EQ(itx_sequence_truncate(first.get(), 0, nullptr), ITX_OK);
    Tokens tokens = text;
    text.clear();
    extend(cache, first, tokens, text);
  }
  extend(cache, first, {10}, text);
}
