//===- File.h - Files mapped into memory and written safely -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_FILE_H
#define INTARSIA_LIB_SUPPORT_FILE_H

#include "lib/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace intarsia {

/// A part of a file, mapped read-only. Where another process shortens the file, reading the memory behind its new end
/// raises SIGBUS.
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
  /// Refuses a file that has another size than when it was mapped. A file that another has replaced by its name is
  /// still the one that was mapped. Nothing is known in a process that closed descriptors which are not its own.
  Status checkSize() const;

private:
  MappedFile() = default;

  std::string path_;
  int descriptor_ = -1;
  const uint8_t *data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t fileBytes_ = 0; // of the whole file, when it was opened
  uint64_t device_ = 0, inode_ = 0;
};

/// Says why a file cannot be made at `path` before any work is done for it: folder missing, not writable, is a folder.
Status checkWritable(const std::string &path);

/// True if writing to one path would replace what is at the other: links and other spellings of a path are followed.
/// Devices and pipes are not replaced by writing, two paths to one of them are not the same file.
bool isSameFile(const std::string &first, const std::string &second);

/// A file that is written from its beginning.
class OutputFile {
public:
  /// Makes the file, or empties the one that is there.
  static Status create(const std::string &path, std::unique_ptr<OutputFile> &file);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  Status write(const void *data, uint64_t bytes);
  /// Zero bytes up to the next multiple of `alignment`.
  Status alignTo(uint64_t alignment);
  uint64_t position() const { return position_; }
  /// Whoever may read it may execute it.
  Status makeExecutable();
  Status close();

protected:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  Status failed(const char *what) const;
  std::string path_;
  int descriptor_ = -1;

private:
  uint64_t position_ = 0;
};

/// A file that appears under its name only when it is complete. Until then it has no name, so that nothing is left of a
/// process that is killed; where the file system knows no such files, it is written beside its place. A device or a
/// pipe (/dev/null, /dev/stdout) is written as it is.
class AtomicFile : public OutputFile {
public:
  static Status create(const std::string &path, std::unique_ptr<AtomicFile> &file);
  /// Removes what was written unless commit() succeeded.
  ~AtomicFile();

  /// Gives the file its name.
  Status commit();
  /// Gives it another name of the same folder.
  Status commitAs(const std::string &path);

  /// A path that opens the file until it is committed, also for writing.
  std::string openPath() const;
  bool isNameless() const { return isNameless_; }

private:
  using OutputFile::OutputFile;
  /// Tries names beside the file until `make` gives one to something; false with errno if it cannot.
  template <typename Make> bool nameBeside(Make make);

  std::string temporary_; ///< its name, if it has one and is not in its place
  bool isNameless_ = false;
};

/// The folder of a path, "." when it has none.
std::string folderOf(const std::string &path);

} // namespace intarsia

#endif
