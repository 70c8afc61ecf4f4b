//===- ThreadSettings.cpp - What the environment and the machine say about threads --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/ThreadPool.h"
#include "lib/Support/MachineLimits.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace intarsia::runtime {

/// A number in an environment variable; an empty variable counts as not set.
struct Variable {
  const char *name;
  const char *what;
  long low, high;
};
static constexpr Variable threadsVariable = {"ITX_THREADS", "threads of a call", 1, maximumThreads};
static constexpr Variable spinVariable = {"ITX_SPIN_US", "microseconds an idle thread waits awake", 0, 1000000};

/// Reads the variable; leaves `value` as it is if the variable is not set.
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

Status checkThreads(int32_t threads) {
  if (threads >= 0 && threads <= maximumThreads)
    return Status::success();
  return error(ITX_INVALID_ARGUMENT, "%d threads; 1 to %d are possible, 0 means the default", threads, maximumThreads);
}

int32_t defaultThreads() {
  long threads = 0;
  if (readVariable(threadsVariable, threads).ok() && threads != 0)
    return int32_t(threads);
  return std::min(usableThreads(), maximumThreads);
}

int32_t spinMicroseconds() {
  // Waking a parked thread takes about 50 µs, and the serial part between two kernels of a model less than 10 µs;
  // 1000 µs also bridge the time of the application between two calls.
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
