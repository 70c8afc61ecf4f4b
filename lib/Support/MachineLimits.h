//===- MachineLimits.h - How much of this machine a process may use -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Number of threads and size of memory, for compiler, runtime and planner. `root` is put before every path of /proc and
// /sys, for tests.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_MACHINELIMITS_H
#define INTARSIA_LIB_SUPPORT_MACHINELIMITS_H

#include <cstdint>
#include <string>
#include <vector>

namespace intarsia {

/// Returns the numbers of the processors that this process may run on (its affinity mask), ascending; {0} if the system
/// does not say.
std::vector<int> allowedProcessors();

/// Returns how many threads can run at once: the allowed processors, or the smallest CPU quota of the cgroups (versions
/// 1 and 2) that this process is in, rounded up, where that is less. At least 1.
int32_t usableThreads(const std::string &root = "");

/// Returns the bytes that this process can still take without swapping: the smaller of the machine's available memory
/// and the rest of a cgroup's limit. UINT64_MAX if neither is known.
uint64_t availableMemoryBytes(const std::string &root = "");

/// Returns the bytes of memory of the machine, or the limit of a cgroup if that is less. 0 if the system does not say.
uint64_t totalMemoryBytes(const std::string &root = "");

} // namespace intarsia

#endif
