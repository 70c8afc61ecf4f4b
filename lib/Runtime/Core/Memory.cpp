//===- Memory.cpp - Aligned memory, kept for the next call --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Memory.h"

#include "lib/Runtime/Tiers/WeightStream.h"

#include <cstdlib>
#include <mutex>
#include <sys/mman.h>

namespace intarsia::runtime {

static constexpr uint64_t hugePageBytes = 2 << 20;

static uint64_t roundUp(uint64_t bytes) {
  uint64_t unit = bytes >= hugePageBytes ? hugePageBytes : ITX_BUFFER_ALIGNMENT;
  return bytes > UINT64_MAX - unit ? 0 : (bytes + unit - 1) / unit * unit;
}

#ifndef INTARSIA_GUARD // GuardedMemory.cpp has others
void *allocateAligned(uint64_t bytes) {
  uint64_t rounded = roundUp(bytes ? bytes : 1);
  if (rounded == 0 || rounded > uint64_t(PTRDIFF_MAX))
    return nullptr;
  makeRoomForAllocation(rounded);
  uint64_t alignment = rounded >= hugePageBytes ? hugePageBytes : ITX_BUFFER_ALIGNMENT;
  void *data = std::aligned_alloc(alignment, rounded);
  if (data && alignment == hugePageBytes)
    madvise(data, rounded, MADV_HUGEPAGE); // advice: a kernel without huge pages may refuse
  return data;
}

void freeAligned(void *data) { std::free(data); }
#endif

void *ScratchBuffer::grow(uint64_t bytes) {
  freeAligned(data_);
  uint64_t wanted = bytes < 4096 && !isMemoryGuarded ? 4096 : bytes;
  data_ = allocateAligned(wanted);
  size_ = data_ ? wanted : 0;
  return data_;
}

namespace {

/// A few freed blocks. Locks are only tried: a child of a fork that finds one held for ever uses the heap.
class BlockCache {
public:
  void *take(uint64_t bytes) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock)
      return nullptr;
    Block *best = nullptr;
    for (Block &block : blocks_)
      if (block.data && block.bytes >= bytes && block.bytes <= 2 * bytes && (!best || block.bytes < best->bytes))
        best = &block;
    if (!best)
      return nullptr;
    void *data = best->data;
    held_ -= best->bytes;
    *best = {};
    return data;
  }

  void give(void *data, uint64_t bytes) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && held_ + bytes <= maximumHeld)
      for (Block &block : blocks_)
        if (!block.data) {
          block = {data, bytes};
          held_ += bytes;
          return;
        }
    freeAligned(data);
  }

private:
  static constexpr uint64_t maximumHeld = 64 << 20;
  struct Block {
    void *data = nullptr;
    uint64_t bytes = 0;
  };
  std::mutex mutex_;
  Block blocks_[16];
  uint64_t held_ = 0;
};

} // namespace

/// Never destroyed: results may be freed after the process's static objects are gone.
static BlockCache &blockCache() {
  static BlockCache *cache = new BlockCache;
  return *cache;
}

std::shared_ptr<void> allocateShared(uint64_t bytes) {
  uint64_t rounded = roundUp(bytes ? bytes : 1);
  if (rounded == 0)
    return nullptr;
  if (isMemoryGuarded)
    return std::shared_ptr<void>(allocateAligned(bytes), freeAligned);
  void *data = blockCache().take(rounded);
  if (!data)
    data = allocateAligned(rounded);
  if (!data)
    return nullptr;
  return std::shared_ptr<void>(data, [rounded](void *block) { blockCache().give(block, rounded); });
}

} // namespace intarsia::runtime
