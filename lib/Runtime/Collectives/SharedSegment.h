//===- SharedSegment.h - Memory that all ranks of a world map ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_SHAREDSEGMENT_H
#define INTARSIA_RUNTIME_COLLECTIVES_SHAREDSEGMENT_H

#include "lib/Support/Status.h"

#include <cstdint>

namespace intarsia::runtime {

/// A file in memory without a name, which is passed between processes as a descriptor: the system frees it with the
/// last process that has it, however that ends. It only grows.
class SharedFile {
public:
  SharedFile() = default;
  /// Takes the descriptor over.
  explicit SharedFile(int descriptor) : descriptor_(descriptor) {}
  ~SharedFile();
  SharedFile(SharedFile &&other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  SharedFile &operator=(SharedFile &&other) noexcept;

  static Status create(SharedFile &file);
  int descriptor() const { return descriptor_; }
  /// Takes memory for the first `bytes` bytes from the system. ITX_OUT_OF_MEMORY says how much is needed and available.
  Status reserve(uint64_t bytes) const;

private:
  int descriptor_ = -1;
};

/// Returns ITX_OUT_OF_MEMORY if `needed` is more than `available`; `why` is the system's reason, if it gave one.
Status checkSharedMemory(uint64_t needed, uint64_t available, const char *why = nullptr);

/// A part of such a file in this process's memory. Fresh memory is zero.
class SharedMapping {
public:
  SharedMapping() = default;
  ~SharedMapping();
  SharedMapping(const SharedMapping &) = delete;
  SharedMapping &operator=(const SharedMapping &) = delete;

  /// Maps a part; `offset` is a multiple of the page size.
  Status map(const SharedFile &file, uint64_t offset, uint64_t bytes);
  uint8_t *data() const { return data_; }

private:
  uint8_t *data_ = nullptr;
  uint64_t bytes_ = 0;
};

} // namespace intarsia::runtime

#endif
