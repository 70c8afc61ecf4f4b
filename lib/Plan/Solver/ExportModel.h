//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The placement problem without its bounds on times, as a mixed-integer program for other solvers.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_EXPORTMODEL_H
#define INTARSIA_PLAN_EXPORTMODEL_H

#include "Program.h"

namespace intarsia::plan {

/// Writes the model in CPLEX's LP format. Errors name the path.
llvm::Error exportModel(const Program &program, llvm::StringRef path);

} // namespace intarsia::plan

#endif
