//===- GpuMarks.h - Points in the streams of a GPU --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUMARKS_H
#define INTARSIA_RUNTIME_GPU_GPUMARKS_H

#include "lib/Runtime/GPU/GpuState.h"

#include <memory>

namespace intarsia::runtime {

/// A point in a stream, reached when the work before it is done: an event of the driver. The event is recorded anew for
/// another mark when nobody holds this one.
using GpuMark = std::shared_ptr<void>;

/// Makes marks. It must outlive them. Making an event costs the driver more than recording one, so they are kept.
class GpuMarks {
public:
  explicit GpuMarks(GpuDriver &driver) : driver_(driver) {}
  /// Destroys the events, unless the process was forked from that of the driver; the device must have been entered.
  void clear();

  /// Marks the end of the work that a stream has now.
  GpuResult record(void *stream, GpuMark &mark);

private:
  GpuDriver &driver_;
  std::mutex mutex_;
  std::vector<void *> unused_;
};

} // namespace intarsia::runtime

#endif
