//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// When the buffers of a core are in use, and where they lie in its memory.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_LIFETIMES_H
#define INTARSIA_LIB_TARGET_WAFER_LIFETIMES_H

#include "lib/Runtime/Wafer/Program.h"

namespace intarsia::wafer {

/// The ops between which a buffer is in use, by their numbers in the program: from the first that touches it to the
/// last, or to the await after it if that is a transfer. Inputs are in use from -1 on and, as weights and caches stay
/// where they are, to the end; outputs to the end.
struct Lifetime {
  int64_t first = 0, last = -1;
  bool meets(const Lifetime &other) const { return first <= other.last && other.first <= last; }
};

/// Returns the lifetime of each buffer, on the core that uses it longest. An op of a loop counts as all of it, as
/// buffers are exchanged between iterations. A repeat has the number of its first op.
std::vector<Lifetime> lifetimesOf(const Program &program);

/// Returns the first byte of each buffer, after what the runtime reserves: large buffers first, each where it fits
/// below all others that it meets.
std::vector<int64_t> placesOf(const Program &program);

} // namespace intarsia::wafer

#endif
