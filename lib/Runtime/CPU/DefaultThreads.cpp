//===- DefaultThreads.cpp - How many threads the machine grants this process --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/ThreadPool.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sched.h>
#include <string>

namespace intarsia::runtime {

static constexpr long maximumThreads = 1024;

static long affinityCpus() {
  for (int cpus = 1024; cpus <= 1 << 18; cpus *= 4) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    if (!set)
      break;
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(bytes, set);
    bool good = sched_getaffinity(0, bytes, set) == 0;
    long count = good ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (good)
      return count;
  }
  return 1;
}

/// CPUs of one cgroup v2 folder's "cpu.max" ("200000 100000", "max 100000"), or 0 without a limit.
static double quotaOf(const std::string &folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0)
    return 0;
  return std::atof(quota.c_str()) / period;
}

/// The smallest quota on the way from this process's cgroup to the root; 0 without one.
static double cgroupCpus() {
  double result = 0;
  auto consider = [&](double cpus) {
    if (cpus > 0 && (result == 0 || cpus < result))
      result = cpus;
  };
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) { // version 2
      for (;;) {
        consider(quotaOf("/sys/fs/cgroup" + (path == "/" ? "" : path)));
        size_t slash = path.rfind('/');
        if (path.size() <= 1 || slash == std::string::npos)
          break;
        path.resize(std::max<size_t>(slash, 1));
      }
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      for (const std::string &folder : {"/sys/fs/cgroup/cpu" + path, std::string("/sys/fs/cgroup/cpu")}) {
        double quota = 0, period = 0;
        std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
        std::ifstream(folder + "/cpu.cfs_period_us") >> period;
        if (quota > 0 && period > 0)
          consider(quota / period);
      }
    }
  }
  return result;
}

int32_t defaultThreads() {
  if (const char *text = std::getenv("ITX_THREADS")) {
    char *end;
    long threads = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && threads >= 1)
      return int32_t(std::min(threads, maximumThreads));
  }
  long threads = affinityCpus();
  if (double cpus = cgroupCpus(); cpus > 0)
    threads = std::min(threads, long(std::ceil(cpus)));
  return int32_t(std::clamp(threads, 1l, maximumThreads));
}

} // namespace intarsia::runtime
