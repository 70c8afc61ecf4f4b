//===- GpuHistory.h - Which launches of a GPU may have caused a fault -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUHISTORY_H
#define INTARSIA_RUNTIME_GPU_GPUHISTORY_H

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace intarsia::runtime {

class Executable;

/// The launches that are not known to be done. A GPU reports a fault some time after the launch that caused it, without
/// its name: it is one of these. All members may be called from several threads at once.
class GpuHistory {
public:
  /// Notes a launch that is about to be started, with its index in its queue. Name and label live as long as the
  /// executable.
  void note(uint32_t queue, uint64_t index, const char *name, const char *label, const Executable *executable);
  /// Drops the launches of a queue up to an index: they are done.
  void finish(uint32_t queue, uint64_t index);
  /// Drops the launches of an executable.
  void forget(const Executable *executable);
  /// Returns which kernels may have caused a fault, for people.
  std::string suspects() const;

private:
  struct Started {
    uint64_t index;
    const char *name, *label;
    const Executable *executable;
  };

  mutable std::mutex mutex_;
  std::map<uint32_t, std::deque<Started>> queues_; ///< the latest launches of each
};

} // namespace intarsia::runtime

#endif
