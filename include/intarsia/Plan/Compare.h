//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_COMPARE_H
#define INTARSIA_PLAN_COMPARE_H

#include <string>

namespace intarsia {

/// Prints the times of a plan that --json wrote beside those of a profile that `intarsia bench deployment` measured,
/// with their relative errors. Returns the exit status: 1 for a file that is wrong, and for a profile of another plan.
int runCompare(const std::string &plan, const std::string &profile);

} // namespace intarsia

#endif
