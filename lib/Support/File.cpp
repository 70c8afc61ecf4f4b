//===- File.cpp - Files mapped into memory and written safely -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Support/File.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace intarsia {

static Status osError(const std::string &path, const char *what) {
  int number = errno;
  return error(number == ENOENT ? ITX_NOT_FOUND : ITX_IO_ERROR, "%s: %s: %s", path.c_str(), what,
               std::strerror(number));
}

Status MappedFile::open(const std::string &path, std::unique_ptr<MappedFile> &file, uint64_t offset, uint64_t bytes) {
  std::unique_ptr<MappedFile> result(new MappedFile);
  result->path_ = path;
  // O_NONBLOCK: opening a pipe without a writer would never return. It does not affect files.
  result->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (result->descriptor_ < 0)
    return osError(path, "cannot open");
  struct stat info;
  if (fstat(result->descriptor_, &info) != 0)
    return osError(path, "cannot stat");
  if (!S_ISREG(info.st_mode))
    return error(ITX_IO_ERROR, "%s: is %s, not a file", path.c_str(), S_ISDIR(info.st_mode) ? "a folder" : "special");
  uint64_t total = result->fileBytes_ = info.st_size;
  result->offset_ = offset;
  result->device_ = info.st_dev;
  result->inode_ = info.st_ino;
  if (offset > total || (bytes != toTheEnd && bytes > total - offset))
    return error(ITX_CORRUPT, "%s: has %llu bytes, %llu from %llu on were expected: is it truncated?", path.c_str(),
                 (unsigned long long)total, (unsigned long long)bytes, (unsigned long long)offset);
  uint64_t size = bytes == toTheEnd ? total - offset : bytes;
  if (size != 0) {
    void *address = mmap(nullptr, size, PROT_READ, MAP_SHARED, result->descriptor_, offset);
    if (address == MAP_FAILED)
      return osError(path, "cannot map");
    result->data_ = static_cast<const uint8_t *>(address);
    result->size_ = size;
  }
  file = std::move(result);
  return Status::success();
}

MappedFile::~MappedFile() {
  if (data_)
    munmap(const_cast<uint8_t *>(data_), size_);
  if (descriptor_ >= 0)
    close(descriptor_);
}

int MappedFile::openAgain(int flags) const {
  // The name may be another file's by now.
  return ::open(("/proc/self/fd/" + std::to_string(descriptor_)).c_str(), O_RDONLY | O_CLOEXEC | flags);
}

Status MappedFile::checkSize() const {
  struct stat info;
  // Processes that become daemons close all descriptors, and other files get their numbers. The mapping stays.
  if (fstat(descriptor_, &info) != 0 || uint64_t(info.st_dev) != device_ || uint64_t(info.st_ino) != inode_)
    return Status::success();
  if (uint64_t(info.st_size) == fileBytes_)
    return Status::success();
  return error(ITX_CORRUPT,
               "%s: has %llu bytes, it had %llu when it was opened: it was written to while it is in use; give a new "
               "version its name by renaming it, and load again",
               path_.c_str(), (unsigned long long)info.st_size, (unsigned long long)fileBytes_);
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
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return error(ITX_IO_ERROR, "%s: cannot be written: it is a folder", path.c_str());
    if (access(path.c_str(), W_OK) != 0)
      return error(ITX_IO_ERROR, "%s: cannot be written: %s", path.c_str(), std::strerror(errno));
    if (!S_ISREG(info.st_mode))
      return Status::success(); // a device or a pipe is not replaced, so its folder need not be writable
  }
  std::string folder = folderOf(path);
  if (stat(folder.c_str(), &info) != 0)
    return error(ITX_IO_ERROR, "%s: cannot be written: folder '%s': %s", path.c_str(), folder.c_str(),
                 std::strerror(errno));
  if (!S_ISDIR(info.st_mode))
    return error(ITX_IO_ERROR, "%s: cannot be written: '%s' is not a folder", path.c_str(), folder.c_str());
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return error(ITX_IO_ERROR, "%s: cannot be written: folder '%s': %s", path.c_str(), folder.c_str(),
                 std::strerror(errno));
  return Status::success();
}

