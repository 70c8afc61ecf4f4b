//===- Copies.h - Copies between the memories of host and devices -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_COPIES_H
#define INTARSIA_RUNTIME_CORE_COPIES_H

#include "lib/Runtime/Core/Device.h"

#include <memory>
#include <vector>

namespace intarsia::runtime {

/// An address in one of the memories.
struct MemoryAddress {
  Device *device = nullptr; ///< the device in whose own memory it is; null: memory of the host
  void *address = nullptr;
};

/// Copies that go on at the same time. A device makes a copy if one side is in its memory; a copy between the memories
/// of two devices goes through memory of the host.
class Copies {
public:
  Copies() = default;
  /// Waits: nothing may run on memory that is given back.
  ~Copies() { (void)finish(); }
  Copies(const Copies &) = delete;
  Copies &operator=(const Copies &) = delete;

  Status start(const MemoryAddress &to, const MemoryAddress &from, uint64_t bytes);
  /// Waits for all copies, and returns the first error.
  Status finish();

private:
  struct Running {
    Device *device;
    itx_event event;
  };
  std::vector<Running> running_;
  std::vector<std::unique_ptr<ScratchBuffer>> staging_; ///< of copies between two devices
};

/// Copies and waits.
Status copyMemory(const MemoryAddress &to, const MemoryAddress &from, uint64_t bytes);

} // namespace intarsia::runtime

#endif
