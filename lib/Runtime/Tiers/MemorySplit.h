//===- MemorySplit.h - Which part of each weight stays in memory --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_TIERS_MEMORYSPLIT_H
#define INTARSIA_RUNTIME_TIERS_MEMORYSPLIT_H

#include <cstdint>
#include <optional>
#include <vector>

namespace intarsia::runtime {

/// Bytes of one read. A drive gives its full rate from about half of this on, if a few reads run at once.
inline constexpr uint64_t readBytes = 1 << 20;
/// Reads that run at once; more did not make the drives faster that this was measured on.
inline constexpr uint32_t readerCount = 4;

/// How the memory for weights is used. The beginning of each tensor stays in memory, the rest is read in each pass over
/// the model while the tensors before it are used.
struct MemorySplit {
  std::vector<uint64_t> kept; ///< bytes of each tensor that stay
  uint64_t window = 0;        ///< bytes for the rests that have been read and not yet been used
};

/// Splits `memory` bytes among tensors, given by their bytes in the order of their use. What is read is spread evenly
/// over the tensors, so that the drive is never idle: no tensor has a larger rest than the others, except those
/// that are smaller than it. The window holds two rests, one in use and one being read, and the reads that run at once.
/// All of the tensors stay if they fit. Returns nothing if memory is too small for a window.
std::optional<MemorySplit> splitMemory(const std::vector<uint64_t> &bytes, uint64_t memory);

/// The fewest bytes that splitMemory can split.
uint64_t smallestMemory(const std::vector<uint64_t> &bytes);

} // namespace intarsia::runtime

#endif
