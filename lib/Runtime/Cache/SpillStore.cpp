//===- SpillStore.cpp - State of sequences that had to leave the cache --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/SpillStore.h"

#include "lib/Runtime/Tiers/WeightStream.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/uio.h>
#include <unistd.h>

namespace intarsia::runtime {

SpillStore::Entry::~Entry() {
  (memory_ ? store_.memoryBytes_ : store_.fileBytes_) -= bytes_;
  if (file_ >= 0)
    ::close(file_);
}

Status SpillStore::Entry::read(uint64_t offset, void *to, uint64_t bytes) const {
  if (memory_) {
    std::memcpy(to, memory_.get() + offset, bytes);
    return Status::success();
  }
  auto *next = static_cast<uint8_t *>(to);
  while (bytes != 0) {
    ssize_t count = ::pread(file_, next, bytes, off_t(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return error(ITX_IO_ERROR, "%s: what was written there cannot be read again: %s", store_.limits_.folder.c_str(),
                   count < 0 ? std::strerror(errno) : "the file has become shorter");
    next += count;
    offset += uint64_t(count);
    bytes -= uint64_t(count);
  }
  return Status::success();
}

Status SpillStore::create(Limits limits, std::unique_ptr<SpillStore> &store) {
  std::unique_ptr<SpillStore> result(new SpillStore(std::move(limits)));
  if (!result->limits_.folder.empty()) {
    int file = -1;
    ITX_RETURN_IF_ERROR(result->makeFile(file));
    ::close(file);
  }
  store = std::move(result);
  return Status::success();
}

/// Makes a file without a name.
Status SpillStore::makeFile(int &file) const {
  file = ::open(limits_.folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) { // a file system that has only files with names
    std::string path = limits_.folder + "/intarsia-spill-XXXXXX";
    file = ::mkostemp(path.data(), O_CLOEXEC);
    if (file >= 0)
      ::unlink(path.c_str());
  }
  if (file < 0 && (errno == EMFILE || errno == ENFILE))
    return error(ITX_CACHE_FULL,
                 "%s: a sequence that leaves the cache cannot be written: %s: raise the limit (ulimit "
                 "-n), or keep fewer sequences",
                 limits_.folder.c_str(), std::strerror(errno));
  if (file < 0)
    return error(ITX_INVALID_ARGUMENT,
                 "%s: no file for sequences that leave the cache can be made there: %s: give an existing folder that "
                 "this process may write to",
                 limits_.folder.c_str(), std::strerror(errno));
  return Status::success();
}

Status SpillStore::writeFile(const std::vector<Piece> &pieces, int file, bool &isFull) const {
  std::vector<iovec> parts;
  for (const Piece &piece : pieces)
    if (piece.bytes != 0)
      parts.push_back({const_cast<void *>(piece.data), piece.bytes});
  for (size_t next = 0; next < parts.size();) {
    ssize_t count = ::writev(file, &parts[next], int(std::min<size_t>(parts.size() - next, IOV_MAX)));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      isFull = count == 0 || errno == ENOSPC || errno == EDQUOT;
      return error(ITX_IO_ERROR, "%s: a sequence that leaves the cache cannot be written: %s%s", limits_.folder.c_str(),
                   count < 0 ? std::strerror(errno) : "nothing was written",
                   isFull || errno == EFBIG ? ": free space there, or limit what may be spilled" : "");
    }
    for (auto left = size_t(count); left != 0;) {
      size_t step = std::min(left, parts[next].iov_len);
      parts[next].iov_base = static_cast<uint8_t *>(parts[next].iov_base) + step;
      parts[next].iov_len -= step;
      left -= step;
      next += parts[next].iov_len == 0;
    }
  }
  return Status::success();
}

Status SpillStore::put(const std::vector<Piece> &pieces, std::unique_ptr<Entry> &entry, bool &isFull) {
  uint64_t bytes = 0;
  for (const Piece &piece : pieces)
    bytes += piece.bytes;
  isFull = false;
  std::unique_ptr<uint8_t[]> memory;
  if (bytes <= limits_.memoryBytes - memoryBytes_) {
    makeRoomForAllocation(bytes);
    memory.reset(new (std::nothrow) uint8_t[std::max<uint64_t>(bytes, 1)]);
  }
  if (memory) {
    uint8_t *to = memory.get();
    for (const Piece &piece : pieces) {
      std::memcpy(to, piece.data, piece.bytes);
      to += piece.bytes;
    }
    entry.reset(new Entry(*this, bytes));
    entry->memory_ = std::move(memory);
    memoryBytes_ += bytes;
    return Status::success();
  }
  if (limits_.folder.empty() || (limits_.fileBytes != 0 && bytes > limits_.fileBytes - fileBytes_)) {
    // Room that others give back is of use to what fits an empty store.
    bool fitsFiles = !limits_.folder.empty() && (limits_.fileBytes == 0 || bytes <= limits_.fileBytes);
    isFull = fitsFiles || bytes <= limits_.memoryBytes;
    return error(
        ITX_CACHE_FULL,
        "a sequence of %llu bytes leaves the cache, for which %llu bytes of memory and %llu of files are left: "
        "let it have more",
        (unsigned long long)bytes, (unsigned long long)(limits_.memoryBytes - memoryBytes_),
        (unsigned long long)(limits_.folder.empty() ? 0 : limits_.fileBytes - fileBytes_));
  }
  std::unique_ptr<Entry> made(new Entry(*this, bytes));
  fileBytes_ += bytes; // the entry gives them back
  Status status = makeFile(made->file_);
  if (!status.ok()) {
    isFull = status.code() == ITX_CACHE_FULL; // files of others give theirs back
    return status;
  }
  ITX_RETURN_IF_ERROR(writeFile(pieces, made->file_, isFull));
  entry = std::move(made);
  return Status::success();
}

} // namespace intarsia::runtime
