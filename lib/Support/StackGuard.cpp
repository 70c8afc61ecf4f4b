//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/StackGuard.h"

#include <cstdint>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

namespace intarsia {

/// The kernel keeps a gap of 1 MiB below a stack that grows (stack_guard_gap); a frame may reach far into it.
constexpr uintptr_t gapBelowStack = 1 << 20;
constexpr size_t handlerStackBytes = 64 << 10;

// The message of the handler, which may neither allocate nor lock.
static std::string messageOfGuard;
static uintptr_t lowestOfStack;
static struct sigaction before;

static void handleFault(int, siginfo_t *fault, void *) {
  auto address = reinterpret_cast<uintptr_t>(fault->si_addr);
  if (address + gapBelowStack >= lowestOfStack && address < lowestOfStack + gapBelowStack) {
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, messageOfGuard.data(), messageOfGuard.size());
    _exit(1);
  }
  // The instruction faults again, and the previous handler gets the fault.
  sigaction(SIGSEGV, &before, nullptr);
}

StackGuard::StackGuard(const std::string &message) : memory(new char[handlerStackBytes]) {
  messageOfGuard = message + "\n";
  pthread_attr_t attributes;
  void *lowest = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &lowest, &bytes);
    pthread_attr_destroy(&attributes);
  }
  lowestOfStack = reinterpret_cast<uintptr_t>(lowest);
  stack_t stack = {};
  stack.ss_sp = memory.get();
  stack.ss_size = handlerStackBytes;
  sigaltstack(&stack, &stackBefore);
  struct sigaction action = {};
  action.sa_sigaction = handleFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &before);
}

StackGuard::~StackGuard() {
  sigaction(SIGSEGV, &before, nullptr);
  sigaltstack(&stackBefore, nullptr);
}

} // namespace intarsia
