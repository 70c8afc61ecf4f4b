//===- MakeCode.h - LLVM IR becomes objects or assembly -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_MAKECODE_H
#define INTARSIA_LIB_TARGET_MAKECODE_H

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

#include <vector>

namespace intarsia::target {

/// Loops of kernels, which are emitted as they are meant to be.
enum class Loops {
  Keep,  ///< neither vectorized nor unrolled: sums stay in their order
  Unroll ///< unrolled where LLVM finds it worth while
};

/// Returns all that code depends on besides the module and the compiler.
std::string settingsOf(const llvm::TargetMachine &machine, Loops loops, llvm::CodeGenFileType type);

/// Runs LLVM's default passes (-O2, of loops that it may unroll -O3) on a module for a machine, and its code generator.
/// For a machine whose code generator does not optimize there are no passes.
llvm::Expected<std::vector<char>> makeCode(llvm::Module &module, llvm::TargetMachine &machine, Loops loops,
                                           llvm::CodeGenFileType type);

/// The same, unless it was done before (KernelCache.h).
llvm::Expected<std::vector<char>> makeCodeOnce(llvm::Module &module, llvm::TargetMachine &machine, Loops loops,
                                               llvm::CodeGenFileType type);

} // namespace intarsia::target

#endif
