//===- KernelEmitter.h - The functions of a kernel ----------------------------------------------------------------
//===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_KERNELEMITTER_H
#define INTARSIA_LIB_TARGET_GPU_KERNELEMITTER_H

#include "lib/Target/GPU/FunctionEmitter.h"

namespace intarsia::gpu {

/// Emits the functions of a kernel. A kernel holds the emitters that it needs: those of functions, memory and elements
/// of tensors stand here, those of rows, matrices and linears in the kernels that have some.
class KernelEmitter : protected LoopEmitter {
public:
  KernelEmitter(rt::KernelOp kernel, const Architecture &architecture);
  virtual ~KernelEmitter() = default;
  /// Decides how the work is cut up, by what the shape's IR states where it does. Emits nothing; comes before emit().
  mlir::LogicalResult decideShape(KernelShape &shape);
  /// Appends the functions of the kernel to the module, named by `name` and a number that is not in use. Fails with a
  /// message at the op that the target cannot compile.
  mlir::LogicalResult emit(mlir::gpu::GPUModuleOp module, llvm::StringRef name);

protected:
  /// States the figures that the work is cut up by.
  virtual void chooseShape(KernelShape &shape) = 0;
  /// Emits all functions of the kernel by beginLaunch() and endLaunch().
  virtual mlir::LogicalResult run() = 0;

  mlir::AffineExpr number(int64_t value) { return mlir::getAffineConstantExpr(value, b.getContext()); }

  const Architecture &architecture;
  rt::KernelOp kernel;
  FunctionEmitter function;
  MemoryEmitter memory;
  TensorEmitter tensors;
};

} // namespace intarsia::gpu

#endif
