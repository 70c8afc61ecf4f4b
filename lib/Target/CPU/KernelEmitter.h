//===- KernelEmitter.h - From an rt.kernel to loops over vectors ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_KERNELEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_KERNELEMITTER_H

#include "lib/Target/CPU/FunctionEmitter.h"

namespace intarsia::cpu {

/// Emits the two functions of a kernel (include/intarsia/module_abi.h): its launch, which the ABI names `plan`, and its
/// body, `run`. One class for each kind of root (<Root>Kernel.cpp) chooses the loops; KernelRoots.h finds the class of
/// a kernel. A kernel holds the emitters that it needs: those of functions, memory and elements of tensors stand here,
/// those of rows, register tiles and quantized values in the kernels that have some.
class KernelEmitter : protected LoopEmitter {
public:
  KernelEmitter(rt::KernelOp kernel, const TileConfig &config)
      : LoopEmitter(config.instructions(), kernel.getLoc()), config(config), kernel(kernel),
        function(*this, kernel, config), memory(function), tensors(function) {}
  virtual ~KernelEmitter() = default;

  /// Appends the functions `launchName` and `runName` to the module. Fails with a message at the op that the CPU target
  /// cannot compile.
  mlir::LogicalResult emit(mlir::ModuleOp module, llvm::StringRef launchName, llvm::StringRef runName);

protected:
  /// Finds what both functions depend on; emits nothing. Fails with a message.
  virtual mlir::LogicalResult analyze() { return mlir::success(); }
  /// Emits the body, which computes the tiles [tileBegin, tileEnd). Fails with a message.
  virtual mlir::LogicalResult run() = 0;
  /// Emits the launch, which cuts the work into tiles.
  virtual void launch() = 0;

  const TileConfig &config;
  rt::KernelOp kernel;
  FunctionEmitter function;
  MemoryEmitter memory;
  TensorEmitter tensors;
};

} // namespace intarsia::cpu

#endif
