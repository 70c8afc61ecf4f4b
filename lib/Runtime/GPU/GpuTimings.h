//===- GpuTimings.h - When the work of a GPU began and ended, for profiles --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUTIMINGS_H
#define INTARSIA_RUNTIME_GPU_GPUTIMINGS_H

#include "lib/Runtime/Core/Profile.h"
#include "lib/Runtime/GPU/GpuState.h"

#include <deque>

namespace intarsia::runtime {

/// Records pieces of work in the profile. The device takes the times; they are read when somebody has waited for work.
/// Callers hold the lock of the device's queues and have entered the device. A failure of the driver here leaves pieces
/// out of the profile and changes nothing else.
class GpuTimings {
public:
  /// `device` is the device's name, which lives as long as the process.
  GpuTimings(GpuDriver &driver, const char *device) : driver_(driver), device_(device) {}

  /// Notes the beginning of a piece of work of a queue.
  void begin(uint32_t queue, void *stream, const char *category, std::string name, std::string label);
  /// Notes the end of the piece that was begun last.
  void end(void *stream);
  /// Leaves out the piece that was begun last.
  void cancel();
  /// Records the pieces that are done.
  void collect();

private:
  struct Timing {
    ProfileEvent event;
    bool isEnded = false; ///< its end is in the stream
    void *begin = nullptr, *end = nullptr;
  };

  /// Returns an event that takes times; null if there is none.
  void *makeEvent();
  void drop(Timing &timing);
  bool updateOrigin();

  GpuDriver &driver_;
  const char *const device_;
  std::vector<void *> unused_;
  std::deque<Timing> timings_;
  bool isOpen_ = false;    ///< the last timing has begun
  void *stream_ = nullptr; ///< of the origin
  void *origin_ = nullptr; ///< an event that happened at originNs_
  int64_t originNs_ = 0;
};

} // namespace intarsia::runtime

#endif
