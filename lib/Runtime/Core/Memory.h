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

/// Memory aligned to ITX_BUFFER_ALIGNMENT; from 2 MiB on aligned to that and offered to the kernel for huge pages. Not
/// initialised. A null pointer when memory is lacking.
void *allocateAligned(uint64_t bytes);
void freeAligned(void *data);

/// True in builds that end each block of memory at a page which faults: none is larger than what was asked for.
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

  /// At least `bytes`; valid for 0 too. Null when memory is lacking.
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

/// Memory of a result: from a small cache of the process, and back to it when the last user is gone.
std::shared_ptr<void> allocateShared(uint64_t bytes);

} // namespace intarsia::runtime

#endif
