//===- Lower.h - From groups to kernels and a host program -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LOWER_H
#define INTARSIA_LOWER_H

#include "mlir/Pass/PassManager.h"

namespace intarsia {

/// Attributes that the lower phase leaves on host functions for the manifest. Arguments keep their `nn.*` attributes.
/// Names of the symbolic sizes, in the order in which a call gives them: array of strings.
inline constexpr llvm::StringLiteral hostSymbolsAttr = "rt.symbols";
/// A dictionary for each result: `type` (the tensor type), `nn.name`, `nn.sizes` (a name or expression for each
/// dynamic dimension, "" for static ones).
inline constexpr llvm::StringLiteral hostResultsAttr = "rt.results";

/// Output features of a linear that lie side by side in its packed weight, the same for every target and variant that
/// shares an artifact's weights: two 512-bit vectors of f32.
inline constexpr int64_t weightPanelWidth = 32;

/// Groups become kernels, functions host programs with planned buffers; ends with a verifier of what leaves the phase.
void buildLowerPipeline(mlir::OpPassManager &manager);

/// The verifier alone, for IR that was lowered before.
void buildLowerVerification(mlir::OpPassManager &manager);

/// Registers the phase's passes and the pipeline `intarsia-lower` with tools that take passes by name.
void registerLowerPasses();

} // namespace intarsia

#endif
