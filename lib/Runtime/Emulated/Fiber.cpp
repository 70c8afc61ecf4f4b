//===- Fiber.cpp - Contexts that take turns on one thread of the host -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/Fiber.h"

#include <cstdlib>

#if ITX_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace intarsia::runtime {

/// Alignment of stacks at a call on both architectures.
static constexpr uintptr_t stackAlignment = 16;

Fiber::~Fiber() {
#if ITX_THREAD_SANITIZER
  if (ownsState_)
    __tsan_destroy_fiber(state_);
#endif
}

void Fiber::prepare(uint8_t *bottom, size_t bytes, size_t unused, Entry entry) {
#if ITX_ASSEMBLY_FIBERS
  auto top = (reinterpret_cast<uintptr_t>(bottom) + bytes - unused) & ~(stackAlignment - 1);
  // swap() takes these words from the stack of a context that it continues.
#if defined(__x86_64__)
  auto *words = reinterpret_cast<uint64_t *>(top) - 2;
  words[0] = reinterpret_cast<uintptr_t>(entry);
  words[1] = 0; // a return address, as if the entry function had been called
#else
  auto *words = reinterpret_cast<uint64_t *>(top) - 4;
  words[2] = reinterpret_cast<uintptr_t>(entry);
#endif
  stackPointer_ = words;
#else
  getcontext(&registers_);
  registers_.uc_stack.ss_sp = bottom;
  registers_.uc_stack.ss_size = bytes - unused;
  registers_.uc_link = nullptr;
  makecontext(&registers_, entry, 0);
#endif
#if ITX_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(bottom, bytes);
  stackBottom_ = bottom;
  stackBytes_ = bytes;
  fakeStack_ = nullptr;
#endif
#if ITX_THREAD_SANITIZER
  if (!state_)
    state_ = __tsan_create_fiber(0);
  ownsState_ = true;
#endif
}

void Fiber::finish(Fiber &from, Fiber &to) {
#if ITX_ADDRESS_SANITIZER
  leaving = &from;
  __sanitizer_start_switch_fiber(nullptr, to.stackBottom_, to.stackBytes_);
#endif
#if ITX_THREAD_SANITIZER
  __tsan_switch_to_fiber(to.state_, 0);
#endif
  swap(from, to);
  std::abort(); // nothing continues a fiber that has ended
}

} // namespace intarsia::runtime
