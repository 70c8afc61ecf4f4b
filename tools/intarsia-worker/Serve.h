//===- Serve.h - Make the engine, and serve it --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_WORKER_SERVE_H
#define INTARSIA_TOOLS_WORKER_SERVE_H

#include "tools/intarsia-worker/Options.h"

namespace intarsia::worker {

/// Returns whether this process starts the ranks of --world=N and is none of them. `exitCode` is not 0 after an error,
/// which it has printed.
bool isLauncher(const Options &options, int &exitCode);
/// Starts the ranks, waits for them and returns the exit code.
int launch(const Options &options, int argc, char **argv);

/// Serves until a signal or the front end ends it; rank 0 of a world serves, the others follow it. Returns the exit
/// code.
int serve(const Options &options);

} // namespace intarsia::worker

#endif
