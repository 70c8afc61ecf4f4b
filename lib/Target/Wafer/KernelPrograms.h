//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Kernels of models as functions of distributed products, and where their matrices lie in the operands of a launch.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_KERNELPROGRAMS_H
#define INTARSIA_LIB_TARGET_WAFER_KERNELPROGRAMS_H

#include "dialects/Rt/Rt.h"
#include "lib/Runtime/Wafer/WaferObject.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <limits>
#include <optional>

namespace intarsia::wafer {

/// A kernel for some rows of a launch.
struct KernelFunction {
  mlir::func::FuncOp function;             ///< of distributed products, norms, functions of elements, and caches
  int64_t count = 1;                       ///< rows that it computes
  SizeExpression rows;                     ///< of a launch
  std::vector<MatrixView> inputs, outputs; ///< by argument and result of the function
  std::optional<CacheOperands> cache;
  /// The smallest of the sizes that are split over the grid; caches are on any grid.
  int64_t smallest = std::numeric_limits<int64_t>::max();
};

/// What the functions of kernels are made for.
struct FunctionSizes {
  int64_t rows = 1;      ///< of products; attention takes as many tokens as a core has of these rows
  int64_t grid = 1;      ///< of products
  int64_t context = 0;   ///< tokens that caches have memory for
  int64_t cacheGrid = 0; ///< of caches, attention and appends; 0: `grid`
  int64_t otherGrid = 0; ///< on which tiles have whole groups of quantized values too; 0: none

  /// Returns the same for kernels of caches.
  FunctionSizes ofCaches() const;
  /// Returns how many of `depth` input features share a scale, if `block` do where they are stored.
  int64_t sharedFeatures(int64_t depth, int64_t block) const;
};

/// Appends the function of a kernel to a module: of products of vectors for one row, of matrices for several. Emits an
/// error at the op that a wafer does not compute.
mlir::FailureOr<KernelFunction> buildKernelFunction(rt::KernelOp kernel, llvm::StringRef name,
                                                    const FunctionSizes &sizes, mlir::ModuleOp module);
/// The same for kernels whose root is an append to a cache or attention over one.
mlir::FailureOr<KernelFunction> buildCacheFunction(rt::KernelOp kernel, llvm::StringRef name,
                                                   const FunctionSizes &sizes, mlir::ModuleOp module);

/// Returns how heads lie on the columns of a grid: on as many columns as it has for each, several heads on each column
/// if it has less.
PackedHeads placeHeads(int64_t keyHeads, int64_t queryHeads, int64_t features, int64_t grid);

/// Emits the error that an op of a kernel cannot be computed on a wafer, and returns failure.
mlir::LogicalResult refuseOnWafer(rt::KernelOp kernel, mlir::Operation *op, const llvm::Twine &why);
/// Returns the type of the elements of an operand; nothing if a wafer does not read them.
std::optional<itx_dtype> wordType(mlir::Type element);

} // namespace intarsia::wafer

#endif
