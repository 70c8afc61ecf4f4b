//===- ExplainFunctions.h - Resources of kernels in the file of --explain -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COMPILER_EXPLAINFUNCTIONS_H
#define INTARSIA_LIB_COMPILER_EXPLAINFUNCTIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace intarsia::compiler {

/// Adds a table "functions" to a file of decisions that the fuse phase has written: for each function of the compiled
/// objects its device, architecture, kernel, and the registers and memory that it takes. Leaves the file as it is if no
/// device counts those, or if it is a pipe.
llvm::Error explainFunctions(mlir::ModuleOp module, const std::string &file);

} // namespace intarsia::compiler

#endif
