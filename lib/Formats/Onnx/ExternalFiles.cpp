//===- ExternalFiles.cpp - Open the files that a model names ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Onnx/ExternalFiles.h"

#include "lib/Formats/Onnx/Wire.h"
#include "lib/Support/FileVersions.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace intarsia::onnx {

static constexpr size_t longestLocation = 4095; // PATH_MAX without its end

namespace {
/// A descriptor that is closed.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
};
} // namespace

/// Opens a file below a directory. Sets errno.
static int openBelow(const std::string &directory, const std::string &name, uint64_t resolve) {
  Descriptor opened{::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (opened.number < 0)
    return -1;
  struct open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = resolve;
  return int(syscall(SYS_openat2, opened.number, name.c_str(), &how, sizeof(how)));
}

/// Opens a file that a name leads to from one of two directories, by links too, if it lies below the second one. A path
/// is compared that the system says of the descriptor, so that nobody can change where a link leads in between.
static int openAllowed(const std::string &directory, const std::string &allowed, const std::string &name,
                       std::string &place) {
  char *resolved = realpath(allowed.c_str(), nullptr);
  if (!resolved)
    return -1;
  std::string root = std::string(resolved) + (std::strcmp(resolved, "/") == 0 ? "" : "/");
  std::free(resolved);
  for (const std::string &from : {directory, allowed}) {
    Descriptor opened{openBelow(from, name, RESOLVE_NO_MAGICLINKS)};
    if (opened.number < 0)
      continue;
    char path[PATH_MAX];
    ssize_t length = readlink(("/proc/self/fd/" + std::to_string(opened.number)).c_str(), path, sizeof(path));
    if (length <= 0 || !std::string_view(path, size_t(length)).starts_with(root))
      continue;
    place.assign(path, size_t(length));
    return std::exchange(opened.number, -1);
  }
  return -1;
}

Status ExternalFiles::open(std::string_view location, const MappedFile *&file) {
  if (auto known = files_.find(location); known != files_.end()) {
    file = known->second.get();
    return Status::success();
  }
  if (location.empty() || location.size() > longestLocation || location.find('\0') != std::string_view::npos)
    return error(ITX_CORRUPT, "external data has a location of %zu bytes that is no name of a file", location.size());
  std::string name(location), shown = quoted(location);
  Descriptor opened{openBelow(directory_, name, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)};
  int problem = opened.number < 0 ? errno : 0;
  struct stat info;
  bool isLinked = opened.number >= 0 && fstat(opened.number, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink != 1;
  std::string place; // of a file that is allowed
  if ((problem || isLinked) && !weightsDirectory_.empty())
    if (int allowed = openAllowed(directory_, weightsDirectory_, name, place); allowed >= 0) {
      if (opened.number >= 0)
        close(opened.number);
      opened.number = allowed;
    }
  if (opened.number < 0) {
    const char *why = problem == EXDEV   ? "leads out of the model's directory"
                      : problem == ELOOP ? "is a symbolic link, or below one"
                                         : std::strerror(problem);
    std::string advice;
    if (problem == EXDEV || problem == ELOOP || problem == ENOENT)
      advice = weightsDirectory_.empty()
                   ? "; if you trust the file, name the directory that the data is in by --weights-dir"
                   : ", and it is not below " + weightsDirectory_ + " (--weights-dir)";
    return error(problem == ENOENT ? ITX_NOT_FOUND : ITX_IO_ERROR, "external data %s: %s%s", shown.c_str(), why,
                 advice.c_str());
  }
  if (fstat(opened.number, &info) != 0 || !S_ISREG(info.st_mode))
    return error(ITX_IO_ERROR, "external data %s: is no regular file", shown.c_str());
  if (info.st_nlink != 1 && place.empty())
    return error(ITX_IO_ERROR,
                 "external data %s: has another hard link, which may be a file outside of the model's "
                 "directory; copy it, or name its directory by --weights-dir",
                 shown.c_str());
  // The descriptor is the file, whatever its name leads to by now.
  FileVersions::note(place.empty() ? directory_ + "/" + name : place);
  std::unique_ptr<MappedFile> mapped;
  if (Status status = MappedFile::open("/proc/self/fd/" + std::to_string(opened.number), mapped); !status.ok())
    return error(status.code(), "external data %s: cannot be mapped", shown.c_str());
  file = mapped.get();
  files_.emplace(std::move(name), std::move(mapped));
  return Status::success();
}

} // namespace intarsia::onnx
