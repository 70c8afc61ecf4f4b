//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Work with a hard deadline: it runs in a process of its own, which is killed at the deadline.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_CHILDPROCESS_H
#define INTARSIA_PLAN_CHILDPROCESS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <chrono>
#include <optional>
#include <string>

namespace intarsia::plan {

/// Returns what `work` returns, which is called in a copy of this process. Returns nothing if it has not ended by the
/// deadline; if it crashes, or the system has no room for a process, `failure` says so. Several threads may call.
std::optional<std::string> runInChild(std::chrono::steady_clock::time_point deadline,
                                      llvm::function_ref<std::string()> work, std::string &failure);

} // namespace intarsia::plan

#endif
