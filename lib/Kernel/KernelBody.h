//===- KernelBody.h - What all functions of a kernel compute with ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_KERNELBODY_H
#define INTARSIA_LIB_KERNEL_KERNELBODY_H

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Analysis/SizeMaterializer.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "lib/Kernel/MemoryEmitter.h"
#include <optional>

namespace intarsia::kernel {

/// Where a tensor lies in memory.
struct Storage {
  mlir::Value pointer;
  llvm::SmallVector<mlir::Value> strides; ///< elements, i64
  Sizes sizes;
  mlir::Type elementType; ///< as stored; i1 takes a byte
  bool dense = true;      ///< row-major without gaps
};

/// A kernel whose functions are being emitted: its tensors in memory, and values of size expressions. What a function
/// looks like is the device's: it calls beginFunction() and addBuffer(), says where sizes and scratch come from, and
/// how threads share a row. Here one thread passes over all elements, and stores each vector before it computes the
/// next.
class KernelBody : public LoopEmitter, public RowLoops {
public:
  /// `loops` is the emitter of the kernel, which outlives this one.
  KernelBody(const LoopEmitter &loops, rt::KernelOp kernel);

  /// Returns the kind of the device, for messages: "cpu".
  virtual llvm::StringRef targetKind() const = 0;
  /// Emits the value, i64, of the size at a position among the kernel's.
  virtual mlir::Value emitSize(int64_t position) = 0;
  /// Returns scratch of what computes a row: `bytes`, rounded up to a cache line.
  virtual mlir::Value scratch(mlir::AffineExpr bytes) = 0;
  mlir::Value scratch(int64_t bytes);

  llvm::LogicalResult
  emitVectorLoop(mlir::Value size, llvm::function_ref<llvm::LogicalResult(mlir::Value i, int64_t width)> body) override;
  llvm::LogicalResult emitStoreLoop(
      mlir::Value size,
      llvm::function_ref<llvm::FailureOr<llvm::SmallVector<mlir::Value>>(mlir::Value i, int64_t width)> compute,
      llvm::function_ref<void(mlir::Value i, int64_t width, llvm::ArrayRef<mlir::Value> values)> store) override;
  Values emitReductions(mlir::Value size, llvm::ArrayRef<Reduction> reductions,
                        llvm::function_ref<Values(mlir::Value i, int64_t width)> elements) override;
  llvm::LogicalResult
  emitPrefixes(mlir::Value size, const Prefixes &prefixes,
               llvm::function_ref<llvm::FailureOr<mlir::Value>(mlir::Value i, int64_t width)> element,
               llvm::function_ref<void(mlir::Value i, int64_t width, mlir::Value prefix)> store) override;

  /// Begins a function whose block ends with the terminator `end`: what is emitted from then on comes before it. Sizes
  /// and constants are computed at its start.
  void beginFunction(mlir::Operation *end);
  /// Says where the next buffer begins: of the arguments, then of the results.
  void addBuffer(unsigned index, mlir::Value pointer);

  /// Returns the indices of a row-major index, one for each size.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value flat, llvm::ArrayRef<mlir::AffineExpr> sizes);
  /// Returns the value of a size expression, computed once at the start of the function.
  mlir::Value size(mlir::AffineExpr expression);
  mlir::Value sizeOf(mlir::Value tensor, unsigned dimension) { return size(sizes.of(tensor)[dimension]); }
  mlir::Value product(llvm::ArrayRef<mlir::AffineExpr> sizes);
  mlir::AffineExpr productExpression(llvm::ArrayRef<mlir::AffineExpr> sizes);
  /// Returns an index that is a function of sizes. Fails with a message at others.
  mlir::FailureOr<mlir::Value> indexValue(mlir::OpFoldResult value);
  /// True if an expression, which may be null, is made of the kernel's sizes.
  bool isKnown(mlir::AffineExpr expression) const;
  /// Fails with a message unless the sizes of all tensors that results are computed from are made of the kernel's.
  mlir::LogicalResult checkSizes();
  /// Says that an op cannot be compiled; returns failure.
  mlir::LogicalResult refuse(mlir::Operation *op, const llvm::Twine &reason);
  /// Fails with a message unless all results of the kernel are results of the root, as it is.
  mlir::LogicalResult storesOnly(mlir::Operation *root);
  /// Returns what an output holds: reshapes before the yield do not move data, so that the value behind them is what
  /// is computed.
  mlir::Value yielded(unsigned output);
  static mlir::Value stripReshapes(mlir::Value value);

  rt::KernelOp kernel;
  SymbolicSizes sizes;
  MemoryEmitter memory;

  // The function that is being emitted.
  std::optional<SizeMaterializer> sizeValues;
  llvm::DenseMap<mlir::Value, Storage> storage; ///< arguments
  llvm::SmallVector<Storage> outputs;

private:
  mlir::Value knownSize(mlir::AffineExpr expression);
};

/// Emits the message that a target cannot compile an op of a kernel, and why; returns failure.
mlir::LogicalResult refuse(llvm::StringRef targetKind, rt::KernelOp kernel, mlir::Operation *op,
                           const llvm::Twine &reason);

} // namespace intarsia::kernel

#endif
