//===- FunctionEmitter.h - The skeletons of both functions of a kernel ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_FUNCTIONEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_FUNCTIONEMITTER_H

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Analysis/SizeMaterializer.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "lib/Target/CPU/MemoryEmitter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace intarsia::cpu {

/// Where a tensor lies in memory.
struct Storage {
  mlir::Value pointer;
  llvm::SmallVector<mlir::Value> strides; ///< elements, i64
  Sizes sizes;
  mlir::Type elementType; ///< as stored; i1 takes a byte
  bool dense = true;      ///< row-major without gaps
};

/// Emits the message that the CPU target cannot compile an op of a kernel, and why; returns failure.
mlir::LogicalResult refuse(rt::KernelOp kernel, mlir::Operation *op, const llvm::Twine &reason);

/// The two functions of a kernel, its launch and its body: arguments, scratch, slots of the launch, and values of size
/// expressions.
class FunctionEmitter : public MemoryEmitter {
public:
  FunctionEmitter(rt::KernelOp kernel, const TileConfig &config);

protected:
  /// Begins the launch: what is emitted from then on stands in it.
  void beginLaunch(mlir::ModuleOp module, llvm::StringRef name);
  void setLaunchValue(int64_t slot, mlir::Value value);
  /// Begins the body.
  void beginRun(mlir::ModuleOp module, llvm::StringRef name);
  mlir::Value launchValue(int64_t slot);

  /// Makes the launch say so if a size does not fit in 64 bits.
  void refuseOverflow();
  /// Returns scratch of this thread: `bytes` (rounded up to a cache line) of the workspace, whose size the launch then
  /// states.
  mlir::Value scratch(mlir::AffineExpr bytes);
  mlir::Value scratch(int64_t bytes);
  /// Returns the indices of a row-major index, one for each size.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value flat, llvm::ArrayRef<mlir::AffineExpr> sizes);
  /// Returns the value of a size expression, computed once at the start of the function.
  mlir::Value size(mlir::AffineExpr expression);
  mlir::Value knownSize(mlir::AffineExpr expression);
  mlir::Value product(llvm::ArrayRef<mlir::AffineExpr> sizes);
  mlir::AffineExpr productExpression(llvm::ArrayRef<mlir::AffineExpr> sizes);
  /// Returns an index that is a function of sizes. Fails with a message at others.
  mlir::FailureOr<mlir::Value> indexValue(mlir::OpFoldResult value);
  /// True if an expression, which may be null, is made of the kernel's sizes.
  bool isKnown(mlir::AffineExpr expression) const;
  /// Fails with a message unless the sizes of all tensors that results are computed from are made of the kernel's.
  mlir::LogicalResult checkSizes();
  /// Says that an op cannot be compiled; returns failure.
  mlir::LogicalResult unsupported(mlir::Operation *op, const llvm::Twine &reason);
  /// Fails with a message unless all results of the kernel are results of the root, as it is.
  mlir::LogicalResult storesOnly(mlir::Operation *root);
  /// Returns what an output holds: reshapes before the yield do not move data, so that the value behind them is what
  /// is computed.
  mlir::Value yielded(unsigned output);
  static mlir::Value stripReshapes(mlir::Value value);

  rt::KernelOp kernel;
  SymbolicSizes sizes;

  // The function that is being emitted.
  mlir::func::FuncOp function;
  mlir::Value sizesPointer, launchPointer, threads, sharedPointer, tileBegin, tileEnd, workspace;
  mlir::AffineExpr workspaceBytes;
  std::optional<SizeMaterializer> sizeValues;
  llvm::DenseMap<mlir::Value, Storage> storage; ///< arguments
  llvm::SmallVector<Storage> outputs;
};

} // namespace intarsia::cpu

#endif
