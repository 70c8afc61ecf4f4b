//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Times a program that `check` accepts, without values.
//
// Each core has a clock. An op begins when the core has ended the one before it and, where it needs a message, when
// that is there: sums and maxima only. A message holds each link of its path for its length; links are shared by
// colors, and serve messages in the order of the program's ops. A transfer ends when its last word is in the memory of
// the receiver, which stops the sender too, as routers hold no more than a few words.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_WAFER_TIMING_H
#define INTARSIA_LIB_RUNTIME_WAFER_TIMING_H

#include "lib/Runtime/Wafer/Program.h"

#include <vector>

namespace intarsia::wafer {

struct Timing {
  double cycles = 0;         ///< until the last core ends
  double computeCycles = 0;  ///< of arithmetic, on the core that computes most
  double waitCycles = 0;     ///< in which the core that waits most does nothing
  double linkCycles = 0;     ///< in which the link with the most traffic carries words
  int64_t lastCore = 0;      ///< the core that ends last
  int64_t iterations = 0;    ///< of loops, that were simulated; the others follow from the loop's period
  int64_t allIterations = 0; ///< of loops
};

/// What each core and its router did, by `row * columns + column`, in cycles.
struct TimingOfCores {
  std::vector<double> computed; ///< arithmetic
  std::vector<double> waited;   ///< nothing
  std::vector<double> carried;  ///< words on the busiest of the four links that leave the core's router
};

/// Returns the times of a program, and those of its cores if `cores` is not null.
Timing time(const Program &program, TimingOfCores *cores = nullptr);

} // namespace intarsia::wafer

#endif
