//===- CpuTarget.h - Kernels for x86-64 and AArch64 processors ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_CPUTARGET_H
#define INTARSIA_LIB_TARGET_CPU_CPUTARGET_H

#include "intarsia/Target/Target.h"
#include "lib/Target/CPU/TileConfig.h"
#include "llvm/Target/TargetMachine.h"

namespace intarsia::cpu {

/// A variant with all that code generation needs to know of it.
struct CpuVariant : target::Variant {
  std::string spec; ///< what parseVariant() made it of
  std::string triple;
  std::string tune; ///< processor that instructions are scheduled for
  TileConfig tiles;
  bool fusedMultiplyAdd = true;

  std::unique_ptr<llvm::TargetMachine> machine() const;
};

/// The variant that a target's part behind "cpu:" names: a processor or level with "+feature"s; empty means this
/// machine.
llvm::Expected<CpuVariant> parseVariant(llvm::StringRef spec);

/// Tile shapes for a processor and a set of features (LLVM's names).
TileConfig chooseTiles(const llvm::Triple &triple, llvm::StringRef processor, llvm::ArrayRef<std::string> features);

/// The processors of a host as devices.
const target::Target &cpuTarget();

} // namespace intarsia::cpu

#endif
