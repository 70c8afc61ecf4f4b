//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Kernels of models as functions of distributed products, and where their matrices lie in the operands of a launch.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_KERNELPROGRAMS_H
#define INTARSIA_LIB_TARGET_WAFER_KERNELPROGRAMS_H

#include "dialects/Rt/Rt.h"
#include "lib/Runtime/Wafer/WaferObject.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace intarsia::wafer {

/// A kernel for some rows of a launch.
struct KernelFunction {
  mlir::func::FuncOp function;             ///< of distributed products, norms and functions of elements
  SizeExpression rows;                     ///< of a launch
  std::vector<MatrixView> inputs, outputs; ///< by argument and result of the function
  int64_t smallest = 0;                    ///< the smallest of the sizes that are split over the grid
};

/// Appends the function of a kernel for `rows` rows on a square grid to a module: of products of vectors for one row,
/// of matrices for several. Emits an error at the op that a wafer does not compute.
mlir::FailureOr<KernelFunction> buildKernelFunction(rt::KernelOp kernel, llvm::StringRef name, int64_t rows,
                                                    int64_t grid, mlir::ModuleOp module);

} // namespace intarsia::wafer

#endif
