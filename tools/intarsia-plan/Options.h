//===- Options.h - Command line of intarsia-plan
//---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_PLAN_OPTIONS_H
#define INTARSIA_TOOLS_PLAN_OPTIONS_H

#include "intarsia/Plan/Planner.h"

namespace intarsia {

/// Ends the program on flags that make no sense, and after --help and --version.
PlannerOptions parsePlannerOptions(int argc, char **argv);

} // namespace intarsia

#endif
