//===- Reduce.h - Reductions along axes ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_REDUCE_H
#define INTARSIA_IMPORT_ONNX_OPS_REDUCE_H

#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {

enum class Reduction { Sum, Mean, Max, Min, Prod, SumSquare, L1, L2, LogSum, LogSumExp };

/// Reduces a tensor along axes, which are counted from the front.
mlir::Value reduced(NodeContext &node, mlir::Value tensor, DataType type, Reduction kind, llvm::ArrayRef<int64_t> axes,
                    bool keepsDimensions);

} // namespace intarsia::onnx

#endif
