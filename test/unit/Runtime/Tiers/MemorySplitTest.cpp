//===- MemorySplitTest.cpp ----------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Tiers/MemorySplit.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace intarsia::runtime;

static constexpr uint64_t MiB = 1 << 20;

static uint64_t sum(const std::vector<uint64_t> &values) {
  return std::accumulate(values.begin(), values.end(), uint64_t(0));
}

/// Layers with a small and some larger tensors, and a head.
static std::vector<uint64_t> layers(int count) {
  std::vector<uint64_t> bytes;
  for (int layer = 0; layer < count; ++layer)
    bytes.insert(bytes.end(), {8192, 3 * MiB, 2 * MiB, 8192, 13 * MiB, 6 * MiB});
  bytes.push_back(50 * MiB);
  return bytes;
}

TEST(MemorySplit, KeepsAllThatFits) {
  std::vector<uint64_t> bytes = layers(4);
  std::optional<MemorySplit> split = splitMemory(bytes, sum(bytes));
  ASSERT_TRUE(split);
  EXPECT_EQ(split->kept, bytes);
  EXPECT_EQ(split->window, 0u);
}

TEST(MemorySplit, UsesTheMemoryAndNoMore) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint64_t> bytes = layers(int(1 + random() % 20));
    std::shuffle(bytes.begin(), bytes.end(), random);
    uint64_t least = smallestMemory(bytes), all = sum(bytes);
    ASSERT_LE(least, all);
    uint64_t memory = least + random() % (all - least + 1);
    std::optional<MemorySplit> split = splitMemory(bytes, memory);
    ASSERT_TRUE(split);
    EXPECT_LE(sum(split->kept) + split->window, memory);
    // One rest at most, and what rounding to one read leaves, is unused.
    if (memory < all)
      EXPECT_GE(sum(split->kept) + split->window + 2 * MiB, std::min(memory, all)) << memory << " of " << all;
    uint64_t largest = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_LE(split->kept[i], bytes[i]);
      largest = std::max(largest, bytes[i] - split->kept[i]);
    }
    EXPECT_LE(2 * largest + readerCount * readBytes, std::max(split->window, 2 * largest + readerCount * readBytes));
    EXPECT_TRUE(memory == all || split->window >= 2 * largest + readerCount * readBytes);
  }
}

TEST(MemorySplit, KeepsSmallTensorsAndSpreadsTheRests) {
  std::vector<uint64_t> bytes = layers(20);
  std::optional<MemorySplit> split = splitMemory(bytes, sum(bytes) * 9 / 10);
  ASSERT_TRUE(split);
  uint64_t read = sum(bytes) - sum(split->kept), before = 0, expected = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] < MiB / 4)
      EXPECT_EQ(split->kept[i], bytes[i]);
    // At no point of the pass more than two rests are ahead of an even rate over the tensors that can be read.
    before += bytes[i] - split->kept[i];
    expected += bytes[i] < MiB / 4 ? 0 : MiB;
    double even = double(read) * double(expected) / double((bytes.size() - 40) * MiB);
    EXPECT_NEAR(double(before), even, 2.0 * double(MiB)) << i;
  }
}

TEST(MemorySplit, SaysWhatIsTooSmall) {
  std::vector<uint64_t> bytes = layers(8);
  uint64_t least = smallestMemory(bytes);
  EXPECT_FALSE(splitMemory(bytes, least - 1));
  EXPECT_TRUE(splitMemory(bytes, least));
  EXPECT_EQ(smallestMemory({}), 0u);
  EXPECT_EQ(smallestMemory({5 * MiB}), 5 * MiB);
}
