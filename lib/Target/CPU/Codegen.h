//===- Codegen.h - From kernels to objects ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_CODEGEN_H
#define INTARSIA_LIB_TARGET_CPU_CODEGEN_H

#include "lib/Target/CPU/CpuTarget.h"

namespace intarsia::cpu {

/// Adds the dialects and translations that compiling kernels uses.
void addKernelDialects(mlir::DialectRegistry &registry);

/// Compiles kernels of the module for every variant, in parallel on the threads of the MLIR context; objects come in
/// the order of variants, then kernels. Messages go to the context's diagnostics.
llvm::Error compileKernels(mlir::ModuleOp module, llvm::ArrayRef<target::NumberedKernel> kernels,
                           llvm::ArrayRef<CpuVariant> variants, std::vector<target::CompiledObject> &objects);

/// Writes the shapes of kernels for a variant into the IR.
mlir::LogicalResult chooseShapes(llvm::ArrayRef<target::NumberedKernel> kernels, const CpuVariant &variant);

/// Lowers what emitKernels() makes to the LLVM dialect.
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp functions, const CpuVariant &variant);

/// Appends the launches `<name>_plan` and the bodies `<name>_run` of the kernels to `result`, as loops over vectors.
mlir::LogicalResult emitKernels(llvm::ArrayRef<target::NumberedKernel> kernels, const CpuVariant &variant,
                                mlir::ModuleOp result);

} // namespace intarsia::cpu

#endif
