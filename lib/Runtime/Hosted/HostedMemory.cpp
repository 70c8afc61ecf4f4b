//===- HostedMemory.cpp - Memory that the host cannot reach by the device's addresses ------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/HostedMemory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace intarsia::runtime {

/// An address range that is much larger than the memory costs nothing and hardly fragments.
static constexpr uint64_t wantedExtent = uint64_t(1) << 40;
/// Room for guards, which do not count as used memory.
static constexpr uint64_t leastRoom = uint64_t(1) << 20;
/// A freed part of this many bytes goes back to the system at once.
static constexpr uint64_t largePartBytes = uint64_t(1) << 20;

static uint8_t *mapRange(uint64_t bytes, int protection) {
  void *mapped = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<uint8_t *>(mapped);
}

Status HostedMemory::reserve(const HostedNames &names, uint64_t capacity, std::unique_ptr<HostedMemory> &memory) {
  uint64_t page = sysconf(_SC_PAGESIZE);
  auto refuse = [&](const char *reason) {
    return error(ITX_OUT_OF_MEMORY,
                 "%s cannot reserve addresses for its %llu bytes of memory: %s; set %s_MEMORY_BYTES to less, or allow "
                 "the process more address space (ulimit -v)",
                 names.text, (unsigned long long)capacity, reason, names.variables);
  };
  if (capacity > uint64_t(PTRDIFF_MAX) - leastRoom - page)
    return refuse("that is more than addresses can tell apart");
  uint64_t least = (capacity + leastRoom + page - 1) / page * page;
  for (uint64_t extent = std::max(wantedExtent, least);; extent = std::max(extent / 2, least)) {
    uint8_t *addresses = mapRange(extent, PROT_NONE);
    uint8_t *bytes = addresses ? mapRange(extent, PROT_READ | PROT_WRITE) : nullptr;
    if (bytes) {
      memory.reset(new HostedMemory(names, capacity, extent, addresses, bytes));
      return Status::success();
    }
    int reason = errno;
    if (addresses)
      munmap(addresses, extent);
    if (extent == least)
      return refuse(std::strerror(reason));
  }
}

HostedMemory::~HostedMemory() {
  munmap(addresses_, extent_);
  munmap(bytes_, extent_);
}

Status HostedMemory::allocate(uint64_t bytes, void *&address) {
  address = nullptr;
  std::lock_guard lock(mutex_);
  uint64_t rounded = RangeAllocator::roundedBytes(bytes);
  std::optional<uint64_t> begin;
  if (rounded != 0 && rounded <= capacity_ - usedBytes_)
    begin = ranges_.allocate(bytes);
  if (!begin)
    return error(ITX_OUT_OF_MEMORY, "%s has no %llu bytes left of its %llu: %llu are in use (%s_MEMORY_BYTES)",
                 names_.text, (unsigned long long)bytes, (unsigned long long)capacity_, (unsigned long long)usedBytes_,
                 names_.variables);
  usedBytes_ += rounded;
  address = addresses_ + *begin;
  return Status::success();
}

bool HostedMemory::release(void *address) {
  std::lock_guard lock(mutex_);
  std::optional<uint64_t> begin = offsetOf(address), bytes;
  if (begin)
    bytes = ranges_.release(*begin);
  if (!bytes)
    return false;
  usedBytes_ -= RangeAllocator::roundedBytes(*bytes);
  if (*bytes >= largePartBytes) {
    uint64_t page = sysconf(_SC_PAGESIZE);
    uint64_t first = (*begin + page - 1) / page * page, last = (*begin + *bytes) / page * page;
    madvise(bytes_ + first, last - first, MADV_DONTNEED); // advice: the memory is free whatever the system does
  }
  return true;
}

std::optional<uint64_t> HostedMemory::offsetOf(const void *address) const {
  uintptr_t value = reinterpret_cast<uintptr_t>(address), base = reinterpret_cast<uintptr_t>(addresses_);
  if (value < base || value - base >= extent_)
    return std::nullopt;
  return value - base;
}

bool HostedMemory::resolve(const void *address, uint64_t bytes, void *&memory) const {
  std::lock_guard lock(mutex_);
  std::optional<uint64_t> offset = offsetOf(address);
  if (!offset)
    return false;
  std::optional<RangeAllocator::Part> part = ranges_.find(*offset);
  if (!part || bytes > part->bytes - (*offset - part->begin))
    return false;
  memory = bytes_ + *offset;
  return true;
}

uint64_t HostedMemory::bytesFrom(const void *address) const {
  std::lock_guard lock(mutex_);
  std::optional<uint64_t> offset = offsetOf(address);
  std::optional<RangeAllocator::Part> part;
  if (offset)
    part = ranges_.find(*offset);
  return part ? part->bytes - (*offset - part->begin) : 0;
}

std::string HostedMemory::explain(const void *address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  std::optional<uint64_t> offset = offsetOf(address);
  if (!offset)
    return format("is at %p, which is no address of %s's memory; is it the host's?", address, names_.text);
  std::optional<RangeAllocator::Part> part = ranges_.find(*offset);
  if (!part)
    return format("is at %p, where %s has nothing allocated; was it freed before its work was done?", address,
                  names_.text);
  return format("has %llu bytes from %p on, but the allocation that it begins in ends after %llu",
                (unsigned long long)bytes, address, (unsigned long long)(part->bytes - (*offset - part->begin)));
}

bool HostedMemory::overlaps(const void *address, uint64_t bytes) const {
  uintptr_t begin = reinterpret_cast<uintptr_t>(address), base = reinterpret_cast<uintptr_t>(addresses_);
  return bytes != 0 && begin < base + extent_ && (begin >= base || bytes > base - begin);
}

} // namespace intarsia::runtime
