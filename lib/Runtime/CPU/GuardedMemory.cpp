//===- GuardedMemory.cpp - Memory between pages that fault --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/GuardedMemory.h"

#include "lib/Runtime/Core/Memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace intarsia::runtime {

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
  fill_ = fill;
  std::memset(first, fill, inside);
}

GuardedMemory::GuardedMemory(GuardedMemory &&other) noexcept { *this = std::move(other); }

GuardedMemory &GuardedMemory::operator=(GuardedMemory &&other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mappingBytes_, other.mappingBytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fill_, other.fill_);
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

/// Returns true if all bytes are one; sanitizers check a comparison of memory once and a loop over bytes each time.
static bool areAll(uint8_t byte, const uint8_t *begin, const uint8_t *end) {
  return begin == end || (*begin == byte && std::memcmp(begin, begin + 1, end - begin - 1) == 0);
}

bool GuardedMemory::checkEdges() const {
  uint64_t page = sysconf(_SC_PAGESIZE);
  return areAll(fill_, mapping_ + page, data_) && areAll(fill_, data_ + bytes_, mapping_ + mappingBytes_ - page);
}

bool GuardedMemory::isNear(const void *address) const {
  auto byte = static_cast<const uint8_t *>(address);
  return byte >= mapping_ && byte < mapping_ + mappingBytes_;
}

// ---- Replaces the allocation of Memory.cpp -----------------------------------------------------------------

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
  GuardedMemory memory(bytes, GuardSide::End, /*fill=*/0xff);
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
    std::fprintf(stderr, "guard: %llu bytes of the runtime were overrun\n", (unsigned long long)found->second.bytes());
    std::abort();
  }
  blocks().all.erase(found);
}

} // namespace intarsia::runtime
