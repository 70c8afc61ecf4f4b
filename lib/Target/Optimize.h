//===- Optimize.h - LLVM's passes before code generation ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_OPTIMIZE_H
#define INTARSIA_LIB_TARGET_OPTIMIZE_H

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace intarsia::target {

/// Loops of kernels, which are emitted as they are meant to be.
enum class Loops {
  Keep,  ///< neither vectorized nor unrolled: sums stay in their order
  Unroll ///< unrolled where LLVM finds it worth while
};

/// Runs LLVM's default passes (-O2, of loops that it may unroll -O3) on a module for a machine.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, Loops loops);

} // namespace intarsia::target

#endif
