//===- Rounds.h - How ranks of one host exchange data ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Data go from rank to rank in rounds. In a round each rank publishes at most `chunkBytes` bytes in memory of its own
// that the others can read, then reads what it wants of theirs. The line that says which round a buffer holds has room
// for a few bytes, so that a small message is one cache line.
//
// There are four buffers a rank. A rank publishes round t after it has read round t - 2. When it has seen round t - 2
// of another rank, that one has read round t - 4: the buffer of round t is free without another signal.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_ROUNDS_H
#define INTARSIA_RUNTIME_COLLECTIVES_ROUNDS_H

#include "lib/Runtime/Collectives/Exchange.h"
#include "lib/Runtime/Collectives/WorldState.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace intarsia::runtime {

/// The members of a group that are on this host.
class Rounds {
public:
  /// Bytes of one round of a rank: with 8, 32, 128 and 512 KiB all-reduces of 1 MiB between two cores of a Zen 5
  /// machine pass on 8.7, 9.1, 9.7 and 9.5 GB/s; smaller ones begin to be read sooner with smaller rounds.
  static constexpr uint64_t chunkBytes = 65536;
  /// Bytes that fit beside a line's flag.
  static constexpr uint64_t inlineBytes = 32;

  /// Returns the bytes of shared memory for so many members, a multiple of the page size.
  static uint64_t bytesFor(size_t members);

  /// `ranks`: the members in the group's order. The memory at `offset` of the file is zero before the first use.
  Status open(WorldState &world, const SharedFile &file, uint64_t offset, std::vector<int32_t> ranks);

  size_t size() const { return ranks_.size(); }
  /// Returns this rank's place in the group, -1 if it is no member.
  int32_t index() const { return index_; }
  const std::vector<int32_t> &ranks() const { return ranks_; }
  WorldState &world() const { return *world_; }

  /// Says what the next rounds are of.
  void begin(const Exchange &operation) { operation_ = operation; }
  /// Returns the number of the next round that this rank publishes.
  uint64_t next() const { return next_; }
  /// Gives the memory for the next round's data. The caller has read all rounds up to next() - 2.
  Status prepare(uint64_t bytes, uint8_t *&data);
  /// Publishes the data: the others see it.
  void publish();
  /// Waits until all members have published a round.
  Status await(uint64_t round);
  /// Returns the data of a member's round, which has been awaited, and of which `bytes` bytes were published.
  const uint8_t *published(size_t member, uint64_t round, uint64_t bytes) const;
  /// Returns the elements of the operation that a member has published with a round.
  uint64_t elementsOf(size_t member, uint64_t round) const { return line(member, round).elements; }

private:
  /// Buffers of a rank, whose rounds follow each other.
  static constexpr uint64_t buffers = 4;

  struct alignas(64) Line {
    std::atomic<uint64_t> round; ///< number of the round, from 1 on
    uint32_t kind, element;
    uint64_t root : 8, elements : 56;
    uint64_t unused;
    uint8_t data[inlineBytes];
  };
  static_assert(sizeof(Line) == 64);

  /// Wakes those that sleep until a rank publishes. It is a line that nobody else writes to while all are awake.
  struct alignas(64) Bell {
    std::atomic<uint32_t> rings;
    std::atomic<uint32_t> sleepers;
  };

  static constexpr uint64_t memberBytes() { return sizeof(Bell) + buffers * (sizeof(Line) + chunkBytes); }
  Bell &bell(size_t member) const { return *reinterpret_cast<Bell *>(mapping_.data() + member * memberBytes()); }
  uint8_t *buffer(size_t member, uint64_t round) const {
    return mapping_.data() + member * memberBytes() + sizeof(Bell) + round % buffers * (sizeof(Line) + chunkBytes);
  }
  Line &line(size_t member, uint64_t round) const { return *reinterpret_cast<Line *>(buffer(member, round)); }
  Status waitFor(size_t member, uint64_t round);
  Status sleepUntil(size_t member, uint64_t round);
  Status compare(size_t member, uint64_t round);

  WorldState *world_ = nullptr;
  SharedMapping mapping_;
  std::vector<int32_t> ranks_;
  int32_t index_ = -1;
  uint64_t next_ = 1, awaited_ = 0;
  Exchange operation_;
  Exchange published_[buffers]; ///< the operations of the last rounds
};

} // namespace intarsia::runtime

#endif
