//===- Host.h - Machines that host code is compiled for -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Host code runs on the processor of the machine that an artifact is loaded on. Targets whose kernels run there too use
// the same machines.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_HOST_H
#define INTARSIA_LIB_TARGET_HOST_H

#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>

namespace intarsia::target {

/// Returns the LLVM triple of hosts with this architecture: AArch64 or x86-64, both with Linux.
llvm::StringRef hostTriple(bool isAArch64);
/// Returns the triple of the machine that compiles.
llvm::StringRef nativeTriple();

/// Makes an LLVM machine for position-independent code of the baseline processor of a host triple, with more features
/// as LLVM writes them ("+avx2,+fma"). `fusion` says whether products and sums may be one rounding, and `level` how
/// much its code generator optimizes.
std::unique_ptr<llvm::TargetMachine> makeHostMachine(llvm::StringRef triple, llvm::StringRef features,
                                                     llvm::FPOpFusion::FPOpFusionMode fusion,
                                                     llvm::CodeGenOptLevel level = llvm::CodeGenOptLevel::Default);

/// Returns the emulation of a host triple that lld's -m takes, "elf_x86_64".
std::string elfEmulation(llvm::StringRef triple);

} // namespace intarsia::target

#endif
