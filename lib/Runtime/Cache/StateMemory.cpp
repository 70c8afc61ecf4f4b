//===- StateMemory.cpp - State of a step function in memory -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/StateMemory.h"

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

Status StateMemory::create(const StepLayout &layout, int64_t pages, int64_t sequences, const std::string &what,
                           std::unique_ptr<StateMemory> &memory) {
  uint64_t bytes = 0, available = availableMemoryBytes();
  ITX_RETURN_IF_ERROR(bytesOf(layout, pages, sequences, bytes));
  if (bytes > available)
    return error(
        ITX_OUT_OF_MEMORY,
        "%s: a cache of %lld pages (of %lld tokens) for %lld sequences takes %llu bytes, %llu are available to "
        "this process: give fewer pages, or free memory",
        what.c_str(), (long long)pages, (long long)layout.pageTokens, (long long)sequences, (unsigned long long)bytes,
        (unsigned long long)available);
  std::unique_ptr<StateMemory> result(new StateMemory(layout));
  for (const StateTensor &state : layout.states) {
    Tensor tensor;
    tensor.dtype = state.dtype;
    tensor.shape = state.shape;
    int64_t units = state.paged ? pages : sequences;
    tensor.shape.insert(tensor.shape.begin(), units);
    tensor.bytes = state.unitBytes * uint64_t(units);
    tensor.data = mapMemory(tensor.bytes);
    if (!tensor.data)
      return error(ITX_OUT_OF_MEMORY, "%s: no memory for the %llu bytes of '%s' (%llu for all state): %s", what.c_str(),
                   (unsigned long long)tensor.bytes, state.name.c_str(), (unsigned long long)bytes,
                   std::strerror(errno));
    result->tensors_.push_back(std::move(tensor));
  }
  result->references_.assign(pages, 0);
  for (int64_t page = pages; page-- > 0;)
    result->free_.push_back(int32_t(page));
  memory = std::move(result);
  return Status::success();
}

uint8_t *StateMemory::unit(size_t state, int64_t index) const {
  return static_cast<uint8_t *>(tensors_[state].data.get()) + layout_.states[state].unitBytes * uint64_t(index);
}

int32_t StateMemory::takePage() {
  int32_t page = free_.back();
  free_.pop_back();
  references_[page] = 1;
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (layout_.states[i].paged)
      std::memset(unit(i, page), 0, layout_.states[i].unitBytes);
  return page;
}

void StateMemory::releasePage(int32_t page) {
  if (--references_[page] == 0)
    free_.push_back(page);
}

void StateMemory::copyPage(int32_t from, int32_t to) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (layout_.states[i].paged)
      std::memcpy(unit(i, to), unit(i, from), layout_.states[i].unitBytes);
}

void StateMemory::copySlot(int64_t from, int64_t to) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!layout_.states[i].paged)
      std::memcpy(unit(i, to), unit(i, from), layout_.states[i].unitBytes);
}

void StateMemory::clearSlot(int64_t slot) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!layout_.states[i].paged)
      std::memset(unit(i, slot), 0, layout_.states[i].unitBytes);
}

} // namespace intarsia::runtime
