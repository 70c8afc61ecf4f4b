//===- FiberStacks.h - Stacks for the threads of a block --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_FIBERSTACKS_H
#define INTARSIA_RUNTIME_EMULATED_FIBERSTACKS_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <vector>

namespace intarsia::runtime {

/// Stacks of one size, each below a page without access, so that a stack that overflows faults and changes nothing.
class FiberStacks {
public:
  /// `bytes` of each stack; rounded up to pages.
  explicit FiberStacks(uint64_t bytes);
  ~FiberStacks();
  FiberStacks(const FiberStacks &) = delete;
  FiberStacks &operator=(const FiberStacks &) = delete;

  /// Makes sure that there are at least so many stacks. Those that exist stay where they are.
  Status reserve(size_t count);
  uint64_t bytes() const { return bytes_; }
  /// Returns the lowest byte of a stack.
  uint8_t *bottom(size_t index) const { return bottoms_[index]; }

private:
  struct Mapping {
    void *address;
    uint64_t bytes;
  };

  const uint64_t pageBytes_;
  const uint64_t bytes_;
  std::vector<Mapping> mappings_;
  std::vector<uint8_t *> bottoms_;
};

} // namespace intarsia::runtime

#endif
