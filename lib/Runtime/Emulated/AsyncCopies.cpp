//===- AsyncCopies.cpp - Copies of a thread that land when it waits for them -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/AsyncCopies.h"

#include <cstring>
#include <new>

namespace intarsia::runtime {

void AsyncCopies::clear() {
  copies_.clear();
  ends_.clear();
}

bool AsyncCopies::add(void *destination, const void *source, uint32_t bytes, uint32_t sourceBytes) {
  try {
    copies_.push_back({destination, source, bytes, sourceBytes});
    return true;
  } catch (const std::bad_alloc &) {
    return false;
  }
}

bool AsyncCopies::commit() {
  try {
    ends_.push_back(copies_.size());
    return true;
  } catch (const std::bad_alloc &) {
    return false;
  }
}

void AsyncCopies::land(uint64_t groups, SharedMemory &shared, ProxyWrites &writes, uint32_t thread) {
  if (ends_.size() <= groups)
    return;
  size_t landing = ends_.size() - groups, end = ends_[landing - 1];
  for (size_t i = 0; i < end; ++i) {
    const Copy &copy = copies_[i];
    if (copy.sourceBytes != 0)
      std::memcpy(copy.destination, copy.source, copy.sourceBytes);
    std::memset(static_cast<uint8_t *>(copy.destination) + copy.sourceBytes, 0, copy.bytes - copy.sourceBytes);
    shared.noteWritten(copy.destination, copy.bytes);
    writes.write(thread, shared.offsetOf(copy.destination), copy.bytes);
  }
  copies_.erase(copies_.begin(), copies_.begin() + ptrdiff_t(end));
  ends_.erase(ends_.begin(), ends_.begin() + ptrdiff_t(landing));
  for (size_t &left : ends_)
    left -= end;
}

} // namespace intarsia::runtime
