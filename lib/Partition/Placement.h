//===- Placement.h - Devices of ops that the phase adds ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_PLACEMENT_H
#define INTARSIA_LIB_PARTITION_PLACEMENT_H

#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace intarsia::partition {

/// Lets a new op run on the device that its function is the alternative for; others run on the first device.
inline void placeAsFunction(mlir::Operation *op) {
  auto function = op->getParentOfType<mlir::func::FuncOp>();
  if (mlir::Attribute device = function ? function->getAttr(rt::deviceAttr) : mlir::Attribute())
    op->setAttr(rt::deviceAttr, device);
}

} // namespace intarsia::partition

#endif
