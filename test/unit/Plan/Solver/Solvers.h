//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The solvers of mixed-integer programs that tests run.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_PLANSOLVERS_H
#define INTARSIA_TEST_UNIT_PLANSOLVERS_H

#include "intarsia/Plan/Placement.h"
#include "test/unit/Checked.h"
#include <cstdlib>

namespace intarsia::plan {

/// scripts/test.sh names the library of the Python environment, so that checks do not pass without it.
inline bool hasHighs() {
  const char *library = std::getenv("INTARSIA_HIGHS");
  return (library && *library) || std::getenv("CI");
}

/// CBC; and HiGHS where INTARSIA_HIGHS names it. In continuous integration it must.
inline std::vector<std::shared_ptr<const MixedIntegerSolver>> testedSolvers() {
  std::vector<std::shared_ptr<const MixedIntegerSolver>> solvers{checked(mixedIntegerSolver(MixedIntegerLibrary::Cbc))};
  if (!hasHighs()) {
    std::printf("without HiGHS: INTARSIA_HIGHS names no library of it\n");
    return solvers;
  }
  if (auto highs = checked(mixedIntegerSolver(MixedIntegerLibrary::Highs)))
    solvers.push_back(highs);
  return solvers;
}

} // namespace intarsia::plan

#endif
