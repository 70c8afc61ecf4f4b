//===- Executor.h - Threads for asynchronous calls ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_EXECUTOR_H
#define INTARSIA_RUNTIME_CORE_EXECUTOR_H

#include <functional>

namespace intarsia::runtime {

/// Runs the task on a background thread: one that is idle, or a new one. Tasks must not throw.
/// Throws std::system_error when the process may not have another thread.
void runInBackground(std::function<void()> task);

} // namespace intarsia::runtime

#endif
