//===- GuardedMemory.cpp - Memory between pages that fault --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/GuardedMemory.h"

#include "lib/Runtime/Core/Memory.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace intarsia::runtime {

/// NaN as a float of any width, and an index that is out of bounds.
static constexpr uint8_t edgePattern = 0xff;

GuardedMemory::GuardedMemory(uint64_t bytes, GuardSide side, uint8_t fill) {
  uint64_t page = sysconf(_SC_PAGESIZE);
  if (bytes > uint64_t(PTRDIFF_MAX) - 4 * page)
    return;
  uint64_t inside = (bytes + page - 1) / page * page, all = inside + 2 * page;
  void *mapping = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return;
  mapping_ = static_cast<uint8_t *>(mapping);
  mappingBytes_ = all;
  uint8_t *first = mapping_ + page;
  if (inside != 0 && mprotect(first, inside, PROT_READ | PROT_WRITE) != 0)
    return;
  uint64_t aligned = (bytes + ITX_BUFFER_ALIGNMENT - 1) / ITX_BUFFER_ALIGNMENT * ITX_BUFFER_ALIGNMENT;
  data_ = side == GuardSide::Begin ? first : first + inside - aligned;
  bytes_ = bytes;
  std::memset(first, edgePattern, data_ - first);
  std::memset(data_, fill, bytes);
  std::memset(data_ + bytes, edgePattern, first + inside - (data_ + bytes));
}

GuardedMemory::GuardedMemory(GuardedMemory &&other) noexcept { *this = std::move(other); }

GuardedMemory &GuardedMemory::operator=(GuardedMemory &&other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mappingBytes_, other.mappingBytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedMemory::~GuardedMemory() {
  if (mapping_)
    munmap(mapping_, mappingBytes_);
}

void GuardedMemory::makeReadOnly() {
  uint64_t page = sysconf(_SC_PAGESIZE);
  mprotect(mapping_ + page, mappingBytes_ - 2 * page, PROT_READ);
}

bool GuardedMemory::checkEdges() const {
  uint64_t page = sysconf(_SC_PAGESIZE);
  auto isPattern = [](uint8_t byte) { return byte == edgePattern; };
  return std::all_of(mapping_ + page, data_, isPattern) &&
         std::all_of(data_ + bytes_, mapping_ + mappingBytes_ - page, isPattern);
}

bool GuardedMemory::isNear(const void *address) const {
  auto byte = static_cast<const uint8_t *>(address);
  return byte >= mapping_ && byte < mapping_ + mappingBytes_;
}

// ---- In the place of Memory.cpp's allocation ---------------------------------------------------------------

namespace {
struct Blocks {
  std::mutex mutex;
  std::map<void *, GuardedMemory> all;
};
} // namespace

/// Never destroyed: results may be freed after the process's static objects are gone.
static Blocks &blocks() {
  static Blocks *blocks = new Blocks;
  return *blocks;
}

void *allocateAligned(uint64_t bytes) {
  GuardedMemory memory(bytes, GuardSide::End, edgePattern);
  void *data = memory.data();
  if (data) {
    std::lock_guard lock(blocks().mutex);
    blocks().all[data] = std::move(memory);
  }
  return data;
}

void freeAligned(void *data) {
  if (!data)
    return;
  std::lock_guard lock(blocks().mutex);
  auto found = blocks().all.find(data);
  if (!found->second.checkEdges()) {
    std::fprintf(stderr, "guard: %llu bytes of the runtime were overrun\n",
                 (unsigned long long)found->second.bytes());
    std::abort();
  }
  blocks().all.erase(found);
}

} // namespace intarsia::runtime
