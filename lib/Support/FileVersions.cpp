//===- FileVersions.cpp - Finds out whether files that were read have changed since -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/FileVersions.h"

#include <ctime>
#include <sys/stat.h>

namespace intarsia {

thread_local FileVersions *FileVersions::current = nullptr;

FileVersions::FileVersions() : outer(current) { current = this; }
FileVersions::~FileVersions() { current = outer; }

bool FileVersions::versionOf(const std::string &path, Version &version) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return false;
  version = {uint64_t(info.st_dev), uint64_t(info.st_ino), uint64_t(info.st_size), int64_t(info.st_mtim.tv_sec),
             int64_t(info.st_mtim.tv_nsec)};
  return true;
}

/// Waits until a write to a file that was written to at this time would give it another one: the clock of files stands
/// still for some milliseconds. A time that lies further ahead is another machine's.
static void waitForNextTime(int64_t seconds, int64_t nanoseconds) {
  constexpr int64_t second = 1'000'000'000, step = second / 1000, longest = 20 * step;
  for (;;) {
    timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (seconds > now.tv_sec + 1 || seconds < now.tv_sec - 1)
      return;
    int64_t ahead = (seconds - now.tv_sec) * second + nanoseconds - now.tv_nsec;
    if (ahead < 0 || ahead > longest)
      return;
    timespec pause = {0, step};
    nanosleep(&pause, nullptr);
  }
}

void FileVersions::note(const std::string &path) {
  Version version;
  if (!current || current->versions.count(path) != 0 || !versionOf(path, version))
    return;
  current->versions.emplace(path, version);
  waitForNextTime(version.seconds, version.nanoseconds);
}

bool FileVersions::isNoted(const std::string &path) {
  Version version;
  if (!current || !versionOf(path, version))
    return false;
  for (const auto &[noted, read] : current->versions)
    if (read.device == version.device && read.inode == version.inode)
      return true;
  return false;
}

Status FileVersions::check() {
  if (!current)
    return Status::success();
  for (const auto &[path, read] : current->versions) {
    Version now;
    std::string what;
    if (!versionOf(path, now))
      what = "was removed";
    else if (now.device != read.device || now.inode != read.inode)
      what = "was replaced by another file";
    else if (now.bytes != read.bytes)
      what = format("was written to and has %llu bytes, not %llu any more,", (unsigned long long)now.bytes,
                    (unsigned long long)read.bytes);
    else if (now.seconds != read.seconds || now.nanoseconds != read.nanoseconds)
      what = "was written to";
    else
      continue;
    return error(ITX_IO_ERROR,
                 "%s: %s while it was read, so that the result would be of no version of it and is not kept: try again "
                 "when nothing writes to it (is a download still at work?)",
                 path.c_str(), what.c_str());
  }
  return Status::success();
}

} // namespace intarsia
