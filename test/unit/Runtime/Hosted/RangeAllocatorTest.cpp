//===- RangeAllocatorTest.cpp - Parts of an address range against a simple oracle -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/RangeAllocator.h"

#include "gtest/gtest.h"
#include <random>
#include <vector>

using namespace intarsia::runtime;

namespace {

constexpr uint64_t guard = RangeAllocator::guardBytes;

TEST(RangeAllocator, PartsAreAlignedAndApart) {
  RangeAllocator ranges(1 << 20);
  uint64_t last = 0;
  for (uint64_t bytes : {0, 1, 63, 64, 65, 4096}) {
    std::optional<uint64_t> begin = ranges.allocate(bytes);
    ASSERT_TRUE(begin);
    EXPECT_EQ(*begin % 64, 0u);
    EXPECT_GE(*begin, last + guard);
    last = *begin + bytes;
  }
}

TEST(RangeAllocator, GapsMerge) {
  for (std::vector<int> order : {std::vector{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    RangeAllocator ranges(guard + 3 * (128 + guard));
    std::vector<uint64_t> parts;
    for (int i = 0; i < 3; ++i)
      parts.push_back(ranges.allocate(128).value());
    EXPECT_EQ(ranges.gaps(), 0u);
    EXPECT_FALSE(ranges.allocate(1));
    for (int i : order)
      EXPECT_EQ(ranges.release(parts[i]), 128u);
    EXPECT_EQ(ranges.gaps(), 1u);
    EXPECT_EQ(ranges.allocate(3 * 128 + 2 * guard), guard) << "the whole range is one gap again";
  }
}

TEST(RangeAllocator, TakesTheFirstGapThatIsLargeEnough) {
  RangeAllocator ranges(1 << 20);
  uint64_t small = ranges.allocate(64).value();
  ASSERT_TRUE(ranges.allocate(64));
  uint64_t large = ranges.allocate(1024).value();
  ASSERT_TRUE(ranges.allocate(64));
  ranges.release(small);
  ranges.release(large);
  EXPECT_EQ(ranges.allocate(512), large);
  EXPECT_EQ(ranges.allocate(64), small);
}

TEST(RangeAllocator, RefusesWhatDoesNotFit) {
  RangeAllocator ranges(4096), tiny(10);
  for (uint64_t bytes : {uint64_t(4096), uint64_t(1) << 63, UINT64_MAX - 64, UINT64_MAX})
    EXPECT_FALSE(ranges.allocate(bytes)) << bytes;
  EXPECT_FALSE(tiny.allocate(0));
  EXPECT_TRUE(ranges.allocate(4096 - 2 * guard));
}

TEST(RangeAllocator, KnowsWhatIsInUse) {
  RangeAllocator ranges(1 << 20);
  uint64_t begin = ranges.allocate(100).value();
  EXPECT_FALSE(ranges.find(begin - 1));
  EXPECT_EQ(ranges.find(begin).value().bytes, 100u);
  EXPECT_EQ(ranges.find(begin + 100).value().begin, begin) << "just past the part";
  EXPECT_FALSE(ranges.find(begin + 101));
  EXPECT_FALSE(ranges.release(begin + 64));
  EXPECT_TRUE(ranges.release(begin));
  EXPECT_FALSE(ranges.release(begin));
  EXPECT_FALSE(ranges.find(begin));
}

/// Compares 20,000 random steps with a list that is searched for the first gap that is free.
TEST(RangeAllocator, RandomStepsLikeAnOracle) {
  constexpr uint64_t extent = 1 << 16;
  RangeAllocator ranges(extent);
  std::vector<RangeAllocator::Part> parts; // ascending
  std::mt19937 random(7);
  size_t refused = 0;
  for (int step = 0; step < 20000; ++step) {
    if (!parts.empty() && random() % 100 < 45) {
      auto part = parts.begin() + random() % parts.size();
      EXPECT_EQ(ranges.release(part->begin), part->bytes);
      parts.erase(part);
      continue;
    }
    uint64_t bytes = random() % 16 == 0 ? random() % 8192 : random() % 300;
    uint64_t rounded = bytes == 0 ? 64 : (bytes + 63) / 64 * 64, begin = guard;
    size_t index = 0;
    for (; index < parts.size() && begin + rounded + guard > parts[index].begin; ++index)
      begin = parts[index].begin + (parts[index].bytes == 0 ? 64 : (parts[index].bytes + 63) / 64 * 64) + guard;
    std::optional<uint64_t> got = ranges.allocate(bytes);
    if (begin + rounded + guard > extent) {
      EXPECT_FALSE(got);
      ++refused;
      continue;
    }
    ASSERT_EQ(got, begin) << "step " << step;
    parts.insert(parts.begin() + index, {begin, bytes});
  }
  EXPECT_GT(refused, 0u);
  for (const RangeAllocator::Part &part : parts)
    EXPECT_EQ(ranges.release(part.begin), part.bytes);
  EXPECT_EQ(ranges.gaps(), 1u);
}

} // namespace
