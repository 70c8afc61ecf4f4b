//===- ReferenceCodegen.h - From the LLVM dialect to an object ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_REFERENCE_REFERENCECODEGEN_H
#define INTARSIA_LIB_TARGET_REFERENCE_REFERENCECODEGEN_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace intarsia::reference {

/// Compiles functions in the LLVM dialect to a relocatable object for a host that exports them and the two tables of C
/// functions that they call (`itx_reference_imports`, their names, and `itx_reference_functions`, which the device
/// fills): an artifact has no dependencies that a system's loader would look for.
llvm::Expected<std::vector<char>> compileFunctions(mlir::ModuleOp functions, llvm::StringRef hostTriple);

} // namespace intarsia::reference

#endif
