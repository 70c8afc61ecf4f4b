//===- Host.cpp - Machines that host code is compiled for ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Host.h"

#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

using namespace llvm;

namespace intarsia::target {

StringRef hostTriple(bool isAArch64) { return isAArch64 ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu"; }

StringRef nativeTriple() { return hostTriple(Triple(sys::getProcessTriple()).isAArch64()); }

static void initializeTargets() {
  static bool done = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    return true;
  }();
  (void)done;
}

std::unique_ptr<TargetMachine> makeHostMachine(StringRef tripleName, StringRef features,
                                               FPOpFusion::FPOpFusionMode fusion, CodeGenOptLevel level) {
  initializeTargets();
  std::string error;
  Triple triple(tripleName);
  const llvm::Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    report_fatal_error(Twine("LLVM was built without ") + tripleName);
  TargetOptions options;
  options.AllowFPOpFusion = fusion;
  return std::unique_ptr<TargetMachine>(target->createTargetMachine(
      triple, triple.isAArch64() ? "generic" : "x86-64", features, options, Reloc::PIC_, std::nullopt, level));
}

std::string elfEmulation(StringRef triple) { return Triple(triple).isAArch64() ? "aarch64linux" : "elf_x86_64"; }

} // namespace intarsia::target
