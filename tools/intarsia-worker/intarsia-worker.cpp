//===- intarsia-worker.cpp - An engine in a process of its own ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-worker/Options.h"
#include "tools/intarsia-worker/Serve.h"

#include <csignal>

int main(int argc, char **argv) {
  std::signal(SIGXFSZ, SIG_IGN); // writes behind a limit of files (ulimit -f) fail instead, with a message
  intarsia::worker::Options options;
  int exitCode = 0;
  if (!intarsia::worker::parseOptions(argc, argv, options, exitCode))
    return exitCode;
  if (intarsia::worker::isLauncher(options, exitCode))
    return exitCode != 0 ? exitCode : intarsia::worker::launch(options, argc, argv);
  return intarsia::worker::serve(options);
}
