//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Work on all threads of the processor, each pinned, and reading its memory with them.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PROBE_READING_H
#define INTARSIA_LIB_PROBE_READING_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace intarsia::probe {

/// Returns the processors that this process may use, at most as many as its control group gives time for. `root` is
/// that of /proc and /sys.
std::vector<int> threadsAllowed(const std::string &root);

struct Seconds {
  double all = 0;     ///< until the last thread was done
  double busiest = 0; ///< largest time that a thread had on its processor, without the time that other processes took
};

/// Runs the work on each of the threads, pinned to it.
Seconds secondsOn(const std::vector<int> &threads, const std::function<void(size_t)> &work);

/// Arrays of the threads, which they read together.
class Reading {
public:
  Reading(std::vector<int> threads, double bytes);

  double bytes() const { return double(count) * 8 * double(threads.size()); }
  /// Returns the seconds of one round. Ends the program on a wrong sum, as no figure could then be trusted.
  double seconds() const;

private:
  std::vector<int> threads;
  std::vector<std::unique_ptr<uint64_t[]>> words;
  int64_t count = 0;
};

} // namespace intarsia::probe

#endif
