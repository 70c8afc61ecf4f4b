//===- Profile.h - A record of launches, written as Chrome-trace JSON ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_PROFILE_H
#define INTARSIA_RUNTIME_CORE_PROFILE_H

#include "lib/Support/Status.h"

#include <atomic>
#include <cstdint>

namespace intarsia::runtime {

struct ProfileEvent {
  const char *category; // "kernel", "copy", "call"
  std::string name;
  std::string label;
  int64_t beginNs = 0;
  int64_t endNs = 0;
  int64_t tiles = 0;
  int32_t threads = 0;
};

extern std::atomic<bool> profiling;

inline bool isProfiling() { return profiling.load(std::memory_order_relaxed); }
int64_t profileClockNs();
void recordEvent(ProfileEvent event);
void startProfile();
/// Stops recording and writes the profile; an empty path drops it.
Status stopProfile(const std::string &path);

} // namespace intarsia::runtime

#endif
