//===- LayerNames.h - Layers of a model by the names of its ops --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_ANALYSIS_LAYERNAMES_H
#define INTARSIA_ANALYSIS_LAYERNAMES_H

#include "mlir/IR/Operation.h"
#include <string>

namespace intarsia {

/// Returns the layer that an op's name says: "encoder.layer.3" of "encoder.layer.3.output.dense", the whole name where
/// it has no number; empty without a name.
std::string layerName(mlir::Operation *op);

/// Returns the same where the name has a number, else an empty string.
std::string numberedLayerName(mlir::Operation *op);

} // namespace intarsia

#endif
