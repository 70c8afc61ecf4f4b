//===- Mbarriers.h - Barriers in shared memory, and tensor copies that they count -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_MBARRIERS_H
#define INTARSIA_RUNTIME_EMULATED_MBARRIERS_H

#include "lib/Runtime/Emulated/SharedMemory.h"

#include <map>
#include <string>
#include <vector>

namespace intarsia::runtime {

/// A matrix with rows one after the other, of which boxes are copied to shared memory (GpuTensorMap of
/// lib/Formats/GpuObject.h).
struct TensorMap {
  const uint8_t *address = nullptr;
  uint64_t rows = 0, columns = 0;
  uint32_t elementBytes = 0, boxRows = 0, boxColumns = 0, swizzleBytes = 0;

  uint64_t boxBytes() const { return uint64_t(boxRows) * boxColumns * elementBytes; }
};

/// A box on its way to shared memory. Its first element is that of a row and a column of the matrix, which may lie
/// outside.
struct TensorCopy {
  const TensorMap *map;
  uint64_t destination; ///< offset in shared memory
  int64_t row, column;
};

/// The mbarriers of a block (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"), by their
/// offset in shared memory. A phase of one ends when as many threads have arrived as it counts, and all bytes that they
/// said have come. Copies land when a thread waits for the phase that they belong to.
class Mbarriers {
public:
  explicit Mbarriers(SharedMemory &shared) : shared_(shared) {}

  /// Forgets all of them.
  void clear() { barriers_.clear(); }
  /// Makes one for `count` arrivals a phase, by a thread of the block.
  Status init(uint64_t offset, int32_t count, uint32_t thread);
  /// Lets tensor copies know the mbarriers that a thread has made: fence.proxy.async.
  void fence(uint32_t thread);
  /// A thread arrives, and says that so many bytes come in this phase too.
  Status arrive(uint64_t offset, int64_t bytes);
  /// Begins a copy, which is counted in bytes. Its destination, which must lie inside, holds nothing until it lands.
  Status copy(uint64_t offset, const TensorCopy &copy);
  /// Returns an error unless there is an mbarrier.
  Status check(const char *verb, uint64_t offset) const;
  /// Returns true if the phase of a parity has ended, once copies have landed. There must be an mbarrier.
  bool isPast(uint64_t offset, bool parity);
  /// Returns what each of them lacks, for messages; empty if there are none.
  std::string text() const;

private:
  struct Barrier {
    int32_t count = 0;   ///< arrivals of a phase
    int32_t missing = 0; ///< of this phase
    int64_t bytes = 0;   ///< that were said to come and have not; negative if they came before
    bool parity = false; ///< of this phase
    uint32_t thread = 0; ///< that made it
    bool isFenced = false;
    std::vector<TensorCopy> copies; ///< of this phase, that have not landed
  };

  void land(const TensorCopy &copy);
  void endPhase(Barrier &barrier);

  SharedMemory &shared_;
  std::map<uint64_t, Barrier> barriers_;
};

} // namespace intarsia::runtime

#endif
