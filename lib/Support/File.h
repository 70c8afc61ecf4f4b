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

/// A part of a file, mapped read-only. If another process shortens the file, reading memory behind its new end raises
/// SIGBUS.
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
  /// Refuses a file that has changed its size since it was mapped. A file whose name now belongs to another file is
  /// still the mapped one. Checks nothing in a process that has closed descriptors which it did not open.
  Status checkSize() const;
  /// Where the mapped part begins in the file.
  uint64_t offset() const { return offset_; }
  /// Opens the same file once more for reading, with further flags of open(); returns its descriptor, or -1 with errno.
  int openAgain(int flags) const;

private:
  MappedFile() = default;

  std::string path_;
  int descriptor_ = -1;
  const uint8_t *data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t offset_ = 0;
  uint64_t fileBytes_ = 0; // of the whole file, when it was opened
  uint64_t device_ = 0, inode_ = 0;
};

/// Returns an error if no file can be made at `path`: the folder is missing or not writable, or `path` is a folder.
Status checkWritable(const std::string &path);

/// Returns true if writing to one path would replace the file at the other; links and other spellings of a path are
/// followed. Writing does not replace devices and pipes, so two paths to one of them are not the same file.
bool isSameFile(const std::string &first, const std::string &second);

/// A file that is written from its beginning.
class OutputFile {
public:
  /// Makes the file, or empties an existing one.
  static Status create(const std::string &path, std::unique_ptr<OutputFile> &file);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  Status write(const void *data, uint64_t bytes);
  /// Writes zero bytes up to the next multiple of `alignment`.
  Status alignTo(uint64_t alignment);
  uint64_t position() const { return position_; }
  /// Gives execute permission to everyone who has read permission.
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

/// A file that appears under its name only when it is complete. Until then it has no name, so that a killed process
/// leaves nothing; on file systems without nameless files it has a temporary name in the same folder. A device or a
/// pipe (/dev/null, /dev/stdout) is written directly.
class AtomicFile : public OutputFile {
public:
  static Status create(const std::string &path, std::unique_ptr<AtomicFile> &file);
  /// Removes the file unless commit() succeeded.
  ~AtomicFile();

  /// Gives the file its name.
  Status commit();
  /// Gives the file another name in the same folder.
  Status commitAs(const std::string &path);

  /// Returns a path that opens the file until it is committed, also for writing.
  std::string openPath() const;
  bool isNameless() const { return isNameless_; }

private:
  using OutputFile::OutputFile;
  /// Tries temporary names in the file's folder until `make` succeeds with one; returns false, with errno, if it
  /// cannot.
  template <typename Make> bool nameBeside(Make make);

  std::string temporary_; ///< temporary name of the file, if it has one
  bool isNameless_ = false;
};

/// Returns the folder of a path, "." if it has none.
std::string folderOf(const std::string &path);

} // namespace intarsia

#endif
