//===- Copies.cpp - Copies between the memories of host and devices -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Copies.h"

#include <cstring>

namespace intarsia::runtime {

static MemoryKind kindOf(const MemoryAddress &address) {
  return address.device ? MemoryKind::Device : MemoryKind::Host;
}

Status Copies::start(const MemoryAddress &to, const MemoryAddress &from, uint64_t bytes) {
  if (to.device && from.device && to.device != from.device) {
    itx_event event = 0;
    Status direct = from.device->copyTo(*to.device, to.address, from.address, bytes, event);
    if (event != 0)
      running_.push_back({from.device, event});
    if (direct.code() != ITX_UNSUPPORTED)
      return direct;
    staging_.push_back(std::make_unique<ScratchBuffer>());
    MemoryAddress onHost = {nullptr, staging_.back()->reserve(bytes)};
    if (!onHost.address)
      return error(ITX_OUT_OF_MEMORY,
                   "no memory on the host for the %llu bytes that go from the device '%s' to the device '%s'",
                   (unsigned long long)bytes, from.device->name(), to.device->name());
    ITX_RETURN_IF_ERROR(copyMemory(onHost, from, bytes));
    return start(to, onHost, bytes);
  }
  Device *device = to.device ? to.device : from.device;
  if (!device) {
    if (bytes != 0)
      std::memcpy(to.address, from.address, bytes);
    return Status::success();
  }
  itx_event event = 0;
  Status status = device->copy(0, to.address, kindOf(to), from.address, kindOf(from), bytes, nullptr, 0, event);
  if (event != 0)
    running_.push_back({device, event});
  return status;
}

Status Copies::finish() {
  Status first;
  for (const Running &copy : running_)
    if (Status status = copy.device->wait(copy.event); first.ok())
      first = std::move(status);
  running_.clear();
  staging_.clear();
  return first;
}

Status copyMemory(const MemoryAddress &to, const MemoryAddress &from, uint64_t bytes) {
  Copies copies;
  Status started = copies.start(to, from, bytes), finished = copies.finish();
  return started.ok() ? finished : started;
}

} // namespace intarsia::runtime
