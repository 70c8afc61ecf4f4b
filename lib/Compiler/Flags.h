//===- Flags.h - Which flags go together, and what an artifact says of them ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COMPILER_FLAGS_H
#define INTARSIA_LIB_COMPILER_FLAGS_H

#include "intarsia/Compiler/Compiler.h"

namespace intarsia::compiler {

/// As --start-from and --stop-after name the phases.
inline constexpr llvm::StringLiteral phaseNames[] = {"import", "quantize", "partition", "fuse",
                                                     "lower",  "target",   "assemble"};

/// Refuses flags about inputs and ops of graphs for a model that is none: `kind` is "a GGUF file".
llvm::Error checkGraphFlags(const CompileOptions &options, llvm::StringRef kind);

/// Returns the files that --set names: NAME=@file.
std::vector<std::string> filesOfValues(const CompileOptions &options);

/// Checks flags against each other, for a compilation that begins with a phase. The error says which to leave out or
/// add.
llvm::Error checkFlags(const CompileOptions &options, Phase firstPhase);

/// Returns the options, but for targets, that are not the default, as intarsia-compile takes them.
std::vector<std::string> flagsOf(const CompileOptions &options);

} // namespace intarsia::compiler

#endif
