//===- LinearInputs.h - What linears with weights of the model multiply ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_QUANTIZE_LINEARINPUTS_H
#define INTARSIA_LIB_QUANTIZE_LINEARINPUTS_H

#include "dialects/Nn/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace intarsia {

/// Tensors of second moments are named with this prefix and the name of the first linear that reads the input.
constexpr llvm::StringLiteral secondMomentsPrefix = "second_moments.";

/// The prefixes of a segment's results that are inputs of linears, and of its arguments that are weights.
constexpr llvm::StringLiteral inputsPrefix = "input.", weightsPrefix = "weight.";

/// A value [..., features] and the linears that multiply weights of the model by it, in their order. Linears are what
/// asProductWithWeight() returns; convolutions (asProductToQuantize) may follow them.
struct LinearInput {
  mlir::Value value;
  llvm::SmallVector<ContractionOpInterface> linears;
};

/// Returns the inputs of a function's linears whose weights are matrices of an archive as they are stored, in the order
/// of their first linears. Linears whose results a router reads are not among them: they are not quantized.
/// With `convolutions` those that convolutions multiply too.
std::vector<LinearInput> inputsOfLinears(mlir::func::FuncOp function, bool convolutions = false);

/// Returns the name of a linear in the model, "model.layers.0.mlp.down_proj"; empty if it has none.
std::string nameOf(mlir::Operation *linear);

} // namespace intarsia

#endif
