//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Which bytes of each core hold values that are still needed, while a program runs with values.
//
// A buffer is in use on a core from the op that writes it to the last one that reads it, or to the await that ends its
// last transfer. This is found from the ops that the simulator executes, core by core, and knows nothing of the places
// and lifetimes that the compiler has found: tests compare the two.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_WAFER_MEMORYWATCH_H
#define INTARSIA_LIB_RUNTIME_WAFER_MEMORYWATCH_H

#include "lib/Runtime/Wafer/Functional.h"

namespace intarsia::wafer {

/// The most that a core has in use at one time, with what the runtime reserves.
struct MemoryUse {
  int64_t bytes = 0; ///< of all buffers in use
  int64_t core = 0;  ///< that has so many
  int64_t end = 0;   ///< after the last byte that any core uses
  /// Two buffers that share bytes and are in use on a core at the same time; "" if there are none.
  std::string overlap;
};

class MemoryWatch {
public:
  /// The program must outlive the watch.
  explicit MemoryWatch(const Program &program);

  /// Notes an op that is executed: `bound` has the buffer of each slot.
  void record(const Op &op, const std::vector<int> &bound, int64_t iteration);
  /// Returns what was in use; outputs are to the end.
  MemoryUse result();

private:
  /// The ops from the one that writes a buffer to the last one that needs it.
  struct Interval {
    int64_t first = 0, last = 0;
    int buffer = 0;
  };
  struct Core {
    std::vector<Interval> ended;
    std::vector<Interval> current; ///< by buffer; `last` is less than `first` if nothing was written
    std::vector<int> transferred;  ///< buffers that it sends or receives
  };

  const Program &program;
  std::vector<int64_t> sizes, places; ///< by buffer, in bytes
  std::vector<Core> cores;
  int64_t now = 0;

  void read(Core &core, int buffer) { core.current[size_t(buffer)].last = now; }
  void write(Core &core, int buffer);
  void useOf(int64_t core, MemoryUse &use) const;
};

/// Runs a program as `run` does, and says what it had in use. A program that uses more than was counted for a core, or
/// bytes twice, is wrong.
std::string runWatched(const Program &program, const std::vector<Matrix> &inputs, std::vector<Matrix> &outputs,
                       int64_t tokens, MemoryUse &use);

} // namespace intarsia::wafer

#endif
