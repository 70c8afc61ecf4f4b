//===- Reads.h - Which elements of tensors a result is computed from --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_READS_H
#define INTARSIA_LIB_KERNEL_READS_H

#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/IR/AffineMap.h"

namespace intarsia::kernel {

/// Elements of a tensor that an element of a result is computed from.
struct Read {
  mlir::Value tensor; ///< an argument of the kernel, or what an op computes that is not looked through
  /// Index of each dimension: a function of the result's dimensions, and of the loops that are reduced.
  llvm::SmallVector<mlir::AffineExpr> at;
};

/// All that a result of a kernel is computed from.
struct Reads {
  llvm::SmallVector<Read> reads;
  unsigned rank = 0;           ///< dimensions of the result: d0 to d(rank - 1)
  Sizes reduced;               ///< iterations of the loops that are reduced: the dimensions after those
  bool isOrdered = false;      ///< a reduction has to see elements in their order
  bool hasSearch = false;      ///< a reduction finds a position
  bool dependsOnIndex = false; ///< a body computes with the position, or reads where data says

  bool isReduced(mlir::AffineExpr expression) const;
};

/// Finds what a result is computed from, through elementwise ops, linalg ops and casts.
Reads readsOf(mlir::Value result, const SymbolicSizes &sizes);

/// True if two neighbouring dimensions of the result, `dim` and the next one, may be walked as one: wherever elements
/// are read, those of both dimensions lie one behind the other.
bool areOneDimension(const Reads &reads, unsigned dim, llvm::ArrayRef<mlir::AffineExpr> extents,
                     const SymbolicSizes &sizes);

/// True if an op computes what takes longer than reading it from memory.
bool takesLong(mlir::Operation *op);

} // namespace intarsia::kernel

#endif
