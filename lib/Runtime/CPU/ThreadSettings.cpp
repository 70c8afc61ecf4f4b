//===- ThreadSettings.cpp - What the environment and the machine say about threads --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/HostMemory.h"
#include "lib/Runtime/CPU/ThreadPool.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sched.h>
#include <string>

namespace intarsia::runtime {

static constexpr long maximumThreads = 1024;

/// A number in the environment; not set and empty mean the same.
struct Variable {
  const char *name;
  const char *what;
  long low, high;
};
static constexpr Variable threadsVariable = {"ITX_THREADS", "threads of a call", 1, maximumThreads};
static constexpr Variable spinVariable = {"ITX_SPIN_US", "microseconds an idle thread waits awake", 0, 1000000};

/// Leaves `value` where the variable is not set.
static Status readVariable(const Variable &variable, long &value) {
  const char *text = std::getenv(variable.name);
  if (!text || !*text)
    return Status::success();
  char *end;
  errno = 0;
  long number = std::strtol(text, &end, 10);
  if (*end != '\0' || errno != 0 || number < variable.low || number > variable.high)
    return error(ITX_INVALID_ARGUMENT, "the environment variable %s is '%s', a number from %ld to %ld is wanted (%s)",
                 variable.name, text, variable.low, variable.high, variable.what);
  value = number;
  return Status::success();
}

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
  for (const CgroupFolder &folder : cgroupFolders("cpu")) {
    if (folder.isVersion2) {
      consider(quotaOf(folder.path));
      continue;
    }
    double quota = 0, period = 0;
    std::ifstream(folder.path + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder.path + "/cpu.cfs_period_us") >> period;
    if (quota > 0 && period > 0)
      consider(quota / period);
  }
  return result;
}

int32_t defaultThreads() {
  long threads = 0;
  if (readVariable(threadsVariable, threads).ok() && threads != 0)
    return int32_t(threads);
  threads = affinityCpus();
  if (double cpus = cgroupCpus(); cpus > 0)
    threads = std::min(threads, long(std::ceil(cpus)));
  return int32_t(std::clamp(threads, 1l, maximumThreads));
}

int32_t spinMicroseconds() {
  // Waking a parked thread takes about 50 µs, the serial part between two kernels of a model under 10; 1000 also
  // bridges what an application does between two calls.
  long microseconds = 1000;
  (void)readVariable(spinVariable, microseconds);
  return int32_t(microseconds);
}

Status checkThreadVariables() {
  long ignored = 0;
  ITX_RETURN_IF_ERROR(readVariable(threadsVariable, ignored));
  return readVariable(spinVariable, ignored);
}

} // namespace intarsia::runtime
