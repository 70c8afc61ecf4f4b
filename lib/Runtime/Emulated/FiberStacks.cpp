//===- FiberStacks.cpp - Stacks for the threads of a block ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/FiberStacks.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace intarsia::runtime {

FiberStacks::FiberStacks(uint64_t bytes)
    : pageBytes_(sysconf(_SC_PAGESIZE)), bytes_((bytes + pageBytes_ - 1) / pageBytes_ * pageBytes_) {}

FiberStacks::~FiberStacks() {
  for (const Mapping &mapping : mappings_)
    munmap(mapping.address, mapping.bytes);
}

Status FiberStacks::reserve(size_t count) {
  if (count <= bottoms_.size())
    return Status::success();
  size_t added = count - bottoms_.size();
  auto refuse = [&]() {
    return error(ITX_OUT_OF_MEMORY,
                 "the emulated device cannot make %zu stacks of %llu bytes for the threads of a block: %s; let fewer "
                 "threads of the host run blocks (ITX_THREADS), or allow the process more mappings (vm.max_map_count)",
                 added, (unsigned long long)bytes_, std::strerror(errno));
  };
  uint64_t stride = bytes_ + pageBytes_;
  void *address = mmap(nullptr, added * stride, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (address == MAP_FAILED)
    return refuse();
  for (size_t i = 0; i < added; ++i)
    if (mprotect(static_cast<uint8_t *>(address) + i * stride, pageBytes_, PROT_NONE) != 0) {
      Status status = refuse();
      munmap(address, added * stride);
      return status;
    }
  mappings_.push_back({address, added * stride});
  for (size_t i = 0; i < added; ++i)
    bottoms_.push_back(static_cast<uint8_t *>(address) + i * stride + pageBytes_);
  return Status::success();
}

} // namespace intarsia::runtime
