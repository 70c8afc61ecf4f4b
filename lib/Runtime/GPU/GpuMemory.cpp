//===- GpuMemory.cpp - Memory of a GPU --------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuMemory.h"

#include <algorithm>

namespace intarsia::runtime {

Status GpuMemory::start(int device, uint64_t totalBytes) {
  totalBytes_ = totalBytes;
  ITX_RETURN_IF_ERROR(state_.check(driver_.createStream(stream_), "make a stream for its memory"));
  ITX_RETURN_IF_ERROR(state_.check(driver_.createEvent(/*isTimed=*/false, event_), "make an event for its memory"));
  GpuResult result = driver_.createPool(device, pool_);
  if (result.failure == GpuFailure::Unsupported) {
    pool_ = nullptr;
    return Status::success();
  }
  return state_.check(result, "make a pool of its memory");
}

/// Returns the error for a lack of memory: how much was asked for, how much there is.
Status GpuMemory::outOfMemory(uint64_t bytes, const std::string &what, const std::string &reason) {
  uint64_t freeBytes = 0, totalBytes = totalBytes_;
  bool isKnown = driver_.memoryInfo(freeBytes, totalBytes).ok();
  uint64_t used = 0;
  {
    std::lock_guard lock(mutex_);
    for (const auto &[begin, size] : allocations_)
      used += size;
  }
  std::string left =
      isKnown ? format("%llu of its %llu are free", (unsigned long long)freeBytes, (unsigned long long)totalBytes)
              : format("it has %llu", (unsigned long long)totalBytes);
  return error(ITX_OUT_OF_MEMORY,
               "the device '%s' has no %llu bytes left for %s: %s, %llu are in use by this process's tensors and "
               "weights (%s); use smaller batches, or free what is on the device, also of other processes",
               device_.c_str(), (unsigned long long)bytes, what.c_str(), left.c_str(), (unsigned long long)used,
               reason.c_str());
}

/// Waits for the work that a stream has now.
Status GpuMemory::synchronize(void *stream) {
  std::lock_guard lock(eventMutex_);
  GpuResult result = driver_.recordEvent(event_, stream);
  if (result.ok())
    result = driver_.synchronizeEvent(event_);
  return state_.check(result, "wait for its memory");
}

Status GpuMemory::allocateIn(void *stream, uint64_t bytes, const std::string &what, void *&address) {
  address = nullptr;
  if (bytes > totalBytes_) // drivers round up, and may overflow
    return outOfMemory(bytes, what, "that is more than the device has");
  uint64_t wanted = std::max<uint64_t>(bytes, 1); // memory of 0 bytes has an address too
  GpuResult result = driver_.allocate(pool_, wanted, stream, address);
  if (result.failure == GpuFailure::OutOfMemory && pool_) {
    // What was freed in the order of a stream is free when the stream has come so far.
    for (void *freed : {stream_, stream})
      ITX_RETURN_IF_ERROR(synchronize(freed));
    if (driver_.trimPool(pool_).ok())
      result = driver_.allocate(pool_, wanted, stream, address);
  }
  if (result.failure == GpuFailure::OutOfMemory)
    return outOfMemory(bytes, what, driver_.explain(result));
  return result.ok() ? Status::success()
                     : state_.fail(result, "allocate " + std::to_string(bytes) + " bytes for " + what);
}

Status GpuMemory::allocate(uint64_t bytes, void *&address) {
  address = nullptr;
  void *made = nullptr;
  ITX_RETURN_IF_ERROR(allocateIn(stream_, bytes, "a buffer", made));
  if (pool_) {
    // Other streams may use the memory only when the allocation has happened in its own.
    if (Status status = synchronize(stream_); !status.ok()) {
      (void)driver_.free(pool_, made, stream_); // what failed first is the error
      return status;
    }
  }
  std::lock_guard lock(mutex_);
  allocations_[reinterpret_cast<uintptr_t>(made)] = bytes;
  address = made;
  return Status::success();
}

bool GpuMemory::release(void *address) {
  {
    std::lock_guard lock(mutex_);
    if (allocations_.erase(reinterpret_cast<uintptr_t>(address)) == 0)
      return false;
  }
  // A failure loses the device, which the next call says.
  (void)state_.check(driver_.free(pool_, address, stream_), "free memory");
  return true;
}

bool GpuMemory::owns(const void *address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  uintptr_t begin = reinterpret_cast<uintptr_t>(address);
  auto after = allocations_.upper_bound(begin);
  if (after == allocations_.begin())
    return false;
  const auto &[first, size] = *std::prev(after);
  return begin - first <= size && bytes <= size - (begin - first);
}

Status GpuMemory::allocateFor(void *stream, uint64_t bytes, const std::string &what, void *&address) {
  return allocateIn(stream, bytes, what, address);
}

Status GpuMemory::releaseAfter(void *stream, void *address) {
  return state_.check(driver_.free(pool_, address, stream), "free memory");
}

} // namespace intarsia::runtime
