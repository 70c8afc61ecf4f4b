//===- Memory.h - Aligned memory, kept for the next call ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_MEMORY_H
#define INTARSIA_RUNTIME_CORE_MEMORY_H

#include "intarsia/module_abi.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace intarsia::runtime {

/// Returns uninitialised memory aligned to ITX_BUFFER_ALIGNMENT; 2 MiB or more are aligned to 2 MiB and offered to the
/// kernel for huge pages. Returns null when out of memory.
void *allocateAligned(uint64_t bytes);
void freeAligned(void *data);

/// True in builds that end each block of memory at a guard page: no block is larger than requested.
#ifdef INTARSIA_GUARD
inline constexpr bool isMemoryGuarded = true;
#else
inline constexpr bool isMemoryGuarded = false;
#endif

/// A buffer that grows and is kept; contents are lost when it grows.
class ScratchBuffer {
public:
  ScratchBuffer() = default;
  ~ScratchBuffer() { freeAligned(data_); }
  ScratchBuffer(const ScratchBuffer &) = delete;
  ScratchBuffer &operator=(const ScratchBuffer &) = delete;

  /// Returns at least `bytes`, valid for 0 too; null when out of memory.
  void *reserve(uint64_t bytes) {
    if (data_ && (isMemoryGuarded ? bytes == size_ : bytes <= size_))
      return data_;
    return grow(bytes);
  }

private:
  void *grow(uint64_t bytes);
  void *data_ = nullptr;
  uint64_t size_ = 0;
};

/// Returns memory for a result. It comes from a small cache of the process and goes back to it after the last user.
std::shared_ptr<void> allocateShared(uint64_t bytes);

} // namespace intarsia::runtime

#endif
