//===- HostMemory.cpp - How much memory a process may take --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/HostMemory.h"

#include <algorithm>
#include <fstream>

namespace intarsia::runtime {

std::vector<CgroupFolder> cgroupFolders(const std::string &controller, const std::string &root) {
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

/// The number of a file that holds one ("max" is none).
static bool readNumber(const std::string &path, uint64_t &number) { return bool(std::ifstream(path) >> number); }

/// The number after a word at the beginning of a line.
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

uint64_t availableMemoryBytes(const std::string &root) {
  uint64_t available = UINT64_MAX, kibibytes = 0;
  if (readField(root + "/proc/meminfo", "MemAvailable:", kibibytes))
    available = kibibytes * 1024;
  for (const CgroupFolder &folder : cgroupFolders("memory", root)) {
    uint64_t limit = 0, used = 0, reclaimable = 0;
    if (!readNumber(folder.path + (folder.isVersion2 ? "/memory.max" : "/memory.limit_in_bytes"), limit) ||
        !readNumber(folder.path + (folder.isVersion2 ? "/memory.current" : "/memory.usage_in_bytes"), used))
      continue;
    // Cached files count as used, and make room as soon as it is needed.
    readField(folder.path + "/memory.stat", folder.isVersion2 ? "inactive_file" : "total_inactive_file", reclaimable);
    used -= std::min(used, reclaimable);
    available = std::min(available, limit - std::min(limit, used));
  }
  return available;
}

} // namespace intarsia::runtime