bool isSameFile(const std::string &first, const std::string &second) {
  struct stat firstInfo, secondInfo;
  bool firstExists = stat(first.c_str(), &firstInfo) == 0, secondExists = stat(second.c_str(), &secondInfo) == 0;
  if (firstExists != secondExists)
    return false;
  if (firstExists)
    return S_ISREG(firstInfo.st_mode) && firstInfo.st_dev == secondInfo.st_dev && firstInfo.st_ino == secondInfo.st_ino;
  auto nameOf = [](const std::string &path) { return path.substr(path.rfind('/') + 1); };
  return nameOf(first) == nameOf(second) && stat(folderOf(first).c_str(), &firstInfo) == 0 &&
         stat(folderOf(second).c_str(), &secondInfo) == 0 && firstInfo.st_dev == secondInfo.st_dev &&
         firstInfo.st_ino == secondInfo.st_ino;
}

Status OutputFile::failed(const char *what) const { return osError(path_, what); }

Status OutputFile::create(const std::string &path, std::unique_ptr<OutputFile> &file) {
  std::unique_ptr<OutputFile> result(new OutputFile(path));
  result->descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (result->descriptor_ < 0) {
    Status status = result->failed("cannot be written");
    ITX_RETURN_IF_ERROR(checkWritable(path)); // its message may be more precise
    return status;
  }
  file = std::move(result);
  return Status::success();
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

Status OutputFile::write(const void *data, uint64_t bytes) {
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

Status OutputFile::alignTo(uint64_t alignment) {
  static const char zeros[4096] = {};
  uint64_t missing = (alignment - position_ % alignment) % alignment;
  while (missing != 0) {
    uint64_t part = missing < sizeof(zeros) ? missing : sizeof(zeros);
    ITX_RETURN_IF_ERROR(write(zeros, part));
    missing -= part;
  }
  return Status::success();
}

Status OutputFile::makeExecutable() {
  struct stat info;
  if (fstat(descriptor_, &info) != 0 || fchmod(descriptor_, info.st_mode | (info.st_mode & 0444) >> 2) != 0)
    return failed("cannot set permissions");
  return Status::success();
}

Status OutputFile::close() {
  return ::close(std::exchange(descriptor_, -1)) == 0 ? Status::success() : failed("cannot be written");
}

template <typename Make> bool AtomicFile::nameBeside(Make make) {
  static std::atomic<unsigned> count{0};
  bool made;
  do {
    temporary_ = format("%s.%d-%u.tmp", path_.c_str(), int(getpid()), count++);
    made = make(temporary_.c_str());
  } while (!made && errno == EEXIST);
  if (!made)
    temporary_.clear();
  return made;
}

Status AtomicFile::create(const std::string &path, std::unique_ptr<AtomicFile> &file) {
  ITX_RETURN_IF_ERROR(checkWritable(path));
  std::unique_ptr<AtomicFile> result(new AtomicFile(path));
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    result->descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    // open, unlike mkstemp, gives the file the permissions that the umask leaves; reading the umask would change it for
    // other threads.
    int &descriptor = result->descriptor_;
    // Its name will be asked for through /proc.
    if (access("/proc/self/fd", X_OK) == 0)
      descriptor = ::open(folderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    result->isNameless_ = descriptor >= 0;
    if (!result->isNameless_)
      result->nameBeside([&](const char *name) {
        return (descriptor = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) >= 0;
      });
  }
  if (result->descriptor_ < 0)
    return result->failed("cannot be written");
  file = std::move(result);
  return Status::success();
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty())
    unlink(temporary_.c_str());
}

std::string AtomicFile::openPath() const {
  return !temporary_.empty() ? temporary_ : isNameless_ ? format("/proc/self/fd/%d", descriptor_) : path_;
}

Status AtomicFile::commitAs(const std::string &path) {
  path_ = path;
  return commit();
}

Status AtomicFile::commit() {
  if (isNameless_) {
    // A rename replaces an existing file, a link does not.
    std::string self = openPath();
    auto link = [&](const char *name) {
      return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    };
    if (!link(path_.c_str()) && (errno != EEXIST || !nameBeside(link)))
      return failed("cannot be given its name");
  }
  ITX_RETURN_IF_ERROR(close());
  if (!temporary_.empty() && rename(temporary_.c_str(), path_.c_str()) != 0)
    return failed("cannot be renamed into place");
  temporary_.clear();
  return Status::success();
}

} // namespace intarsia
