//===- MicrosoftActivations.h - Sums, products and activations that fused ops end with ----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_MICROSOFTACTIVATIONS_H
#define INTARSIA_IMPORT_ONNX_OPS_MICROSOFTACTIVATIONS_H

#include "lib/Import/Onnx/Ops/Part.h"

namespace intarsia::onnx {

/// Returns the sum of tensors of floats, which are broadcast; those that are null are left out.
mlir::Value sumOf(NodeContext &node, llvm::ArrayRef<mlir::Value> tensors, DataType type);

/// Returns the product of two tensors of floats, which are broadcast.
mlir::Value productOf(NodeContext &node, mlir::Value left, mlir::Value right, DataType type);

/// Returns a tensor after the activation that fused ops name, "" for none; `numbers` are its attributes in their order.
/// Refuses others. Null if the node is refused.
mlir::Value activated(NodeContext &node, mlir::Value tensor, DataType type, llvm::StringRef name,
                      llvm::ArrayRef<float> numbers);

} // namespace intarsia::onnx

#endif
