//===- Mbarriers.cpp - Barriers in shared memory, and tensor copies that they count -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/Mbarriers.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace intarsia::runtime {

/// The most arrivals of a phase (PTX ISA, "mbarrier.init").
static constexpr int32_t mostArrivals = (1 << 20) - 1;
/// Bytes of an mbarrier, to which it is aligned too.
static constexpr uint64_t barrierBytes = 8;
/// The alignment of what a tensor copy writes (PTX ISA, "cp.async.bulk.tensor").
static constexpr uint64_t destinationAlignment = 128;
/// Chunks that change places in a row of a box.
static constexpr uint64_t chunkBytes = 16;

static Status outOfMemory() { return error(ITX_OUT_OF_MEMORY, "out of memory for mbarriers and their copies"); }

Status Mbarriers::init(uint64_t offset, int32_t count, uint32_t thread) {
  if (offset % barrierBytes != 0 || offset > shared_.bytes() || shared_.bytes() - offset < barrierBytes)
    return error(
        ITX_INTERNAL,
        "makes an mbarrier at offset %lld of shared memory, which has %llu bytes; its 8 bytes are aligned to 8",
        (long long)offset, (unsigned long long)shared_.bytes());
  if (count < 1 || count > mostArrivals)
    return error(ITX_INTERNAL, "makes an mbarrier for %d arrivals, 1 to %d are possible", count, mostArrivals);
  // Only instructions for mbarriers may read it.
  shared_.forget(shared_.address() + offset, barrierBytes);
  try {
    Barrier &barrier = barriers_[offset];
    barrier = {};
    barrier.count = barrier.missing = count;
    barrier.thread = thread;
  } catch (const std::bad_alloc &) {
    return outOfMemory();
  }
  return Status::success();
}

void Mbarriers::fence(uint32_t thread) {
  for (auto &[offset, barrier] : barriers_)
    barrier.isFenced |= barrier.thread == thread;
}

Status Mbarriers::check(const char *verb, uint64_t offset) const {
  if (barriers_.count(offset))
    return Status::success();
  return error(ITX_INTERNAL, "%s offset %lld of shared memory, where no mbarrier was made; is a barrier missing?", verb,
               (long long)offset);
}

Status Mbarriers::arrive(uint64_t offset, int64_t bytes) {
  ITX_RETURN_IF_ERROR(check("arrives at", offset));
  Barrier &barrier = barriers_[offset];
  endPhase(barrier);
  if (barrier.missing == 0)
    return error(ITX_INTERNAL,
                 "arrives at the mbarrier at offset %llu, whose phase all %d arrivals have reached and %lld bytes have "
                 "not",
                 (unsigned long long)offset, barrier.count, (long long)barrier.bytes);
  barrier.bytes += bytes;
  --barrier.missing;
  if (barrier.copies.empty())
    endPhase(barrier);
  return Status::success();
}

Status Mbarriers::copy(uint64_t offset, const TensorCopy &copy) {
  ITX_RETURN_IF_ERROR(check("copies with an mbarrier at", offset));
  Barrier &barrier = barriers_[offset];
  if (!barrier.isFenced)
    return error(
        ITX_INTERNAL,
        "copies with the mbarrier at offset %llu, which thread %u has made without fence.proxy.async behind it: "
        "copies may not see it",
        (unsigned long long)offset, barrier.thread);
  uint64_t bytes = copy.map->boxBytes();
  if (copy.destination % destinationAlignment != 0 || copy.destination > shared_.bytes() ||
      bytes > shared_.bytes() - copy.destination)
    return error(
        ITX_INTERNAL,
        "copies a box of %llu bytes to offset %lld of shared memory, which has %llu bytes; it is aligned to %llu",
        (unsigned long long)bytes, (long long)copy.destination, (unsigned long long)shared_.bytes(),
        (unsigned long long)destinationAlignment);
  shared_.forget(shared_.address() + copy.destination, bytes);
  try {
    barrier.copies.push_back(copy);
  } catch (const std::bad_alloc &) {
    return outOfMemory();
  }
  return Status::success();
}

bool Mbarriers::isPast(uint64_t offset, bool parity) {
  Barrier &barrier = barriers_[offset];
  endPhase(barrier);
  return barrier.parity != parity;
}

/// Begins the next phase if nothing is missing in this one but copies, which land.
void Mbarriers::endPhase(Barrier &barrier) {
  if (barrier.missing != 0)
    return;
  for (const TensorCopy &copy : barrier.copies) {
    land(copy);
    barrier.bytes -= int64_t(copy.map->boxBytes());
  }
  barrier.copies.clear();
  if (barrier.bytes != 0)
    return;
  barrier.missing = barrier.count;
  barrier.parity = !barrier.parity;
}

/// Writes a box. Chunks of 16 bytes lie where bits 4 and up of their address are flipped by those from 7 on, as many as
/// a row has chunks (PTX ISA, "Swizzling modes"). What lies outside of the matrix is zero.
void Mbarriers::land(const TensorCopy &copy) {
  const TensorMap &map = *copy.map;
  uint64_t rowBytes = uint64_t(map.boxColumns) * map.elementBytes, ofMatrix = map.columns * map.elementBytes;
  int64_t begin = copy.column * int64_t(map.elementBytes);
  for (uint64_t row = 0; row < map.boxRows; ++row)
    for (uint64_t byte = 0; byte < rowBytes; byte += chunkBytes) {
      uint64_t at = copy.destination + row * rowBytes + byte;
      at ^= (at >> 7 & (map.swizzleBytes / chunkBytes - 1)) * chunkBytes;
      uint8_t *to = shared_.address() + at;
      std::memset(to, 0, chunkBytes);
      int64_t ofRow = copy.row + int64_t(row), from = begin + int64_t(byte);
      int64_t first = std::max<int64_t>(from, 0),
              end = std::min<int64_t>(from + int64_t(chunkBytes), int64_t(ofMatrix));
      if (ofRow >= 0 && uint64_t(ofRow) < map.rows && first < end)
        std::memcpy(to + (first - from), map.address + uint64_t(ofRow) * ofMatrix + first, size_t(end - first));
      shared_.noteWritten(to, chunkBytes);
    }
}

std::string Mbarriers::text() const {
  std::vector<std::string> texts;
  for (const auto &[offset, barrier] : barriers_)
    texts.push_back(format("the one at offset %llu, in a phase of parity %d, %d of %d arrivals and %lld bytes",
                           (unsigned long long)offset, int(barrier.parity), barrier.missing, barrier.count,
                           (long long)barrier.bytes));
  return texts.empty() ? "" : "mbarriers lack: " + join(texts);
}

} // namespace intarsia::runtime
