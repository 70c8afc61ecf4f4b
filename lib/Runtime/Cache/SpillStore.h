//===- SpillStore.h - State of sequences that had to leave the cache ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CACHE_SPILLSTORE_H
#define INTARSIA_RUNTIME_CACHE_SPILLSTORE_H

#include "lib/Support/Status.h"

#include <memory>
#include <string>
#include <vector>

namespace intarsia::runtime {

/// Memory of the host, and behind it files in a folder. The files have no names, so that nothing is left of them when
/// the process ends, however it does.
class SpillStore {
public:
  struct Limits {
    std::string folder; // of the files; empty: memory alone
    uint64_t memoryBytes = 0;
    uint64_t fileBytes = 0; // 0: as many as the disk has
  };

  /// A part of what is put into the store.
  struct Piece {
    const void *data;
    uint64_t bytes;
  };

  /// Holds the state of one sequence. Its destructor gives the room back; the store must outlive it.
  class Entry {
  public:
    ~Entry();
    Entry(const Entry &) = delete;
    Entry &operator=(const Entry &) = delete;
    /// Copies a part of it.
    Status read(uint64_t offset, void *to, uint64_t bytes) const;
    uint64_t bytes() const { return bytes_; }

  private:
    friend class SpillStore;
    Entry(SpillStore &store, uint64_t bytes) : store_(store), bytes_(bytes) {}
    SpillStore &store_;
    uint64_t bytes_;
    std::unique_ptr<uint8_t[]> memory_; // null: it is in the file
    int file_ = -1;
  };

  /// ITX_INVALID_ARGUMENT if there is no such folder, or no file can be made in it.
  static Status create(Limits limits, std::unique_ptr<SpillStore> &store);

  /// Stores pieces one after another. `isFull` says whether it failed for want of room.
  Status put(const std::vector<Piece> &pieces, std::unique_ptr<Entry> &entry, bool &isFull);

private:
  explicit SpillStore(Limits limits) : limits_(std::move(limits)) {}
  Status makeFile(int &file) const;
  Status writeFile(const std::vector<Piece> &pieces, int file, bool &isFull) const;

  Limits limits_;
  uint64_t memoryBytes_ = 0, fileBytes_ = 0; // that are in use
};

} // namespace intarsia::runtime

#endif
