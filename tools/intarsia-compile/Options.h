//===- Options.h - The command line of intarsia-compile ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_COMPILE_OPTIONS_H
#define INTARSIA_TOOLS_COMPILE_OPTIONS_H

#include "intarsia/Compiler/Deploy.h"
#include <optional>

namespace intarsia {

/// What the command line asks for.
struct Request {
  CompileOptions options;
  std::optional<DeployOptions> deployed; ///< of a plan that is to be compiled
  bool listsOps = false;                 ///< of the model, in place of an artifact
};

/// Parses the command line; ends the process after --help, --version or an unknown flag.
Request parseOptions(int argc, char **argv);

} // namespace intarsia

#endif
