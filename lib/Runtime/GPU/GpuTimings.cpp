//===- GpuTimings.cpp - When the work of a GPU began and ended, for profiles ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuTimings.h"

namespace intarsia::runtime {

/// Drivers return differences of times as floats of milliseconds: after so long they resolve half a microsecond.
static constexpr int64_t originNs = int64_t(8) * 1000 * 1000 * 1000;

void *GpuTimings::makeEvent() {
  if (!unused_.empty()) {
    void *event = unused_.back();
    unused_.pop_back();
    return event;
  }
  void *event = nullptr;
  return driver_.createEvent(/*isTimed=*/true, event).ok() ? event : nullptr;
}

/// Notes what the host's clock says at a time of the device's, unless that was done a short while ago. Returns false if
/// the driver cannot.
bool GpuTimings::updateOrigin() {
  if (origin_ && profileClockNs() - originNs_ < originNs)
    return true;
  if (!timings_.empty()) // their times refer to the origin that there is
    return origin_ != nullptr;
  if (!stream_ && !driver_.createStream(stream_).ok())
    return false;
  if (!origin_ && !(origin_ = makeEvent()))
    return false;
  // The thread may be held up between both clocks, for milliseconds on a busy machine: the distance is then asked
  // again.
  constexpr int64_t quickNs = 500'000;
  constexpr int mostTries = 8;
  for (int i = 0; i != mostTries; ++i) {
    int64_t before = profileClockNs();
    if (!driver_.recordEvent(origin_, stream_).ok() || !driver_.synchronizeEvent(origin_).ok())
      return false;
    originNs_ = profileClockNs();
    if (originNs_ - before < quickNs)
      break;
  }
  return true;
}

void GpuTimings::begin(uint32_t queue, void *stream, const char *category, std::string name, std::string label) {
  cancel();
  if (!isProfiling() || !updateOrigin())
    return;
  Timing timing;
  timing.begin = makeEvent();
  timing.end = makeEvent();
  if (!timing.begin || !timing.end || !driver_.recordEvent(timing.begin, stream).ok())
    return drop(timing);
  timing.event = {category, std::move(name), std::move(label)};
  timing.event.device = device_;
  timing.event.queue = queue;
  timings_.push_back(std::move(timing));
  isOpen_ = true;
}

void GpuTimings::end(void *stream) {
  if (!isOpen_)
    return;
  timings_.back().isEnded = true;
  if (!driver_.recordEvent(timings_.back().end, stream).ok())
    return cancel();
  isOpen_ = false;
}

void GpuTimings::cancel() {
  if (!isOpen_)
    return;
  isOpen_ = false;
  drop(timings_.back());
  timings_.pop_back();
}

void GpuTimings::drop(Timing &timing) {
  for (void *event : {timing.begin, timing.end})
    if (event)
      unused_.push_back(event);
}

void GpuTimings::collect() {
  auto isCollected = [&](Timing &timing) {
    float begin = 0, end = 0;
    GpuResult result;
    if (timing.isEnded)
      result = driver_.elapsed(origin_, timing.end, end);
    if (!timing.isEnded || result.failure == GpuFailure::NotReady)
      return false;
    if (result.ok() && driver_.elapsed(origin_, timing.begin, begin).ok()) {
      timing.event.beginNs = originNs_ + int64_t(double(begin) * 1e6);
      timing.event.endNs = originNs_ + int64_t(double(end) * 1e6);
      recordEvent(std::move(timing.event));
    }
    drop(timing);
    return true;
  };
  std::erase_if(timings_, isCollected);
}

} // namespace intarsia::runtime
