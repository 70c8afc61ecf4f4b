//===- File.cpp - Files mapped into memory and written safely -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/File.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace intarsia::runtime {

static Status osError(const std::string &path, const char *what) {
  int number = errno;
  return error(number == ENOENT ? ITX_NOT_FOUND : ITX_IO_ERROR, "%s: %s: %s", path.c_str(), what,
               std::strerror(number));
}

Status MappedFile::open(const std::string &path, std::unique_ptr<MappedFile> &file, uint64_t offset, uint64_t bytes) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return osError(path, "cannot open");
  struct stat info;
  if (fstat(descriptor, &info) != 0) {
    Status status = osError(path, "cannot stat");
    close(descriptor);
    return status;
  }
  if (!S_ISREG(info.st_mode)) {
    close(descriptor);
    return error(ITX_IO_ERROR, "%s: is %s, not a file", path.c_str(), S_ISDIR(info.st_mode) ? "a folder" : "special");
  }
  uint64_t total = info.st_size;
  if (offset > total || (bytes != toTheEnd && bytes > total - offset)) {
    close(descriptor);
    return error(ITX_CORRUPT, "%s: has %llu bytes, %llu from %llu on were expected: is it truncated?", path.c_str(),
                 (unsigned long long)total, (unsigned long long)bytes, (unsigned long long)offset);
  }
  std::unique_ptr<MappedFile> result(new MappedFile);
  result->size_ = bytes == toTheEnd ? total - offset : bytes;
  if (result->size_ != 0) {
    void *address = mmap(nullptr, result->size_, PROT_READ, MAP_SHARED, descriptor, offset);
    if (address == MAP_FAILED) {
      result->size_ = 0;
      Status status = osError(path, "cannot map");
      close(descriptor);
      return status;
    }
    result->data_ = static_cast<const uint8_t *>(address);
  }
  close(descriptor);
  file = std::move(result);
  return Status::success();
}

MappedFile::~MappedFile() {
  if (data_)
    munmap(const_cast<uint8_t *>(data_), size_);
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status checkWritable(const std::string &path) {
  if (path.empty())
    return error(ITX_INVALID_ARGUMENT, "the output path is empty");
  std::string folder = folderOf(path);
  struct stat info;
  if (stat(folder.c_str(), &info) != 0)
    return error(ITX_IO_ERROR, "%s: cannot be written: folder '%s': %s", path.c_str(), folder.c_str(),
                 std::strerror(errno));
  if (!S_ISDIR(info.st_mode))
    return error(ITX_IO_ERROR, "%s: cannot be written: '%s' is not a folder", path.c_str(), folder.c_str());
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return error(ITX_IO_ERROR, "%s: cannot be written: folder '%s': %s", path.c_str(), folder.c_str(),
                 std::strerror(errno));
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return error(ITX_IO_ERROR, "%s: cannot be written: it is a folder", path.c_str());
    if (S_ISREG(info.st_mode) && access(path.c_str(), W_OK) != 0)
      return error(ITX_IO_ERROR, "%s: cannot be written: %s", path.c_str(), std::strerror(errno));
  }
  return Status::success();
}

Status AtomicFile::failed(const char *what) const { return osError(path_, what); }

Status AtomicFile::create(const std::string &path, std::unique_ptr<AtomicFile> &file, bool executable) {
  ITX_RETURN_IF_ERROR(checkWritable(path));
  std::unique_ptr<AtomicFile> result(new AtomicFile);
  result->path_ = path;
  result->executable_ = executable;
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    // A device or a pipe (/dev/null, /dev/stdout) is written in place: renaming would replace it.
    result->descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (result->descriptor_ < 0)
      return result->failed("cannot be written");
  } else {
    result->temporary_ = path + ".XXXXXX";
    result->descriptor_ = mkostemp(result->temporary_.data(), O_CLOEXEC);
    if (result->descriptor_ < 0) {
      result->temporary_.clear();
      return result->failed("cannot be written");
    }
  }
  file = std::move(result);
  return Status::success();
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0)
    close(descriptor_);
  if (!temporary_.empty())
    unlink(temporary_.c_str());
}

Status AtomicFile::write(const void *data, uint64_t bytes) {
  const char *from = static_cast<const char *>(data);
  while (bytes != 0) {
    ssize_t written = ::write(descriptor_, from, bytes < (1u << 30) ? bytes : (1u << 30));
    if (written < 0) {
      if (errno == EINTR)
        continue;
      return failed("cannot be written");
    }
    from += written;
    bytes -= written;
    position_ += written;
  }
  return Status::success();
}

Status AtomicFile::alignTo(uint64_t alignment) {
  static const char zeros[4096] = {};
  uint64_t missing = (alignment - position_ % alignment) % alignment;
  while (missing != 0) {
    uint64_t part = missing < sizeof(zeros) ? missing : sizeof(zeros);
    ITX_RETURN_IF_ERROR(write(zeros, part));
    missing -= part;
  }
  return Status::success();
}

Status AtomicFile::commit() {
  if (!temporary_.empty()) {
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(descriptor_, (executable_ ? 0777 : 0666) & ~mask) != 0)
      return failed("cannot set permissions");
  }
  int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0)
    return failed("cannot be written");
  if (!temporary_.empty() && rename(temporary_.c_str(), path_.c_str()) != 0)
    return failed("cannot be renamed into place");
  temporary_.clear();
  return Status::success();
}

} // namespace intarsia::runtime
