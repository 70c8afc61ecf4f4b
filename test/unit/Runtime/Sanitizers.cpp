//===- Sanitizers.cpp - How sanitizers treat the runtime's tests -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tests ask for more memory than there is, and fork while threads run.
//===------------------------------------------------------------------------------------------------------===//

extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_options() {
  return "allocator_may_return_null=1:die_after_fork=0";
}
