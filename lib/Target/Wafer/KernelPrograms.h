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

/// A kernel that is executed once for each row of its linear's input.
struct KernelFunction {
  mlir::func::FuncOp function;             ///< of `wafer.dist_gemv` and `wafer.dist_map`
  SizeExpression executions;               ///< rows
  std::vector<MatrixView> inputs, outputs; ///< by argument and result of the function
  int64_t smallest = 0;                    ///< the smallest of the sizes that are split over the grid
};

/// Appends the function of a kernel on a square grid to a module. Emits an error at the op that a wafer does not
/// compute.
mlir::FailureOr<KernelFunction> buildKernelFunction(rt::KernelOp kernel, llvm::StringRef name, int64_t grid,
                                                    mlir::ModuleOp module);

} // namespace intarsia::wafer

#endif
