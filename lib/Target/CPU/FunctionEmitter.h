//===- FunctionEmitter.h - The skeletons of both functions of a kernel ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_FUNCTIONEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_FUNCTIONEMITTER_H

#include "lib/Kernel/KernelShape.h"
#include "lib/Kernel/RowEmitter.h"
#include "lib/Target/CPU/TileConfig.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace intarsia::cpu {

using kernel::Element;
using kernel::Index;
using kernel::Indices;
using kernel::KernelShape;
using kernel::LoopEmitter;
using kernel::MemoryEmitter;
using kernel::PanelEmitter;
using kernel::RowEmitter;
using kernel::RowGuard;
using kernel::RowScope;
using kernel::Storage;
using kernel::TensorEmitter;

/// Emits the message that the CPU target cannot compile an op of a kernel, and why; returns failure.
mlir::LogicalResult refuse(rt::KernelOp kernel, mlir::Operation *op, const llvm::Twine &reason);

/// The two functions of a kernel, its launch and its body: arguments, scratch, slots of the launch.
class FunctionEmitter : public kernel::KernelBody {
public:
  FunctionEmitter(const LoopEmitter &loops, rt::KernelOp kernel, const TileConfig &config)
      : KernelBody(loops, kernel), config(config) {}

  /// Begins the launch: what is emitted from then on stands in it.
  void beginLaunch(mlir::ModuleOp module, llvm::StringRef name);
  void setSlot(int64_t slot, mlir::Value value);
  /// Begins the body.
  void beginRun(mlir::ModuleOp module, llvm::StringRef name);
  mlir::Value slot(int64_t slot);

  /// Makes the launch say so if a size does not fit in 64 bits.
  void refuseOverflow();

  llvm::StringRef targetKind() const override { return "cpu"; }
  mlir::Value emitSize(int64_t position) override;
  using KernelBody::scratch;
  /// Returns scratch of this thread in the workspace, whose size the launch then states.
  mlir::Value scratch(mlir::AffineExpr bytes) override;

  const TileConfig &config;

  // The function that is being emitted.
  mlir::func::FuncOp operation;
  mlir::Value sizesPointer, launchPointer, threads, sharedPointer, tileBegin, tileEnd, workspace;
  mlir::AffineExpr workspaceBytes;
};

} // namespace intarsia::cpu

#endif
