//===- HostCode.h - Host programs as LLVM IR ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_ASSEMBLE_HOSTCODE_H
#define INTARSIA_LIB_ASSEMBLE_HOSTCODE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <string>
#include <vector>

namespace intarsia::assemble {

/// The tables whose indices host code and the manifest share.
struct ModuleTables {
  explicit ModuleTables(mlir::ModuleOp module);
  std::vector<std::string> kernels, labels; ///< labels: locations in the user's model
  std::vector<mlir::Operation *> functions; ///< func.funcs, in order
  llvm::StringMap<unsigned> kernelNumbers, labelNumbers, constantNumbers;
  /// Returns the label of a dispatch: its own, or else its kernel's name.
  static llvm::StringRef labelOf(mlir::Operation *dispatch);
};

/// Translates the host functions of a lowered module to LLVM IR, adds the module descriptor (intarsia/module_abi.h) for
/// `variants` variants and the sections of an artifact, and compiles it: a relocatable object.
///
/// It translates rt directly to LLVM IR: every op is one or two calls of the host interface with arrays of values, and
/// going through the llvm dialect took longer than everything else here.
llvm::Expected<std::vector<char>> compileHostCode(mlir::ModuleOp module, const ModuleTables &tables, unsigned variants,
                                                  llvm::StringRef manifest, llvm::TargetMachine &machine);

} // namespace intarsia::assemble

#endif
