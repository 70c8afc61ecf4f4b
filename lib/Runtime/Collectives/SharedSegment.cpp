//===- SharedSegment.cpp - Memory that all ranks of a world map --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/SharedSegment.h"

#include "lib/Support/MachineLimits.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace intarsia::runtime {

SharedFile::~SharedFile() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

SharedFile &SharedFile::operator=(SharedFile &&other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Status SharedFile::create(SharedFile &file) {
  file = SharedFile(int(syscall(SYS_memfd_create, "intarsia-world", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  // Reading memory of a file that another process has shortened would end this one.
  if (file.descriptor_ < 0 || fcntl(file.descriptor_, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return error(ITX_IO_ERROR, "cannot make a file in memory for the world: %s", std::strerror(errno));
  return Status::success();
}

Status checkSharedMemory(uint64_t needed, uint64_t available, const char *why) {
  if (needed <= available && !why)
    return Status::success();
  return error(
      ITX_OUT_OF_MEMORY,
      "the ranks need %llu bytes of shared memory to exchange data, %llu are available%s%s: raise the limit of "
      "the container or cgroup (docker run --memory, MemoryMax), or start fewer ranks; the size of /dev/shm "
      "does not matter",
      (unsigned long long)needed, (unsigned long long)available, why ? ": " : "", why ? why : "");
}

Status SharedFile::reserve(uint64_t bytes) const {
  struct stat information;
  if (fstat(descriptor_, &information) != 0)
    return error(ITX_IO_ERROR, "the world's shared memory cannot be used: %s", std::strerror(errno));
  uint64_t present = uint64_t(information.st_size);
  if (present >= bytes)
    return Status::success();
  ITX_RETURN_IF_ERROR(checkSharedMemory(bytes - present, availableMemoryBytes()));
  int failed;
  do {
    failed = posix_fallocate(descriptor_, 0, off_t(bytes));
  } while (failed == EINTR);
  return failed ? checkSharedMemory(bytes - present, availableMemoryBytes(), std::strerror(failed)) : Status::success();
}

SharedMapping::~SharedMapping() {
  if (data_)
    munmap(data_, bytes_);
}

Status SharedMapping::map(const SharedFile &file, uint64_t offset, uint64_t bytes) {
  void *mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.descriptor(), off_t(offset));
  if (mapped == MAP_FAILED)
    return error(ITX_OUT_OF_MEMORY, "cannot map %llu bytes of the world's shared memory: %s", (unsigned long long)bytes,
                 std::strerror(errno));
  data_ = static_cast<uint8_t *>(mapped);
  bytes_ = bytes;
  return Status::success();
}

} // namespace intarsia::runtime
