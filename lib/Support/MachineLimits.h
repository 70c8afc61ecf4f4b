//===- MachineLimits.h - How much of this machine a process may use -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one answer to how many threads and how much memory there are: compiler, runtime and planner ask here. `root` is
// put before every path of /proc and /sys, for tests.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_MACHINELIMITS_H
#define INTARSIA_LIB_SUPPORT_MACHINELIMITS_H

#include <cstdint>
#include <string>
#include <vector>

namespace intarsia {

/// Numbers of the processors that this process may run on (its affinity mask), ascending; {0} where the system does not
/// say.
std::vector<int> allowedProcessors();

/// Returns how many threads can run at once: the allowed processors, or the smallest CPU quota of the cgroups (versions
/// 1 and 2) that this process is in, rounded up, where that is less. At least 1.
int32_t usableThreads(const std::string &root = "");

/// Bytes that this process can still take without swapping: what the machine has available, or what the memory limit
/// of a cgroup leaves. UINT64_MAX where neither is known.
uint64_t availableMemoryBytes(const std::string &root = "");

/// Bytes of memory of the machine, or the limit of a cgroup where that is less. 0 where the system does not say.
uint64_t totalMemoryBytes(const std::string &root = "");

} // namespace intarsia

#endif
