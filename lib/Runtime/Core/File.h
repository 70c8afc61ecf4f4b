//===- File.h - Files mapped into memory and written safely -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_FILE_H
#define INTARSIA_RUNTIME_CORE_FILE_H

#include "lib/Runtime/Core/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace intarsia::runtime {

/// A part of a file, mapped read-only.
class MappedFile {
public:
  static constexpr uint64_t toTheEnd = ~uint64_t(0);

  /// Maps `bytes` bytes from `offset` (a multiple of the page size, or 0).
  static Status open(const std::string &path, std::unique_ptr<MappedFile> &file, uint64_t offset = 0,
                     uint64_t bytes = toTheEnd);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const uint8_t *data() const { return data_; }
  uint64_t size() const { return size_; }

private:
  MappedFile() = default;
  const uint8_t *data_ = nullptr;
  uint64_t size_ = 0;
};

/// Says why a file cannot be made at `path` before any work is done for it: folder missing, not writable, is a folder.
Status checkWritable(const std::string &path);

/// A file that appears under its name only when it is complete: written beside it, then renamed.
class AtomicFile {
public:
  /// `executable` sets the x permission bits that the umask allows.
  static Status create(const std::string &path, std::unique_ptr<AtomicFile> &file, bool executable = false);
  /// Removes what was written unless commit() succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  Status write(const void *data, uint64_t bytes);
  /// Zero bytes up to the next multiple of `alignment`.
  Status alignTo(uint64_t alignment);
  uint64_t position() const { return position_; }
  Status commit();

private:
  AtomicFile() = default;
  Status failed(const char *what) const;
  std::string path_, temporary_;
  int descriptor_ = -1;
  uint64_t position_ = 0;
  bool executable_ = false;
};

/// The folder of a path, "." when it has none.
std::string folderOf(const std::string &path);

} // namespace intarsia::runtime

#endif
