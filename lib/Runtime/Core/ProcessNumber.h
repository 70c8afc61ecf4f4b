//===- ProcessNumber.h - Which process this is, counted by forks --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_PROCESSNUMBER_H
#define INTARSIA_RUNTIME_CORE_PROCESSNUMBER_H

#include <atomic>
#include <cstdint>

namespace intarsia::runtime {

extern std::atomic<uint64_t> currentProcessNumber;

/// Returns a number that no ancestor of this process has, at least 1. Threads that an object has started exist only in
/// the process that has the number which the object noted.
inline uint64_t processNumber() { return currentProcessNumber.load(std::memory_order_relaxed); }

} // namespace intarsia::runtime

#endif
