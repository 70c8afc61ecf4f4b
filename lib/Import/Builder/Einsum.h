//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_BUILDER_EINSUM_H
#define INTARSIA_IMPORT_BUILDER_EINSUM_H

#include "lib/Import/Builder/ModuleBuilder.h"

namespace intarsia::importer {

/// Builds the sum of products that an equation such as "bij,bjk->bik" says (`einsum` of NumPy, PyTorch and ONNX 12), as
/// products of matrices, transposes and sums. A letter that stands twice in an operand is its diagonal, "..." are the
/// dimensions that no letter names, dimensions of 1 are repeated; without "->" letters that stand once are the
/// result's, in the order of the alphabet. Operands are floats, or integers of one type. Reports equations that are
/// malformed or do not agree with the operands. `shapes` are those of the operands, for callers that know more of them
/// than their types say; `result` becomes that of the result.
mlir::Value einsum(ModuleBuilder &graph, mlir::Location at, llvm::StringRef equation,
                   llvm::ArrayRef<mlir::Value> operands, llvm::ArrayRef<Shape> shapes = {}, Shape *result = nullptr);

} // namespace intarsia::importer

#endif
