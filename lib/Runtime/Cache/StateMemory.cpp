//===- StateMemory.cpp - State of a step function in memory -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/StateMemory.h"

#include "lib/Runtime/Tiers/WeightStream.h"
#include "lib/Support/MachineLimits.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace intarsia::runtime {

Status StateMemory::bytesOf(const StepLayout &layout, int64_t pages, int64_t sequences, uint64_t &bytes) {
  uint64_t slots = 0;
  if (__builtin_mul_overflow(layout.pageBytes, uint64_t(pages), &bytes) ||
      __builtin_mul_overflow(layout.sequenceBytes, uint64_t(sequences), &slots) ||
      __builtin_add_overflow(bytes, slots, &bytes) || bytes > uint64_t(1) << 62)
    return error(ITX_INVALID_ARGUMENT,
                 "a cache of %lld pages for %lld sequences is larger than memory can be: give fewer pages",
                 (long long)pages, (long long)sequences);
  return Status::success();
}

/// Maps zeroed memory at a multiple of the system's page size.
static std::shared_ptr<void> mapMemory(uint64_t bytes) {
  void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return nullptr;
  return std::shared_ptr<void>(data, [bytes](void *mapped) { munmap(mapped, bytes); });
}

Status StateMemory::makeTensor(const StateTensor &state, int64_t units, const Module &module, uint64_t allBytes) {
  Tensor tensor;
  tensor.dtype = state.dtype;
  tensor.shape = state.shape;
  tensor.shape.insert(tensor.shape.begin(), units);
  tensor.bytes = state.unitBytes * uint64_t(units);
  tensor.device = module.memoryOf(state.device);
  if (tensor.device) {
    auto buffer = std::make_shared<Buffer>();
    if (Status status = Buffer::make(*tensor.device, tensor.bytes, *buffer); !status.ok())
      return error(status.code(),
                   "%s: no memory on the device '%s' for the %llu bytes of '%s' (%llu for all state): %s: give fewer "
                   "pages",
                   module.name().c_str(), tensor.device->name(), (unsigned long long)tensor.bytes, state.name.c_str(),
                   (unsigned long long)allBytes, status.message().c_str());
    tensor.data = std::shared_ptr<void>(buffer, buffer->address());
    workOf(tensor.device);
  } else {
    tensor.data = mapMemory(tensor.bytes);
    if (!tensor.data)
      return error(ITX_OUT_OF_MEMORY, "%s: no memory for the %llu bytes of '%s' (%llu for all state): %s",
                   module.name().c_str(), (unsigned long long)tensor.bytes, state.name.c_str(),
                   (unsigned long long)allBytes, std::strerror(errno));
  }
  tensors_.push_back(std::move(tensor));
  return Status::success();
}

Status StateMemory::create(const StepLayout &layout, int64_t pages, int64_t sequences, const Module &module,
                           std::unique_ptr<StateMemory> &memory) {
  uint64_t bytes = 0, onHost = 0, available = availableMemoryBytes();
  ITX_RETURN_IF_ERROR(bytesOf(layout, pages, sequences, bytes));
  for (const StateTensor &state : layout.states)
    if (!module.memoryOf(state.device))
      onHost += state.unitBytes * uint64_t(state.paged ? pages : sequences);
  if (onHost > available) {
    makeRoomForAllocation(onHost); // weights may make room
    available = availableMemoryBytes();
  }
  if (onHost > available)
    return error(
        ITX_OUT_OF_MEMORY,
        "%s: a cache of %lld pages (of %lld tokens) for %lld sequences takes %llu bytes, %llu are available to "
        "this process: give fewer pages, or free memory",
        module.name().c_str(), (long long)pages, (long long)layout.pageTokens, (long long)sequences,
        (unsigned long long)onHost, (unsigned long long)available);
  std::unique_ptr<StateMemory> result(new StateMemory(layout));
  for (const StateTensor &state : layout.states)
    ITX_RETURN_IF_ERROR(result->makeTensor(state, state.paged ? pages : sequences, module, bytes));
  result->makePages(pages);
  memory = std::move(result);
  return Status::success();
}

