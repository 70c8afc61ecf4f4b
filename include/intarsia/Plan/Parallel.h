//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_PARALLEL_H
#define INTARSIA_PLAN_PARALLEL_H

#include <string>

namespace intarsia {

/// Costs the configurations of a file (docs/parallel.md), or searches for the fastest, and prints a table to standard
/// output. Returns the exit status: 1 for a file that is wrong, and if no configuration fits.
int runParallel(const std::string &file);

} // namespace intarsia

#endif
