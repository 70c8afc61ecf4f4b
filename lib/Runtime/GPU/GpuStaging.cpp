//===- GpuStaging.cpp - Copies between a GPU and memory of the host that it cannot reach ------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuStaging.h"

#include <algorithm>
#include <cstring>

namespace intarsia::runtime {

/// Chunks begin at multiples of a cache line, so that two of them share none.
static constexpr uint64_t chunkAlignment = 64;

Status GpuStaging::start() {
  if (memory_)
    return Status::success();
  void *memory = nullptr;
  ITX_RETURN_IF_ERROR(state_.check(driver_.allocateHost(capacity, memory), "allocate memory of the host for copies"));
  memory_ = static_cast<uint8_t *>(memory);
  return Status::success();
}

/// Writes a chunk that has arrived to its destination.
void GpuStaging::write(Chunk &chunk) {
  if (chunk.destination)
    std::memcpy(chunk.destination, memory_ + chunk.begin, chunk.copied);
  chunk.destination = nullptr;
}

Status GpuStaging::finish(Chunk &chunk) {
  ITX_RETURN_IF_ERROR(state_.check(driver_.synchronizeEvent(chunk.mark.get()), "finish a copy"));
  write(chunk);
  return Status::success();
}

Status GpuStaging::deliver() {
  for (Chunk &chunk : chunks_) {
    if (!chunk.destination)
      continue;
    GpuResult result = driver_.queryEvent(chunk.mark.get());
    if (result.failure == GpuFailure::NotReady)
      continue;
    ITX_RETURN_IF_ERROR(state_.check(result, "finish a copy"));
    write(chunk);
  }
  // Chunks give their memory back in the order in which they took it.
  while (!chunks_.empty() && !chunks_.front().destination && driver_.queryEvent(chunks_.front().mark.get()).ok())
    chunks_.pop_front();
  return Status::success();
}

Status GpuStaging::deliverInto(const void *address, uint64_t bytes) {
  auto *begin = static_cast<const uint8_t *>(address);
  for (Chunk &chunk : chunks_) {
    auto *destination = static_cast<const uint8_t *>(chunk.destination);
    if (destination && destination < begin + bytes && begin < destination + chunk.copied)
      ITX_RETURN_IF_ERROR(finish(chunk));
  }
  return Status::success();
}

Status GpuStaging::reserve(uint64_t bytes, uint64_t &begin) {
  uint64_t rounded = (bytes + chunkAlignment - 1) / chunkAlignment * chunkAlignment;
  for (;;) {
    if (chunks_.empty()) {
      begin = 0;
      return Status::success();
    }
    uint64_t first = chunks_.front().begin, end = chunks_.back().begin + chunks_.back().bytes;
    bool isWrapped = chunks_.back().begin < first;
    if (!isWrapped && capacity - end >= rounded) {
      begin = end;
      return Status::success();
    }
    if (!isWrapped && first >= rounded) {
      begin = 0;
      return Status::success();
    }
    if (isWrapped && first - end >= rounded) {
      begin = end;
      return Status::success();
    }
    ITX_RETURN_IF_ERROR(finish(chunks_.front()));
    chunks_.pop_front();
  }
}

Status GpuStaging::copyToDevice(void *stream, void *destination, const void *source, uint64_t bytes, bool &begun) {
  ITX_RETURN_IF_ERROR(start());
  ITX_RETURN_IF_ERROR(deliverInto(source, bytes)); // the source may be the result of a copy that is on its way
  for (uint64_t done = 0; done < bytes;) {
    Chunk chunk;
    chunk.copied = std::min(chunkBytes, bytes - done);
    chunk.bytes = (chunk.copied + chunkAlignment - 1) / chunkAlignment * chunkAlignment;
    ITX_RETURN_IF_ERROR(reserve(chunk.copied, chunk.begin));
    std::memcpy(memory_ + chunk.begin, static_cast<const uint8_t *>(source) + done, chunk.copied);
    ITX_RETURN_IF_ERROR(state_.check(
        driver_.copyToDevice(static_cast<uint8_t *>(destination) + done, memory_ + chunk.begin, chunk.copied, stream),
        "copy to its memory"));
    begun = true;
    ITX_RETURN_IF_ERROR(state_.check(marks_.record(stream, chunk.mark), "copy to its memory"));
    done += chunk.copied;
    chunks_.push_back(std::move(chunk));
  }
  return Status::success();
}

Status GpuStaging::copyToHost(void *stream, void *destination, const void *source, uint64_t bytes, bool &begun) {
  ITX_RETURN_IF_ERROR(start());
  ITX_RETURN_IF_ERROR(deliverInto(destination, bytes)); // of two copies to one address the later one counts
  for (uint64_t done = 0; done < bytes;) {
    Chunk chunk;
    chunk.copied = std::min(chunkBytes, bytes - done);
    chunk.bytes = (chunk.copied + chunkAlignment - 1) / chunkAlignment * chunkAlignment;
    ITX_RETURN_IF_ERROR(reserve(chunk.copied, chunk.begin));
    ITX_RETURN_IF_ERROR(state_.check(
        driver_.copyToHost(memory_ + chunk.begin, static_cast<const uint8_t *>(source) + done, chunk.copied, stream),
        "copy from its memory"));
    begun = true;
    ITX_RETURN_IF_ERROR(state_.check(marks_.record(stream, chunk.mark), "copy from its memory"));
    chunk.destination = static_cast<uint8_t *>(destination) + done;
    done += chunk.copied;
    chunks_.push_back(std::move(chunk));
  }
  return Status::success();
}

} // namespace intarsia::runtime
