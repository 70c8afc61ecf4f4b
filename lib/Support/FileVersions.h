//===- FileVersions.h - Finds out whether files that were read have changed since -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A download that is still at work, or a copy over a model in place, changes a file between two reads of it, and reads
// of its mapping give a mixture of both versions, or zeros behind a new end, without a signal. So whoever makes a file
// of others notes their versions before it reads them, and checks them before its own file gets its name.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_FILEVERSIONS_H
#define INTARSIA_LIB_SUPPORT_FILEVERSIONS_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <map>
#include <string>

namespace intarsia {

/// The files that a thread reads, each with the version that was read first. While an object lives, it takes what its
/// thread notes; of several the last one.
class FileVersions {
public:
  FileVersions();
  ~FileVersions();
  FileVersions(const FileVersions &) = delete;
  FileVersions &operator=(const FileVersions &) = delete;

  /// Notes the file at `path`, which is about to be opened. Does nothing without an object, and for what is no regular
  /// file, whose opening says what is wrong.
  static void note(const std::string &path);
  /// True for a path of a file that was noted: writing there would replace what is read.
  static bool isNoted(const std::string &path);
  /// Refuses a file that is not as it was when it was noted: its size, its time, or another file has its name. Success
  /// without an object.
  static Status check();

private:
  struct Version {
    uint64_t device, inode, bytes;
    int64_t seconds, nanoseconds; ///< when it was last written to
  };
  static bool versionOf(const std::string &path, Version &version);

  std::map<std::string, Version> versions;
  FileVersions *outer;
  static thread_local FileVersions *current;
};

} // namespace intarsia

#endif
