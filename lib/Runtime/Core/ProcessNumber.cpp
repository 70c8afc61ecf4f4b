//===- ProcessNumber.cpp - Which process this is, counted by forks ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/ProcessNumber.h"

#include <pthread.h>

namespace intarsia::runtime {

std::atomic<uint64_t> currentProcessNumber{1};

/// Counts forks from the start of the program on, before an object can note the number.
[[maybe_unused]] static const int registered =
    pthread_atfork(nullptr, nullptr, [] { currentProcessNumber.fetch_add(1); });

} // namespace intarsia::runtime
