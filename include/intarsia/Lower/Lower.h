//===- Lower.h - From groups to kernels and a host program -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LOWER_LOWER_H
#define INTARSIA_LOWER_LOWER_H

#include "mlir/Pass/PassManager.h"

namespace intarsia {

/// Groups become kernels, functions host programs with planned buffers; ends with a verifier of what leaves the phase.
void buildLowerPipeline(mlir::OpPassManager &manager);

/// The verifier alone, for IR that was lowered before.
void buildLowerVerification(mlir::OpPassManager &manager);

/// Registers the phase's passes and the pipeline `intarsia-lower` with tools that take passes by name.
void registerLowerPasses();

} // namespace intarsia

#endif
