//===- QuantizeDefaults.h - What the user leaves open of precision ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COMPILER_QUANTIZEDEFAULTS_H
#define INTARSIA_LIB_COMPILER_QUANTIZEDEFAULTS_H

#include "intarsia/Quantize/Quantize.h"
#include "mlir/IR/BuiltinOps.h"

namespace intarsia::compiler {

/// Returns the options with what the devices of a module are fastest with where they say nothing. An error names what a
/// target does not have.
llvm::Expected<QuantizeOptions> withDefaults(QuantizeOptions options, llvm::ArrayRef<std::string> targetNames,
                                             mlir::ModuleOp module);

/// Fails if the user asked for attention in 8 bits, and no attention of a quantized module may have them.
llvm::Error checkAttention(const QuantizeOptions &options, mlir::ModuleOp module);

} // namespace intarsia::compiler

#endif
