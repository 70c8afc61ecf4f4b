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

/// Chooses the register tile of matmuls in f32.
void chooseRegisterTile(KernelShape &shape, TileConfig &config);
/// Chooses that of matmuls of bytes, whose rows are `rows`.
void chooseByteTile(KernelShape &shape, const TileConfig &config, int64_t &rows);

/// Emits the two functions of a kernel (include/intarsia/module_abi.h): its launch, which the ABI names `plan`, and its
/// body, `run`. One class for each kind of root (<Root>Kernel.cpp) chooses the loops; KernelRoots.h finds the class of
/// a kernel. A kernel holds the emitters that it needs: those of functions, memory and elements of tensors stand here,
/// those of rows, register tiles and quantized values in the kernels that have some.
class KernelEmitter : protected LoopEmitter {
public:
  KernelEmitter(rt::KernelOp kernel, const TileConfig &config)
      : LoopEmitter(config.instructions(), kernel.getLoc()), config(config), kernel(kernel),
        function(*this, kernel, this->config), memory(function), tensors(function) {}
  virtual ~KernelEmitter() = default;

  /// Appends the functions `launchName` and `runName` to the module. Fails with a message at the op that the CPU target
  /// cannot compile.
  mlir::LogicalResult emit(mlir::ModuleOp module, llvm::StringRef launchName, llvm::StringRef runName);
  /// Decides how the work is cut up for a variant, by what the IR states where it does. Emits nothing.
  mlir::FailureOr<mlir::DictionaryAttr> decideShape(llvm::StringRef variant);

protected:
  /// Finds what both functions depend on; emits nothing. Fails with a message.
  virtual mlir::LogicalResult analyze() { return mlir::success(); }
  /// States the figures that the work is cut up by; `config` holds those of the processor's table.
  virtual void chooseShape(KernelShape &shape) = 0;
  /// Emits the body, which computes the tiles [tileBegin, tileEnd). Fails with a message.
  virtual mlir::LogicalResult run() = 0;
  /// Emits the launch, which cuts the work into tiles.
  virtual void launch() = 0;

  /// The most rows of a block that IR may state.
  static constexpr int64_t kMostBlockRows = 1 << 16;

  TileConfig config; ///< with the figures of the kernel's shape
  rt::KernelOp kernel;
  FunctionEmitter function;
  MemoryEmitter memory;
  TensorEmitter tensors;
};

} // namespace intarsia::cpu

#endif
