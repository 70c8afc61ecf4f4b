//===- PagedFile.cpp - Read pages of a file past the page cache ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Tiers/PagedFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace intarsia::runtime {

PagedFile::~PagedFile() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

Status PagedFile::open(const MappedFile &mapped, const std::string &name) {
  name_ = name;
  descriptor_ = mapped.openAgain(O_DIRECT);
  isDirect_ = descriptor_ >= 0;
  if (!isDirect_ && errno == EINVAL)
    descriptor_ = mapped.openAgain(0);
  if (descriptor_ < 0)
    return error(ITX_IO_ERROR, "%s: cannot be opened once more to be read: %s", name.c_str(), std::strerror(errno));
  struct stat info;
  if (fstat(descriptor_, &info) != 0)
    return error(ITX_IO_ERROR, "%s: cannot stat: %s", name.c_str(), std::strerror(errno));
  bytes_ = uint64_t(info.st_size);
  return Status::success();
}

Status PagedFile::read(uint64_t offset, uint64_t bytes, uint8_t *destination) const {
  uint64_t wanted = std::min(bytes, bytes_ - std::min(offset, bytes_)); // the last page may be cut
  for (uint64_t done = 0; done < wanted;) {
    ssize_t got = pread(descriptor_, destination + done, bytes - done, off_t(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return error(ITX_IO_ERROR, "%s: cannot read %llu bytes from byte %llu on: %s", name_.c_str(),
                   (unsigned long long)(bytes - done), (unsigned long long)(offset + done), std::strerror(errno));
    if (got == 0)
      return error(ITX_CORRUPT, "%s: ends at byte %llu, %llu were expected: it was written to while it is in use",
                   name_.c_str(), (unsigned long long)(offset + done), (unsigned long long)(offset + wanted));
    done += uint64_t(got);
  }
  if (!isDirect_)
    posix_fadvise(descriptor_, off_t(offset), off_t(bytes), POSIX_FADV_DONTNEED);
  return Status::success();
}

} // namespace intarsia::runtime
