//===- SharedOperations.h - Exchanges of ranks of one host -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations.h says what each does. The arguments are checked, and the exchange has begun: it may be a part of one
// between several hosts.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_SHAREDOPERATIONS_H
#define INTARSIA_RUNTIME_COLLECTIVES_SHAREDOPERATIONS_H

#include "lib/Runtime/Collectives/Reduce.h"
#include "lib/Runtime/Collectives/Rounds.h"

#include <algorithm>
#include <cstring>

namespace intarsia::runtime {

inline uint8_t *bytesOf(void *data) { return static_cast<uint8_t *>(data); }
inline const uint8_t *bytesOf(const void *data) { return static_cast<const uint8_t *>(data); }

inline uint64_t chunksOf(uint64_t total, uint64_t chunk) { return (total + chunk - 1) / chunk; }

inline void copyBytes(void *destination, const void *source, uint64_t bytes) {
  if (destination != source && bytes != 0)
    std::memmove(destination, source, bytes);
}

/// How elements are combined.
struct Reducer {
  ReduceFunction function = nullptr;
  uint64_t elementBytes = 0;
  bool roundsMessages = false; ///< f32 whose messages between hosts are rounded to 8 bits
};

/// How rows are shared: each of the members has as many, which may go beyond the last row.
struct RowShares {
  uint64_t rows, each;
  RowShares(uint64_t rows, size_t members) : rows(rows), each(chunksOf(rows, members)) {}
  /// The first row of a member; the last of all for one that begins behind it.
  uint64_t begin(size_t member) const { return std::min(member * each, rows - 1); }
  /// Rows of a member that are not repeated.
  uint64_t count(size_t member) const { return std::min(each, rows - begin(member)); }
  /// The same without the last row of all where it is another member's.
  uint64_t ownCount(size_t member) const { return member * each < rows ? count(member) : 0; }
  /// Repeats the last row where a member has fewer than each.
  void repeatLast(size_t member, void *data, uint64_t rowBytes) const {
    uint64_t last = count(member) - 1;
    for (uint64_t row = last + 1; row < each; ++row)
      std::memcpy(bytesOf(data) + row * rowBytes, bytesOf(data) + last * rowBytes, rowBytes);
  }
};

/// Where the parts for, or of, each member lie.
struct Parts {
  std::vector<uint64_t> offsets, bytes;
  Parts() = default;
  /// Parts one after another.
  explicit Parts(std::vector<uint64_t> given) : offsets(given.size()), bytes(std::move(given)) {
    for (size_t member = 1; member < bytes.size(); ++member)
      offsets[member] = offsets[member - 1] + bytes[member - 1];
  }
};

namespace shared {

Status allReduce(Rounds &group, const Reducer &reducer, void *destination, const void *source, uint64_t elements);
Status reduceScatterRows(Rounds &group, const Reducer &reducer, void *destination, const void *source,
                         const RowShares &shares, uint64_t rowElements);
Status allGather(Rounds &group, uint64_t elementBytes, void *destination, const void *source, uint64_t elements,
                 const uint64_t *counts);
/// Exchanges parts: `longest` is the longest of any member's.
Status exchangeParts(Rounds &group, void *destination, const void *source, uint64_t longest, const Parts &sent,
                     const Parts &received);
Status broadcast(Rounds &group, size_t root, void *data, uint64_t bytes);
Status send(Rounds &group, const void *source, uint64_t bytes);
Status receive(Rounds &group, void *destination, uint64_t bytes);
Status barrier(Rounds &group);

} // namespace shared
} // namespace intarsia::runtime

#endif
