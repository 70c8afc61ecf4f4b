//===- arrivals.cpp - Fuzz the reader of recorded arrivals ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Simulation.h"
#include <cmath>

using namespace intarsia::plan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), bytes);
  auto arrivals = readArrivals(text, "fuzz", {"chat", "search"});
  if (!arrivals) {
    if (llvm::toString(arrivals.takeError()).empty())
      __builtin_trap();
    return 0;
  }
  // Parsed arrivals can be simulated: they begin at 0 and do not decrease.
  double last = 0;
  for (auto [milliseconds, agent] : *arrivals) {
    if (!std::isfinite(milliseconds) || milliseconds < last || agent < 0 || agent > 1)
      __builtin_trap();
    last = milliseconds;
  }
  if (!arrivals->empty() && arrivals->front().first != 0)
    __builtin_trap();
  return 0;
}
