//===- SharedMemory.cpp - Shared memory of a block, and which of it was written --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/SharedMemory.h"

#include <algorithm>
#include <cstdlib>

namespace intarsia::runtime {

void SharedMemory::Free::operator()(void *memory) const { std::free(memory); }

Status SharedMemory::reset(uint64_t bytes, bool tracked) {
  // One address at least, so that kernels without shared memory have one too.
  uint64_t wanted = bytes / alignment * alignment + alignment;
  if (wanted > capacity_) {
    memory_.reset(static_cast<uint8_t *>(wanted > bytes ? std::aligned_alloc(alignment, wanted) : nullptr));
    written_.reset(static_cast<uint8_t *>(memory_ ? std::aligned_alloc(alignment, wanted) : nullptr));
    readers_.reset(static_cast<uint16_t *>(written_ ? std::malloc(wanted / chunkBytes * sizeof(uint16_t)) : nullptr));
    capacity_ = readers_ ? wanted : 0;
    if (!readers_)
      return error(ITX_OUT_OF_MEMORY, "the emulated device cannot have %llu bytes of shared memory for a block",
                   (unsigned long long)bytes);
  }
  bytes_ = bytes;
  tracked_ = tracked;
  std::memset(memory_.get(), pattern, bytes);
  if (tracked)
    std::memset(written_.get(), 0, bytes);
  std::memset(readers_.get(), 0, (bytes + chunkBytes - 1) / chunkBytes * sizeof(uint16_t));
  reads_ = 0;
  return Status::success();
}

void SharedMemory::forget(void *address, uint64_t bytes) {
  std::memset(address, pattern, bytes);
  if (tracked_)
    std::memset(written_.get() + offsetOf(address), 0, bytes);
}

bool SharedMemory::hasReader(const void *address, uint64_t bytes) const {
  uint64_t begin = offsetOf(address) / chunkBytes, end = (offsetOf(address) + bytes + chunkBytes - 1) / chunkBytes;
  return std::any_of(readers_.get() + begin, readers_.get() + end, [](uint16_t count) { return count != 0; });
}

uint64_t SharedMemory::firstUnwritten(const void *address, uint64_t bytes) const {
  uint64_t begin = offsetOf(address);
  const void *found = std::memchr(written_.get() + begin, 0, bytes);
  return found ? uint64_t(static_cast<const uint8_t *>(found) - written_.get()) : begin + bytes;
}

} // namespace intarsia::runtime
