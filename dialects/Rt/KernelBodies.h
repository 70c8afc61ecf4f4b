//===- KernelBodies.h - Kernels that can still be compiled --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_RT_KERNELBODIES_H
#define INTARSIA_DIALECTS_RT_KERNELBODIES_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"

namespace intarsia::rt {

/// Reports a kernel of a module that has no body, as all have after the target phase.
inline mlir::LogicalResult checkBodies(mlir::ModuleOp module) {
  for (auto kernel : module.getOps<KernelOp>())
    if (kernel.isExternal())
      return kernel.emitOpError() << "has no body that can be compiled";
  return mlir::success();
}

} // namespace intarsia::rt

#endif
