//===- HostMemory.h - How much memory a process may take ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CPU_HOSTMEMORY_H
#define INTARSIA_RUNTIME_CPU_HOSTMEMORY_H

#include <cstdint>
#include <string>
#include <vector>

namespace intarsia::runtime {

/// A cgroup's folder below /sys/fs/cgroup.
struct CgroupFolder {
  std::string path;
  bool isVersion2 = false;
};

/// The folders that limit this process for a controller ("cpu", "memory"), its own first. `root` is put before every
/// path.
std::vector<CgroupFolder> cgroupFolders(const std::string &controller, const std::string &root = "");

/// Bytes that this process can still take without swapping: what the machine has available, or what the memory limit
/// of a cgroup leaves. UINT64_MAX where neither is known.
uint64_t availableMemoryBytes(const std::string &root = "");

} // namespace intarsia::runtime

#endif
