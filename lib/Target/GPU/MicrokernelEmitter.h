//===- MicrokernelEmitter.h - Kernels that call microkernels -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELEMITTER_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELEMITTER_H

#include "lib/Target/GPU/AttentionShapes.h"
#include "lib/Target/GPU/KernelEmitter.h"
#include "lib/Target/GPU/Microkernels/ElementKind.h"

namespace intarsia::gpu {

/// The base of kernels around one call of a microkernel in each launch. Operands that the kernel computes itself are
/// computed first, in launches of their own.
class MicrokernelEmitter : public KernelEmitter {
public:
  using KernelEmitter::KernelEmitter;

  /// Returns true if microkernels can read a tensor: it is an argument of the kernel seen through slices and reshapes,
  /// or its elements are computed one by one.
  static bool isReadable(mlir::Value tensor);
  /// Returns true if a tensor is an argument as it lies in memory, through reshapes.
  static bool isWhole(mlir::Value tensor);
  /// Returns true if the kernel's one result is the op's, through reshapes.
  static bool yieldsOnly(rt::KernelOp kernel, mlir::Operation *root);

protected:
  /// Emits a launch that computes a tensor into scratch, unless it is a view of an argument.
  mlir::LogicalResult prepare(mlir::Value tensor);

  // Arguments of the call, in their order.
  void push(mlir::Value value) { arguments.push_back(value); }
  void push(int64_t value) { arguments.push_back(constant(value)); }
  void pushFloat(double value) { arguments.push_back(floatConstant(value, b.getF32Type(), 1)); }
  /// Pushes a pointer that is not read.
  void pushNull();
  /// Pushes the pointer to scratch that begins at an offset.
  void pushScratch(mlir::AffineExpr offset);
  /// Pushes pointer and kind of a tensor that is an argument as it lies in memory.
  mlir::LogicalResult pushPointer(mlir::Value tensor);
  /// Pushes pointer, kind and strides of a tensor that is prepared. A dimension of size one has the stride zero if
  /// `broadcasts`.
  mlir::LogicalResult pushStrided(mlir::Value tensor, bool broadcasts = false);
  void pushOutput();
  /// Calls a microkernel with the arguments, and forgets them. Registers have to suffice for so many blocks on a
  /// multiprocessor.
  void call(llvm::StringRef microkernel, int32_t leastBlocks = 2);
  /// States the tile of a microkernel of attention; calls it with the tile behind the arguments so far.
  static void stateTile(KernelShape &shape, llvm::StringRef microkernel, const AttentionTile &tile);
  void callTile(llvm::StringRef microkernel, const AttentionTile &tile, mlir::Value shared);

  static int64_t kindOf(mlir::Type element);

private:
  static bool isView(mlir::Value tensor);

  llvm::SmallVector<mlir::Value> arguments;
  llvm::DenseMap<mlir::Value, mlir::AffineExpr> prepared; ///< where computed tensors begin in scratch
};

} // namespace intarsia::gpu

#endif
