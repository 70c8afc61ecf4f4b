//===- PagedFile.h - Read pages of a file past the page cache -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_TIERS_PAGEDFILE_H
#define INTARSIA_RUNTIME_TIERS_PAGEDFILE_H

#include "lib/Support/File.h"

#include <string>

namespace intarsia::runtime {

/// The unit of reads: the page of the processors that the runtime is built for, and a multiple of the block of all
/// drives.
inline constexpr uint64_t filePageBytes = 4096;

/// A file that is read directly from its drive, so that its bytes are in memory once, and only where they are wanted.
/// File systems that cannot do this (tmpfs) are read through the page cache, which is then told to forget the pages.
class PagedFile {
public:
  PagedFile() = default;
  ~PagedFile();
  PagedFile(const PagedFile &) = delete;
  PagedFile &operator=(const PagedFile &) = delete;

  /// Opens the file that is mapped, whatever has its name now.
  Status open(const MappedFile &mapped, const std::string &name);
  /// Reads whole pages: offset, bytes and address are multiples of filePageBytes. The file may end in the last one.
  Status read(uint64_t offset, uint64_t bytes, uint8_t *destination) const;
  bool isDirect() const { return isDirect_; }

private:
  std::string name_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0; // of the file when it was opened
  bool isDirect_ = false;
};

} // namespace intarsia::runtime

#endif
