//===- Session.h - One run: load, call, write ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_RUN_SESSION_H
#define INTARSIA_TOOLS_RUN_SESSION_H

#include "tools/intarsia-run/Options.h"

namespace intarsia::run {

/// Returns true if the running executable was made with --emit=exe.
bool carriesModule();

/// Runs the session that the options describe; prints errors. Returns the exit code.
int runSession(const Options &options);

} // namespace intarsia::run

#endif
