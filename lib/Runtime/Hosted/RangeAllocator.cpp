//===- RangeAllocator.cpp - Which parts of an address range are in use ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/RangeAllocator.h"

#include <iterator>

namespace intarsia::runtime {

RangeAllocator::RangeAllocator(uint64_t extent) {
  if (extent > guardBytes)
    free_[guardBytes] = extent - guardBytes;
}

uint64_t RangeAllocator::roundedBytes(uint64_t bytes) {
  if (bytes > UINT64_MAX - alignment - guardBytes)
    return 0;
  return bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
}

std::optional<uint64_t> RangeAllocator::allocate(uint64_t bytes) {
  uint64_t rounded = roundedBytes(bytes);
  if (rounded == 0)
    return std::nullopt;
  uint64_t taken = rounded + guardBytes;
  for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
    auto [begin, gapBytes] = *gap;
    if (gapBytes < taken)
      continue;
    free_.erase(gap);
    if (gapBytes > taken)
      free_[begin + taken] = gapBytes - taken;
    used_[begin] = bytes;
    return begin;
  }
  return std::nullopt;
}

std::optional<uint64_t> RangeAllocator::release(uint64_t begin) {
  auto part = used_.find(begin);
  if (part == used_.end())
    return std::nullopt;
  uint64_t bytes = part->second;
  used_.erase(part);
  auto gap = free_.emplace(begin, roundedBytes(bytes) + guardBytes).first;
  if (auto next = std::next(gap); next != free_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    free_.erase(next);
  }
  if (gap != free_.begin())
    if (auto previous = std::prev(gap); previous->first + previous->second == gap->first) {
      previous->second += gap->second;
      free_.erase(gap);
    }
  return bytes;
}

std::optional<RangeAllocator::Part> RangeAllocator::find(uint64_t offset) const {
  auto next = used_.upper_bound(offset);
  if (next == used_.begin())
    return std::nullopt;
  auto [begin, bytes] = *std::prev(next);
  if (offset - begin > bytes)
    return std::nullopt;
  return Part{begin, bytes};
}

} // namespace intarsia::runtime
