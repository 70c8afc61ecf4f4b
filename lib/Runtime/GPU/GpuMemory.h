//===- GpuMemory.h - Memory of a GPU ----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUMEMORY_H
#define INTARSIA_RUNTIME_GPU_GPUMEMORY_H

#include "lib/Runtime/GPU/GpuState.h"

#include <map>

namespace intarsia::runtime {

/// Allocations of a device, from a pool of its own where the driver has pools. A pool keeps freed memory, so that the
/// next call finds it without asking the system; it gives it back when an allocation would fail. All members may be
/// called from several threads at once, which have entered the device but for owns().
class GpuMemory {
public:
  GpuMemory(GpuDriver &driver, GpuState &state, std::string device) : driver_(driver), state_(state), device_(device) {}

  /// Makes the pool and the stream that allocations are ordered by.
  Status start(int device, uint64_t totalBytes);

  /// Allocates memory that any stream may use at once.
  Status allocate(uint64_t bytes, void *&address);
  /// Frees memory of allocate() that no work uses. Returns false if no allocation begins there.
  bool release(void *address);
  /// Returns true if all the bytes lie in one allocation.
  bool owns(const void *address, uint64_t bytes) const;

  /// Allocates memory for the work of one stream; `what` says what for.
  Status allocateFor(void *stream, uint64_t bytes, const std::string &what, void *&address);
  /// Frees memory of allocateFor() after the work that the stream has now.
  Status releaseAfter(void *stream, void *address);

private:
  Status allocateIn(void *stream, uint64_t bytes, const std::string &what, void *&address);
  Status synchronize(void *stream);
  Status outOfMemory(uint64_t bytes, const std::string &what, const std::string &reason);

  GpuDriver &driver_;
  GpuState &state_;
  const std::string device_;
  uint64_t totalBytes_ = 0;
  void *pool_ = nullptr;   ///< null: the driver has none
  void *stream_ = nullptr; ///< of allocate() and release(); nothing else runs there
  void *event_ = nullptr;  ///< guarded by eventMutex_
  std::mutex eventMutex_;
  mutable std::mutex mutex_;
  std::map<uintptr_t, uint64_t> allocations_; ///< bytes by the first address
};

} // namespace intarsia::runtime

#endif
