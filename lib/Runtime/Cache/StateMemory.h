//===- StateMemory.h - State of a step function in memory ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CACHE_STATEMEMORY_H
#define INTARSIA_RUNTIME_CACHE_STATEMEMORY_H

#include "lib/Runtime/Cache/StepLayout.h"
#include "lib/Runtime/Core/Tensor.h"

namespace intarsia::runtime {

/// The tensors that a step function updates in place, and the free pages among them. Memory is taken from the machine
/// when it is first written to.
class StateMemory {
public:
  /// Makes the tensors; `what` names them in messages. ITX_OUT_OF_MEMORY if the machine has less memory available.
  static Status create(const StepLayout &layout, int64_t pages, int64_t sequences, const std::string &what,
                       std::unique_ptr<StateMemory> &memory);

  /// Gives the bytes of so many pages and sequences; an error if they exceed 2^62.
  static Status bytesOf(const StepLayout &layout, int64_t pages, int64_t sequences, uint64_t &bytes);

  /// Returns the tensors in the order of layout.states.
  const std::vector<Tensor> &tensors() const { return tensors_; }
  /// Returns a page or a slot of one state.
  uint8_t *unit(size_t state, int64_t index) const;

  int64_t pages() const { return int64_t(references_.size()); }
  int64_t freePages() const { return int64_t(free_.size()); }
  int32_t references(int32_t page) const { return references_[page]; }
  /// Takes a free page, which must exist, zeroes it and gives it one reference.
  int32_t takePage();
  void retainPage(int32_t page) { ++references_[page]; }
  void releasePage(int32_t page);

  void copyPage(int32_t from, int32_t to);
  void copySlot(int64_t from, int64_t to);
  void clearSlot(int64_t slot);

private:
  explicit StateMemory(const StepLayout &layout) : layout_(layout) {}
  const StepLayout &layout_;
  std::vector<Tensor> tensors_;
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;
};

} // namespace intarsia::runtime

#endif
