//===- Ranks.h - One run by several processes --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_RUN_RANKS_H
#define INTARSIA_TOOLS_RUN_RANKS_H

#include "intarsia/runtime.h"
#include "tools/intarsia-run/Options.h"

namespace intarsia::run {

/// Returns true if this process should start ranks, by --world, instead of being one of those that were started. After
/// an error, which it has printed, `exitCode` is not 0.
bool isLauncher(const Options &options, int &exitCode);

/// Starts this program as all ranks of a world, with the same arguments. Returns the exit code.
int launch(const Options &options, int argc, char **argv);

/// Silences the standard output of all ranks but the first. Fails if the environment's world cannot be read.
void beginRank();

/// Returns true for a process that is in no world, and for rank 0.
bool isFirstRank();

/// Fails if --world was given for a module that one process runs alone.
void checkWorld(const itx_module *module, const Options &options);

} // namespace intarsia::run

#endif
