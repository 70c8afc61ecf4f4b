//===- ExternalFiles.cpp - Open the files that a model names ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Onnx/ExternalFiles.h"

#include "lib/Support/FileVersions.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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

Status ExternalFiles::open(std::string_view location, const MappedFile *&file) {
  if (auto known = files_.find(location); known != files_.end()) {
    file = known->second.get();
    return Status::success();
  }
  if (location.empty() || location.size() > longestLocation || location.find('\0') != std::string_view::npos)
    return error(ITX_CORRUPT, "external data has a location of %zu bytes that is no name of a file", location.size());
  std::string name(location);
  Descriptor directory{::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (directory.number < 0)
    return error(ITX_IO_ERROR, "%s: cannot open: %s", directory_.c_str(), std::strerror(errno));
  struct open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  Descriptor opened{int(syscall(SYS_openat2, directory.number, name.c_str(), &how, sizeof(how)))};
  if (opened.number < 0) {
    const char *why = errno == EXDEV   ? "leads out of the model's directory"
                      : errno == ELOOP ? "is a symbolic link, or below one"
                                       : std::strerror(errno);
    return error(errno == ENOENT ? ITX_NOT_FOUND : ITX_IO_ERROR, "external data '%s': %s", name.c_str(), why);
  }
  struct stat info;
  if (fstat(opened.number, &info) != 0 || !S_ISREG(info.st_mode))
    return error(ITX_IO_ERROR, "external data '%s': is no regular file", name.c_str());
  if (info.st_nlink != 1)
    return error(ITX_IO_ERROR,
                 "external data '%s': has another hard link, which may be a file outside of the model's "
                 "directory; copy it",
                 name.c_str());
  FileVersions::note(directory_ + "/" + name);
  // The descriptor is the file, whatever its name leads to by now.
  std::unique_ptr<MappedFile> mapped;
  if (Status status = MappedFile::open("/proc/self/fd/" + std::to_string(opened.number), mapped); !status.ok())
    return error(status.code(), "external data '%s': cannot be mapped", name.c_str());
  file = mapped.get();
  files_.emplace(std::move(name), std::move(mapped));
  return Status::success();
}

} // namespace intarsia::onnx
