//===- CheckWeights.h - Whether archives hold what a module reads ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_WEIGHTS_CHECKWEIGHTS_H
#define INTARSIA_WEIGHTS_CHECKWEIGHTS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace intarsia {

/// Compares every nn.weight with the archive that it names. The error names the tensor and both types.
llvm::Error checkWeights(mlir::ModuleOp module, llvm::StringRef archiveDirectory);

} // namespace intarsia

#endif
