//===- GuardedMemory.h - Memory between pages that fault ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For builds with INTARSIA_GUARD, which test generated code: sanitizers do not instrument it.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CPU_GUARDEDMEMORY_H
#define INTARSIA_RUNTIME_CPU_GUARDEDMEMORY_H

#include <cstdint>

namespace intarsia::runtime {

/// The end of the memory that lies at a guard page. Beside the other end there is up to a page of bytes that
/// checkEdges() compares; at the end up to 63 of them remain, since memory is aligned to ITX_BUFFER_ALIGNMENT.
enum class GuardSide { Begin, End };

class GuardedMemory {
public:
  GuardedMemory() = default;
  /// Fills the memory and the bytes beside it with `fill`. data() is null when out of memory.
  GuardedMemory(uint64_t bytes, GuardSide side, uint8_t fill);
  GuardedMemory(GuardedMemory &&other) noexcept;
  GuardedMemory &operator=(GuardedMemory &&other) noexcept;
  ~GuardedMemory();

  uint8_t *data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  /// Makes writing fault.
  void makeReadOnly();
  /// False if a byte between the memory and its guard pages was written.
  bool checkEdges() const;
  /// True if an address is in the memory, beside it or in its guard pages.
  bool isNear(const void *address) const;

private:
  uint8_t *mapping_ = nullptr;
  uint64_t mappingBytes_ = 0;
  uint8_t *data_ = nullptr;
  uint64_t bytes_ = 0;
  uint8_t fill_ = 0;
};

} // namespace intarsia::runtime

#endif
