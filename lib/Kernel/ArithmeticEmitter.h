//===- ArithmeticEmitter.h - Elementwise ops on vectors ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_ARITHMETICEMITTER_H
#define INTARSIA_LIB_KERNEL_ARITHMETICEMITTER_H

#include "lib/Kernel/KernelBody.h"

namespace intarsia::kernel {

/// An element, or none: an op that the CPU target cannot compile stands in its way, and there is a message.
using Element = mlir::FailureOr<mlir::Value>;

/// Elementwise ops on elements that are there.
class ArithmeticEmitter : public LoopEmitter {
public:
  explicit ArithmeticEmitter(KernelBody &body) : LoopEmitter(body), body(body), memory(body) {}

  /// Emits one scalar op (of a linalg body, or an elementwise op on tensors) on vectors of `width`.
  Element emitElementwise(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, int64_t width);
  mlir::Value emitActivation(mlir::Operation *op, mlir::Value x, mlir::Type type, int64_t width);

private:
  mlir::Value emitCast(mlir::Operation *op, mlir::Value x, int64_t width);
  mlir::Value emitBitcast(mlir::Operation *op, mlir::Value x, int64_t width);

  KernelBody &body;
  MemoryEmitter memory;
};

} // namespace intarsia::kernel

#endif
