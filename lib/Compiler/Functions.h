//===- Functions.h - What functions of a file may be compiled -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COMPILER_FUNCTIONS_H
#define INTARSIA_COMPILER_FUNCTIONS_H

#include "mlir/IR/BuiltinOps.h"

namespace intarsia::compiler {

/// Leaves functions with bodies that call none, which is what phases read: drops declarations that nothing refers to
/// and inlines calls. Refuses other declarations, calls that cannot be inlined, and modules inside of the module.
mlir::LogicalResult takeFunctions(mlir::ModuleOp module);

} // namespace intarsia::compiler

#endif
