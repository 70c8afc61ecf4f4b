//===- GpuMarks.cpp - Points in the streams of a GPU ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuMarks.h"

namespace intarsia::runtime {

void GpuMarks::clear() {
  std::lock_guard lock(mutex_);
  for (void *event : unused_)
    driver_.destroyEvent(event);
  unused_.clear();
}

GpuResult GpuMarks::record(void *stream, GpuMark &mark) {
  void *event = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      event = unused_.back();
      unused_.pop_back();
    }
  }
  if (!event)
    if (GpuResult made = driver_.createEvent(/*isTimed=*/false, event); !made.ok())
      return made;
  GpuMark result(event, [this](void *unused) {
    std::lock_guard lock(mutex_);
    unused_.push_back(unused);
  });
  GpuResult recorded = driver_.recordEvent(event, stream);
  if (recorded.ok())
    mark = std::move(result);
  return recorded;
}

} // namespace intarsia::runtime
