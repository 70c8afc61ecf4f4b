//===- Flags.h - The flags that an artifact says it was compiled with --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COMPILER_FLAGS_H
#define INTARSIA_LIB_COMPILER_FLAGS_H

#include "intarsia/Compiler/Compiler.h"

namespace intarsia::compiler {

/// Returns the options, but for targets, that are not the default, as intarsia-compile takes them.
std::vector<std::string> flagsOf(const CompileOptions &options);

} // namespace intarsia::compiler

#endif
