//===- MemorySplit.cpp - Which part of each weight stays in memory ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Tiers/MemorySplit.h"

#include <algorithm>
#include <numeric>

namespace intarsia::runtime {

/// Tensors that are smaller than this stay: together they are a small part of any model, and reads of so few bytes take
/// as long as those of many.
static constexpr uint64_t smallestRead = readBytes / 8;

static uint64_t restOf(uint64_t size, uint64_t rest) { return size < smallestRead ? 0 : std::min(size, rest); }

static uint64_t windowFor(uint64_t rest) { return 2 * rest + readerCount * readBytes; }

/// Returns the bytes that are needed if no tensor has a larger rest than `rest`.
static uint64_t neededWith(const std::vector<uint64_t> &bytes, uint64_t rest) {
  uint64_t needed = windowFor(rest);
  for (uint64_t size : bytes)
    needed += size - restOf(size, rest);
  return needed;
}

/// Returns the largest rest that is of use: with a larger one, what two tensors save goes into the window.
static uint64_t largestRest(std::vector<uint64_t> bytes) {
  size_t third = std::min<size_t>(2, bytes.size() - 1);
  std::nth_element(bytes.begin(), bytes.begin() + ptrdiff_t(third), bytes.end(), std::greater<>());
  return std::max(bytes[third], readBytes);
}

uint64_t smallestMemory(const std::vector<uint64_t> &bytes) {
  uint64_t all = std::accumulate(bytes.begin(), bytes.end(), uint64_t(0));
  return bytes.empty() ? 0 : std::min(all, neededWith(bytes, largestRest(bytes)));
}

std::optional<MemorySplit> splitMemory(const std::vector<uint64_t> &bytes, uint64_t memory) {
  MemorySplit split;
  uint64_t all = std::accumulate(bytes.begin(), bytes.end(), uint64_t(0));
  if (all <= memory) {
    split.kept = bytes;
    return split;
  }
  if (memory < smallestMemory(bytes))
    return std::nullopt;
  // The smallest rest that fits: the larger a rest, the fewer bytes are needed.
  uint64_t low = readBytes, high = largestRest(bytes);
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (neededWith(bytes, middle) <= memory)
      high = middle;
    else
      low = middle + 1;
  }
  split.window = windowFor(low);
  // At the smallest rest some tensors may stay as a whole. Those that do not are spread evenly.
  uint64_t rests = 0;
  for (uint64_t size : bytes)
    rests += restOf(size, low);
  double share = double(all + split.window - memory) / double(rests);
  double wanted = 0;
  uint64_t read = 0;
  for (uint64_t size : bytes) {
    uint64_t rest = restOf(size, low);
    wanted += std::min(share, 1.0) * double(rest);
    bool isRead = share >= 1 || double(read) < wanted; // those without a rest stay either way
    read += isRead ? rest : 0;
    split.kept.push_back(isRead ? size - rest : size);
  }
  return split;
}

} // namespace intarsia::runtime
