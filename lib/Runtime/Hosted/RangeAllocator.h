//===- RangeAllocator.h - Which parts of an address range are in use --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_RANGEALLOCATOR_H
#define INTARSIA_RUNTIME_HOSTED_RANGEALLOCATOR_H

#include <cstdint>
#include <map>
#include <optional>

namespace intarsia::runtime {

/// Gives out parts of the range from 0 to `extent`, first fit. It only computes: it touches no memory and takes no
/// lock. Each part begins at a multiple of `alignment`. At least `guardBytes` lie between two parts, before the first,
/// and after the last, so that an address just past a part belongs to no other.
class RangeAllocator {
public:
  static constexpr uint64_t alignment = 64;
  static constexpr uint64_t guardBytes = 64;

  struct Part {
    uint64_t begin = 0;
    uint64_t bytes = 0; ///< as asked for
  };

  explicit RangeAllocator(uint64_t extent);

  /// Returns the first byte of a new part; nothing if no gap is large enough. A part of 0 bytes has an address too.
  std::optional<uint64_t> allocate(uint64_t bytes);
  /// Frees the part that begins at `begin` and returns its bytes; nothing if no part begins there.
  std::optional<uint64_t> release(uint64_t begin);
  /// Returns the part that `offset` lies in or just past; nothing if there is none.
  std::optional<Part> find(uint64_t offset) const;

  /// Returns the bytes of memory that a part of `bytes` takes without its guard; 0 if that does not fit in 64 bits.
  static uint64_t roundedBytes(uint64_t bytes);
  /// Returns the number of gaps; 1 if nothing is in use.
  size_t gaps() const { return free_.size(); }

private:
  std::map<uint64_t, uint64_t> free_; ///< bytes of each gap by its beginning; no two touch each other
  std::map<uint64_t, uint64_t> used_; ///< bytes of each part, as asked for, by its beginning
};

} // namespace intarsia::runtime

#endif
