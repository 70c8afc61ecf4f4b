//===- Legalize.h - What other compilers write, in the ops that the phases know ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LEGALIZE_LEGALIZE_H
#define INTARSIA_LEGALIZE_LEGALIZE_H

#include "mlir/Pass/PassManager.h"

namespace intarsia {

/// Appends passes on modules that bring IR of other compilers into the ops that phases know. Ops that they do not know
/// stay, and are refused by the phase that needs a kernel for them. Of IR that a phase has made only functions are
/// looked at.
void buildLegalizePipeline(mlir::OpPassManager &pipeline, bool isOfPhase = false);

/// Adds the dialects of ops that the pipeline takes, beside those of phases.
void registerLegalizeDialects(mlir::DialectRegistry &registry);

/// Registers the passes and the pipeline --intarsia-legalize.
void registerLegalizePasses();

} // namespace intarsia

#endif
