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

/// A piece of work. What a thread of the host does is shown in the track of the thread that records it, what another
/// device does in the track of the device's queue.
struct ProfileEvent {
  const char *category; // "kernel", "copy", "call", "simulated"
  std::string name;
  std::string label;
  int64_t beginNs = 0;
  int64_t endNs = 0;
  int64_t tiles = 0;
  int32_t threads = 0;          // 0: the event has neither tiles nor threads
  const char *device = nullptr; // name of the device, which lives as long as the process; null: a thread of the host
  uint32_t queue = 0;           // of the device
  double cycles = 0;            // of a simulated device, in whose time the event begins and ends; 0: none
  int64_t rows = 0;             // that were computed in these cycles
  double joules = 0;            // that the device draws at most in this time; 0: not known
};

extern std::atomic<bool> profiling;

inline bool isProfiling() { return profiling.load(std::memory_order_relaxed); }
int64_t profileClockNs();
/// Returns when the profile that is being recorded was started, on the clock of profileClockNs().
int64_t profileStartNs();
void recordEvent(ProfileEvent event);
void startProfile();
/// Stops recording and returns the profile as JSON.
Status takeProfile(std::string &text);
/// Stops recording and writes the profile; an empty path drops it.
Status stopProfile(const std::string &path);

} // namespace intarsia::runtime

#endif
