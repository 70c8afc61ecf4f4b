//===- Timing.h - What simulated devices took, from a profile -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_RUN_TIMING_H
#define INTARSIA_TOOLS_RUN_TIMING_H

#include "tools/intarsia-run/Handles.h"

#include <string>

namespace intarsia::run {

/// The calls of a language model that a profile has: those of the prompt, then one for each token.
struct StepCalls {
  int64_t promptTokens = 0, promptCalls = 0, decodeCalls = 0;
};

/// Returns a table of the launches on simulated devices that a profile has recorded, with tokens a second if there were
/// calls that decode one token each. Fails if there is no such launch. `profile` is the text of a trace.
std::string simulatedTimes(const std::string &profile, const StepCalls &calls);

} // namespace intarsia::run

#endif
