//===- ProxyWrites.h - What threads have written that other proxies may not see ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_PROXYWRITES_H
#define INTARSIA_RUNTIME_EMULATED_PROXYWRITES_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <new>
#include <optional>
#include <vector>

namespace intarsia::runtime {

/// The stores and asynchronous copies of threads to shared memory, for each 16 bytes the latest one. Matrix
/// instructions of four warps read by another proxy, and see what a thread has written only behind a fence.proxy.async
/// of that thread (PTX ISA, "Async proxy").
class ProxyWrites {
public:
  Status reset(uint64_t bytes, uint32_t threadCount) {
    try {
      units_.assign((bytes + unitBytes - 1) / unitBytes, 0);
      fences_.assign(threadCount, 0);
    } catch (const std::bad_alloc &) {
      return error(ITX_OUT_OF_MEMORY, "out of memory for what threads write to shared memory");
    }
    time_ = 0;
    return Status::success();
  }
  /// Notes bytes, which must lie inside, that a thread has written.
  void write(uint32_t thread, uint64_t offset, uint64_t bytes) { set(offset, bytes, ++time_ * threads + thread); }
  /// Notes that what lies there now was not written by a thread.
  void clear(uint64_t offset, uint64_t bytes) { set(offset, bytes, 0); }
  void fence(uint32_t thread) { fences_[thread] = ++time_; }
  /// Returns a thread that has written some of the bytes, as far as they lie inside, without a fence behind it.
  std::optional<uint32_t> unfenced(uint64_t offset, uint64_t bytes) const {
    for (uint64_t unit = offset / unitBytes; unit < units_.size() && unit * unitBytes < offset + bytes; ++unit)
      if (uint32_t thread = uint32_t(units_[unit] % threads); units_[unit] / threads > fences_[thread])
        return thread;
    return std::nullopt;
  }

private:
  static constexpr uint64_t unitBytes = 16; ///< what matrix instructions read at a time
  static constexpr uint64_t threads = 1024; ///< the most of a block

  void set(uint64_t offset, uint64_t bytes, uint64_t value) {
    for (uint64_t unit = offset / unitBytes; unit < units_.size() && unit * unitBytes < offset + bytes; ++unit)
      units_[unit] = value;
  }

  std::vector<uint64_t> units_;  ///< the time of the write, and its thread; time 0 if it was not by one
  std::vector<uint64_t> fences_; ///< the time of each thread's last one
  uint64_t time_ = 0;
};

} // namespace intarsia::runtime

#endif
