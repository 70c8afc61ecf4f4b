//===- GpuStaging.h - Copies between a GPU and memory of the host that it cannot reach --------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUSTAGING_H
#define INTARSIA_RUNTIME_GPU_GPUSTAGING_H

#include "lib/Runtime/GPU/GpuMarks.h"

#include <deque>

namespace intarsia::runtime {

/// Copies between the device and memory of callers, by way of pinned memory of the host: the device copies only to and
/// from that while the host goes on.
///
/// What is copied to the device is read when the copy is started. What is copied from it is written to its destination
/// by deliver(), which must be called before anybody is told that the copy is done. Copies that are larger than the
/// pinned memory wait for parts of it. Callers hold the lock of the device's queues and have entered the device.
class GpuStaging {
public:
  /// Bytes of the pinned memory: enough to hide the host's part of a copy at 50 GB/s behind the device's.
  static constexpr uint64_t capacity = uint64_t(16) << 20;
  /// Bytes that are copied at once; the host fills a chunk while the device copies the one before.
  static constexpr uint64_t chunkBytes = uint64_t(2) << 20;

  GpuStaging(GpuDriver &driver, GpuState &state, GpuMarks &marks) : driver_(driver), state_(state), marks_(marks) {}

  /// Starts a copy to the device. `begun` is set as soon as the stream has a part of it.
  Status copyToDevice(void *stream, void *destination, const void *source, uint64_t bytes, bool &begun);
  /// Starts a copy from the device.
  Status copyToHost(void *stream, void *destination, const void *source, uint64_t bytes, bool &begun);
  /// Writes what has arrived from the device to its destinations. Chunks on their way are left.
  Status deliver();

private:
  /// A part of the pinned memory in use. Parts follow each other around the end of the memory.
  struct Chunk {
    uint64_t begin = 0;
    uint64_t bytes = 0;          ///< up to the next chunk, at most the rest of the memory
    uint64_t copied = 0;         ///< bytes of the copy
    GpuMark mark;                ///< the device has copied
    void *destination = nullptr; ///< of the host; null: nothing to deliver
  };

  Status start();
  /// Finds room for the next chunk, waiting for the oldest ones.
  Status reserve(uint64_t bytes, uint64_t &begin);
  /// Delivers what is to be written to a range of the host's memory or read from it, when it has arrived.
  Status deliverInto(const void *address, uint64_t bytes);
  Status finish(Chunk &chunk);
  void write(Chunk &chunk);

  GpuDriver &driver_;
  GpuState &state_;
  GpuMarks &marks_;
  uint8_t *memory_ = nullptr;
  std::deque<Chunk> chunks_; ///< oldest first
};

} // namespace intarsia::runtime

#endif
