//===- StateMemory.h - State of a step function in memory ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CACHE_STATEMEMORY_H
#define INTARSIA_RUNTIME_CACHE_STATEMEMORY_H

#include "lib/Runtime/Cache/StepLayout.h"
#include "lib/Runtime/Core/Module.h"
#include "lib/Runtime/Core/Tensor.h"

namespace intarsia::runtime {

/// The tensors that a step function updates in place, and the free pages among them. Memory of the host is taken from
/// the machine when it is first written to.
///
/// State on a device is cleared and copied there by work that may be running when a function returns; finish() waits
/// for it. It is called before the step function runs, and before memory of the host that is copied to or from changes.
class StateMemory {
public:
  /// Makes the tensors in the memories that the module says. ITX_OUT_OF_MEMORY if one of them has less available.
  static Status create(const StepLayout &layout, int64_t pages, int64_t sequences, const Module &module,
                       std::unique_ptr<StateMemory> &memory);
  /// Makes pages of a layout without state.
  static std::unique_ptr<StateMemory> createWithoutState(const StepLayout &layout, int64_t pages);
  ~StateMemory();

  /// Gives the bytes of so many pages and sequences; an error if they exceed 2^62.
  static Status bytesOf(const StepLayout &layout, int64_t pages, int64_t sequences, uint64_t &bytes);

  /// Returns the tensors in the order of layout.states.
  const std::vector<Tensor> &tensors() const { return tensors_; }
  /// Returns a page or a slot of one state if that is in the memory of the host, else null.
  const uint8_t *hostUnit(size_t state, int64_t index) const;

  int64_t pages() const { return int64_t(references_.size()); }
  int64_t freePages() const { return int64_t(free_.size()); }
  int32_t references(int32_t page) const { return references_[page]; }
  /// Takes a free page, which must exist, zeroes it and gives it one reference. It is taken even after an error.
  Status takePage(int32_t &page);
  void retainPage(int32_t page) { ++references_[page]; }
  void releasePage(int32_t page);

  Status copyPage(int32_t from, int32_t to);
  Status copySlot(int64_t from, int64_t to);
  Status clearSlot(int64_t slot);
  /// Copies a page or a slot of one state to memory of the host.
  Status read(size_t state, int64_t index, uint8_t *to);
  /// Copies a page or a slot of one state from memory of the host.
  Status write(size_t state, int64_t index, const uint8_t *from);
  /// Waits for all work on devices. Returns `status` if that is an error, else the first error of the work.
  Status finish(Status status = Status::success());

private:
  /// The last work on a device that holds state.
  struct Work {
    Device *device;
    itx_event last;
  };

  explicit StateMemory(const StepLayout &layout) : layout_(layout) {}
  void makePages(int64_t pages);
  Status makeTensor(const StateTensor &state, int64_t units, const Module &module, uint64_t allBytes);
  uint8_t *unit(size_t state, int64_t index) const;
  Status clear(size_t state, int64_t index);
  Status copy(Device *device, void *to, MemoryKind toKind, const void *from, MemoryKind fromKind, uint64_t bytes);
  Work &workOf(Device *device);

  const StepLayout &layout_;
  std::vector<Tensor> tensors_;
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;
  std::vector<Work> work_;
};

} // namespace intarsia::runtime

#endif