std::unique_ptr<StateMemory> StateMemory::createWithoutState(const StepLayout &layout, int64_t pages) {
  std::unique_ptr<StateMemory> result(new StateMemory(layout));
  result->makePages(pages);
  return result;
}

void StateMemory::makePages(int64_t pages) {
  references_.assign(pages, 0);
  for (int64_t page = pages; page-- > 0;)
    free_.push_back(int32_t(page));
}

StateMemory::~StateMemory() {
  // The memory is given back next, and with it whatever an error has left there.
  (void)finish();
}

uint8_t *StateMemory::unit(size_t state, int64_t index) const {
  return static_cast<uint8_t *>(tensors_[state].data.get()) + layout_.states[state].unitBytes * uint64_t(index);
}

const uint8_t *StateMemory::hostUnit(size_t state, int64_t index) const {
  return tensors_[state].device ? nullptr : unit(state, index);
}

// ---- Work on devices --------------------------------------------------------------------------------------

StateMemory::Work &StateMemory::workOf(Device *device) {
  for (Work &work : work_)
    if (work.device == device)
      return work;
  return work_.emplace_back(Work{device, 0});
}

Status StateMemory::finish(Status status) {
  for (Work &work : work_) {
    Status ended = work.device->wait(work.last);
    work.last = 0;
    if (status.ok())
      status = std::move(ended);
  }
  return status;
}

/// Copies between the host and a device, or on one; null means the host. Each piece of work on a device waits for the
/// one before it, and so has its error too.
Status StateMemory::copy(Device *device, void *to, MemoryKind toKind, const void *from, MemoryKind fromKind,
                         uint64_t bytes) {
  if (!device) {
    std::memcpy(to, from, bytes);
    return Status::success();
  }
  Work &work = workOf(device);
  itx_event started = 0;
  ITX_RETURN_IF_ERROR(device->copy(0, to, toKind, from, fromKind, bytes, &work.last, 1, started));
  work.last = started;
  return Status::success();
}

Status StateMemory::clear(size_t state, int64_t index) {
  uint64_t bytes = layout_.states[state].unitBytes;
  Device *device = tensors_[state].device;
  if (!device) {
    std::memset(unit(state, index), 0, bytes);
    return Status::success();
  }
  Work &work = workOf(device);
  itx_event started = 0;
  ITX_RETURN_IF_ERROR(device->fill(0, unit(state, index), 0, bytes, &work.last, 1, started));
  work.last = started;
  return Status::success();
}

Status StateMemory::read(size_t state, int64_t index, uint8_t *to) {
  return copy(tensors_[state].device, to, MemoryKind::Host, unit(state, index), MemoryKind::Device,
              layout_.states[state].unitBytes);
}

Status StateMemory::write(size_t state, int64_t index, const uint8_t *from) {
  return copy(tensors_[state].device, unit(state, index), MemoryKind::Device, from, MemoryKind::Host,
              layout_.states[state].unitBytes);
}

// ---- Pages and slots --------------------------------------------------------------------------------------

Status StateMemory::takePage(int32_t &page) {
  page = free_.back();
  free_.pop_back();
  references_[page] = 1;
  makeRoomForAllocation(layout_.pageBytes);
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (layout_.states[i].paged)
      ITX_RETURN_IF_ERROR(clear(i, page));
  return Status::success();
}

void StateMemory::releasePage(int32_t page) {
  if (--references_[page] == 0)
    free_.push_back(page);
}

Status StateMemory::copyPage(int32_t from, int32_t to) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (layout_.states[i].paged)
      ITX_RETURN_IF_ERROR(copy(tensors_[i].device, unit(i, to), MemoryKind::Device, unit(i, from), MemoryKind::Device,
                               layout_.states[i].unitBytes));
  return Status::success();
}

Status StateMemory::copySlot(int64_t from, int64_t to) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!layout_.states[i].paged)
      ITX_RETURN_IF_ERROR(copy(tensors_[i].device, unit(i, to), MemoryKind::Device, unit(i, from), MemoryKind::Device,
                               layout_.states[i].unitBytes));
  return Status::success();
}

Status StateMemory::clearSlot(int64_t slot) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!layout_.states[i].paged)
      ITX_RETURN_IF_ERROR(clear(i, slot));
  return Status::success();
}

} // namespace intarsia::runtime
