//===- PendingReads.h - What matrix instructions read until they are waited for ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_PENDINGREADS_H
#define INTARSIA_RUNTIME_EMULATED_PENDINGREADS_H

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace intarsia::runtime {

/// The parts of shared memory that matrix instructions of a warp may still read (PTX ISA, "wgmma.wait_group"), in
/// groups. The emulator multiplies at once; a GPU does so at any time until the wait.
class PendingReads {
public:
  void clear() {
    ranges_.clear();
    ends_.clear();
  }
  /// Adds bytes that the next group reads. Returns false if the host has no memory left to note them. No exception may
  /// cross a kernel.
  [[nodiscard]] bool add(uint64_t begin, uint64_t bytes) {
    try {
      ranges_.push_back({begin, begin + bytes});
      return true;
    } catch (const std::bad_alloc &) {
      return false;
    }
  }
  /// Makes a group of what was added since the last one; false as above.
  [[nodiscard]] bool commit() {
    try {
      ends_.push_back(ranges_.size());
      return true;
    } catch (const std::bad_alloc &) {
      return false;
    }
  }
  /// Forgets the oldest groups until `groups` are left.
  void wait(uint64_t groups) {
    if (ends_.size() <= groups)
      return;
    auto done = ends_.begin() + ptrdiff_t(ends_.size() - groups);
    size_t ranges = *(done - 1);
    ranges_.erase(ranges_.begin(), ranges_.begin() + ptrdiff_t(ranges));
    ends_.erase(ends_.begin(), done);
    for (size_t &end : ends_)
      end -= ranges;
  }
  bool overlap(uint64_t begin, uint64_t bytes) const {
    for (const Range &range : ranges_)
      if (begin < range.end && range.begin < begin + bytes)
        return true;
    return false;
  }

private:
  struct Range {
    uint64_t begin, end; ///< offsets in shared memory
  };

  std::vector<Range> ranges_; ///< in order
  std::vector<size_t> ends_;  ///< of each group, in ranges_
};

} // namespace intarsia::runtime

#endif
