//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_REGISTRATION_OPTMAIN_H
#define INTARSIA_REGISTRATION_OPTMAIN_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace intarsia {

/// Runs passes of Intarsia and MLIR on a file, according to the arguments; `registerMore` registers more passes. `tool`
/// starts each message. Returns the exit code.
int optMain(int argc, char **argv, llvm::StringRef tool, llvm::function_ref<void()> registerMore = [] {});

} // namespace intarsia

#endif
