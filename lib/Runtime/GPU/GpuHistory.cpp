//===- GpuHistory.cpp - Which launches of a GPU may have caused a fault -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuHistory.h"

#include "lib/Support/Status.h"

#include <algorithm>
#include <vector>

namespace intarsia::runtime {

/// Launches of a queue that are kept.
static constexpr size_t keptLaunches = 4096;
/// Kernels that the message of a fault names.
static constexpr size_t namedKernels = 8;

void GpuHistory::note(uint32_t queue, uint64_t index, const char *name, const char *label,
                      const Executable *executable) {
  std::lock_guard lock(mutex_);
  std::deque<Started> &started = queues_[queue];
  started.push_back({index, name, label, executable});
  if (started.size() > keptLaunches)
    started.pop_front();
}

void GpuHistory::finish(uint32_t queue, uint64_t index) {
  std::lock_guard lock(mutex_);
  std::deque<Started> &started = queues_[queue];
  while (!started.empty() && started.front().index <= index)
    started.pop_front();
}

void GpuHistory::forget(const Executable *executable) {
  std::lock_guard lock(mutex_);
  for (auto &[queue, started] : queues_)
    std::erase_if(started, [&](const Started &one) { return one.executable == executable; });
}

std::string GpuHistory::suspects() const {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  std::vector<std::string> kernels;
  for (const auto &[queue, started] : queues_)
    for (const Started &one : started) {
      ++count;
      if (std::string text = format("'%s' (%s)", one.name, one.label);
          std::find(kernels.begin(), kernels.end(), text) == kernels.end())
        kernels.push_back(text);
    }
  if (kernels.empty())
    return "no kernel was running";
  if (kernels.size() == 1)
    return "kernel " + kernels[0] + " was running";
  size_t more = kernels.size() - std::min(kernels.size(), namedKernels);
  kernels.resize(kernels.size() - more);
  return format("one of %zu launches that were not known to be done caused it: kernels %s%s; set "
                "ITX_GPU_SYNCHRONOUS=1 to learn which",
                count, join(kernels).c_str(), more == 0 ? "" : format(" and %zu more", more).c_str());
}

} // namespace intarsia::runtime
