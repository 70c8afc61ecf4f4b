//===- intarsia-run.cpp - Run a compiled model --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-run/Options.h"
#include "tools/intarsia-run/Ranks.h"
#include "tools/intarsia-run/Session.h"

#include <csignal>

int main(int argc, char **argv) {
  std::signal(SIGXFSZ, SIG_IGN); // writes behind a limit of files (ulimit -f) fail instead, with a message
  intarsia::run::Options options;
  int exitCode = 0;
  if (!intarsia::run::parseOptions(argc, argv, intarsia::run::carriesModule(), options, exitCode))
    return exitCode;
  if (intarsia::run::isLauncher(options, exitCode))
    return exitCode != 0 ? exitCode : intarsia::run::launch(options, argc, argv);
  return intarsia::run::runSession(options);
}
