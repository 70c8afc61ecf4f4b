//===- Options.h - Command line of intarsia-plan ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_PLAN_OPTIONS_H
#define INTARSIA_TOOLS_PLAN_OPTIONS_H

#include "intarsia/Plan/Planner.h"

namespace intarsia {

/// Parses the flags. Ends the program on invalid flags, and after --help and --version.
PlannerOptions parsePlannerOptions(int argc, char **argv);

} // namespace intarsia

#endif
