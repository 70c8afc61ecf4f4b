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
#include <utility>

namespace intarsia {

/// Parses the command line; ends the process after --help, --version or an unknown flag. The second result is there if
/// a plan is to be compiled.
std::pair<CompileOptions, std::optional<DeployOptions>> parseOptions(int argc, char **argv);

} // namespace intarsia

#endif
