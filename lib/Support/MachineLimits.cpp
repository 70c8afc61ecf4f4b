//===- MachineLimits.cpp - How much of this machine a process may use ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Support/MachineLimits.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sched.h>

namespace intarsia {

namespace {
/// A cgroup's folder below /sys/fs/cgroup.
struct CgroupFolder {
  std::string path;
  bool isVersion2 = false;
};
} // namespace

/// Returns the folders that limit this process for a controller ("cpu", "memory"), its own first.
static std::vector<CgroupFolder> cgroupFolders(const std::string &controller, const std::string &root) {
  std::vector<CgroupFolder> folders;
  std::string base = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) { // version 2
      for (;;) {
        folders.push_back({base + (path == "/" ? "" : path), true});
        size_t slash = path.rfind('/');
        if (path.size() <= 1 || slash == std::string::npos)
          break;
        path.resize(std::max<size_t>(slash, 1));
      }
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      folders.push_back({base + "/" + controller + path, false});
      folders.push_back({base + "/" + controller, false});
    }
  }
  return folders;
}

/// Reads the number in a file; returns false if there is none, as in "max".
static bool readNumber(const std::string &path, uint64_t &number) { return bool(std::ifstream(path) >> number); }

/// Reads the number after a word at the beginning of a line.
static bool readField(const std::string &path, const std::string &field, uint64_t &number) {
  std::ifstream file(path);
  std::string word, rest;
  while (file >> word) {
    if (word == field)
      return bool(file >> number);
    std::getline(file, rest);
  }
  return false;
}

std::vector<int> allowedProcessors() {
  std::vector<int> processors;
  // The call fails if the machine has more processors than fit in the mask.
  for (int most = 1024; most <= 1 << 18 && processors.empty(); most *= 4) {
    cpu_set_t *set = CPU_ALLOC(most);
    if (!set)
      break;
    size_t bytes = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(bytes, set);
    if (sched_getaffinity(0, bytes, set) == 0)
      for (int processor = 0; processor < most; ++processor)
        if (CPU_ISSET_S(processor, bytes, set))
          processors.push_back(processor);
    CPU_FREE(set);
  }
  if (processors.empty())
    processors.push_back(0);
  return processors;
}

/// Returns the CPU quota of one cgroup folder in processors; 0 without a limit.
static double cpuQuota(const CgroupFolder &folder) {
  std::string quota;
  double period = 0;
  if (folder.isVersion2) {
    // "200000 100000", or "max 100000"
    std::ifstream file(folder.path + "/cpu.max");
    file >> quota >> period;
  } else {
    // -1 without a limit
    std::ifstream(folder.path + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder.path + "/cpu.cfs_period_us") >> period;
  }
  double microseconds = std::atof(quota.c_str()); // 0 for "max"
  return microseconds > 0 && period > 0 ? microseconds / period : 0;
}

int32_t usableThreads(const std::string &root) {
  double threads = double(allowedProcessors().size());
  for (const CgroupFolder &folder : cgroupFolders("cpu", root))
    if (double quota = cpuQuota(folder); quota > 0)
      threads = std::min(threads, std::ceil(quota));
  return std::max(int32_t(threads), int32_t(1));
}

/// Returns the memory limit of a cgroup in bytes; UINT64_MAX without one.
static uint64_t memoryLimit(const CgroupFolder &folder) {
  uint64_t limit = 0;
  std::string file = folder.path + (folder.isVersion2 ? "/memory.max" : "/memory.limit_in_bytes");
  return readNumber(file, limit) ? limit : UINT64_MAX;
}

uint64_t availableMemoryBytes(const std::string &root) {
  uint64_t available = UINT64_MAX, kibibytes = 0;
  if (readField(root + "/proc/meminfo", "MemAvailable:", kibibytes))
    available = kibibytes * 1024;
  for (const CgroupFolder &folder : cgroupFolders("memory", root)) {
    uint64_t limit = memoryLimit(folder), used = 0, reclaimable = 0;
    if (limit == UINT64_MAX ||
        !readNumber(folder.path + (folder.isVersion2 ? "/memory.current" : "/memory.usage_in_bytes"), used))
      continue;
    // Cached files count as used, but their memory is freed when it is needed.
    readField(folder.path + "/memory.stat", folder.isVersion2 ? "inactive_file" : "total_inactive_file", reclaimable);
    used -= std::min(used, reclaimable);
    available = std::min(available, limit - std::min(limit, used));
  }
  return available;
}

uint64_t totalMemoryBytes(const std::string &root) {
  uint64_t kibibytes = 0;
  if (!readField(root + "/proc/meminfo", "MemTotal:", kibibytes))
    return 0;
  uint64_t total = kibibytes * 1024;
  for (const CgroupFolder &folder : cgroupFolders("memory", root))
    total = std::min(total, memoryLimit(folder));
  return total;
}

} // namespace intarsia
