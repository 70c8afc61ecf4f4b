//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Prints a message instead of a crash when recursion over the contents of a file overflows the stack.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_STACKGUARD_H
#define INTARSIA_LIB_SUPPORT_STACKGUARD_H

#include <memory>
#include <signal.h>
#include <string>

namespace intarsia {

/// While it lives, a stack overflow on the thread that made it prints `message` to standard error and exits with 1.
/// Other faults go to the previous handler. There may be only one guard at a time.
class StackGuard {
public:
  explicit StackGuard(const std::string &message);
  ~StackGuard();
  StackGuard(const StackGuard &) = delete;
  StackGuard &operator=(const StackGuard &) = delete;

private:
  std::unique_ptr<char[]> memory; ///< the stack of the handler: the thread's own is full
  stack_t stackBefore;
};

} // namespace intarsia

#endif
