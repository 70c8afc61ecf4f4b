//===- SharedMemory.cpp - Shared memory of a block, and which of it was written --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/SharedMemory.h"

#include <cstdlib>

namespace intarsia::runtime {

void SharedMemory::Free::operator()(uint8_t *memory) const { std::free(memory); }

Status SharedMemory::reset(uint64_t bytes, bool tracked) {
  // One address at least, so that kernels without shared memory have one too.
  uint64_t wanted = bytes / alignment * alignment + alignment;
  if (wanted > capacity_) {
    memory_.reset(static_cast<uint8_t *>(wanted > bytes ? std::aligned_alloc(alignment, wanted) : nullptr));
    written_.reset(static_cast<uint8_t *>(memory_ ? std::aligned_alloc(alignment, wanted) : nullptr));
    capacity_ = written_ ? wanted : 0;
    if (!written_)
      return error(ITX_OUT_OF_MEMORY, "the emulated device cannot have %llu bytes of shared memory for a block",
                   (unsigned long long)bytes);
  }
  bytes_ = bytes;
  tracked_ = tracked;
  std::memset(memory_.get(), pattern, bytes);
  if (tracked)
    std::memset(written_.get(), 0, bytes);
  return Status::success();
}

void SharedMemory::forget(void *address, uint64_t bytes) {
  std::memset(address, pattern, bytes);
  if (tracked_)
    std::memset(written_.get() + offsetOf(address), 0, bytes);
}

uint64_t SharedMemory::firstUnwritten(const void *address, uint64_t bytes) const {
  uint64_t begin = offsetOf(address);
  const void *found = std::memchr(written_.get() + begin, 0, bytes);
  return found ? uint64_t(static_cast<const uint8_t *>(found) - written_.get()) : begin + bytes;
}

} // namespace intarsia::runtime
