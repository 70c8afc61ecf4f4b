//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_LAUNCHSIZES_H
#define INTARSIA_LIB_LOWER_LAUNCHSIZES_H

#include "dialects/Rt/Rt.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace intarsia::lower {

/// Proves that kernels stay within the buffers that host programs give them: that the sizes of a launch are those of
/// its buffers, and meet what the ops in the kernel need. Sizes are sums, products and quotients of the sizes of a
/// call; what does not follow from those alone must be an rt.check of the host program.
class LaunchSizes {
public:
  explicit LaunchSizes(mlir::ModuleOp module);

  /// Verifies all launches, copies and views of buffers of a host program that is valid otherwise; an error names the
  /// sizes that differ.
  mlir::LogicalResult verify(mlir::func::FuncOp host);

private:
  const SymbolicSizes &sizesIn(rt::KernelOp kernel);

  llvm::DenseMap<mlir::Attribute, rt::KernelOp> kernels; // by name
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<SymbolicSizes>> sizesOfKernels;
};

} // namespace intarsia::lower

#endif
