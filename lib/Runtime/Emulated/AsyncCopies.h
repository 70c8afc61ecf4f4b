//===- AsyncCopies.h - Copies of a thread that land when it waits for them -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_ASYNCCOPIES_H
#define INTARSIA_RUNTIME_EMULATED_ASYNCCOPIES_H

#include "lib/Runtime/Emulated/ProxyWrites.h"
#include "lib/Runtime/Emulated/SharedMemory.h"

#include <vector>

namespace intarsia::runtime {

/// The asynchronous copies of one thread, in groups.
class AsyncCopies {
public:
  /// Drops all copies: those of a thread that has returned never land.
  void clear();
  /// Returns false if the host has no memory left to note the copy. No exception may cross a kernel.
  [[nodiscard]] bool add(void *destination, const void *source, uint32_t bytes, uint32_t sourceBytes);
  /// Makes a group of the copies since the last one.
  [[nodiscard]] bool commit();
  /// Lets the oldest groups land in `shared` until `groups` are left, as writes of the thread.
  void land(uint64_t groups, SharedMemory &shared, ProxyWrites &writes, uint32_t thread);

private:
  struct Copy {
    void *destination;
    const void *source;
    uint32_t bytes;
    uint32_t sourceBytes;
  };

  std::vector<Copy> copies_; ///< those that have not landed, in order
  std::vector<size_t> ends_; ///< of each group, in copies_
};

} // namespace intarsia::runtime

#endif
