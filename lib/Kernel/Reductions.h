//===- Reductions.h - What a linalg op combines, and how it reads -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_REDUCTIONS_H
#define INTARSIA_LIB_KERNEL_REDUCTIONS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace intarsia::kernel {

/// How values are combined to one: added, the largest of them.
using Combination = mlir::vector::CombiningKind;

/// What values of a loop are combined to.
struct Reduction {
  Combination kind;
  mlir::Type type; ///< of an element
};

/// What each element of a row is combined with: those before it.
struct Prefixes {
  Reduction reduction;
  bool isExclusive; ///< the element itself is left out
  bool isReverse;   ///< those behind it, in place of those before it
};

/// Returns how each result of a linalg op combines what its body computes, where the body is
/// `running = op(running, f(inputs))` and the order does not matter; none if one result is of another form.
std::optional<llvm::SmallVector<Reduction>> reductionsOf(mlir::linalg::LinalgOp op);

/// A search for the largest or smallest element and its position: two results, of which the second takes the position
/// where the first takes the element: the first one of equal elements.
struct PositionSearch {
  Combination kind;
  unsigned value, position; ///< results
};
/// Returns the search that a linalg op is; none if it is none.
std::optional<PositionSearch> positionSearchOf(mlir::linalg::LinalgOp op);

/// Returns the loop that is reduced and along which an input's elements are neighbours, while no input has neighbours
/// along another loop that its reduced elements are read for; none if there is no such loop.
std::optional<unsigned> neighbouringReduction(mlir::linalg::LinalgOp op);

/// Returns what changes nothing when it is combined with other values: scalars, or vectors of `width` lanes.
llvm::SmallVector<mlir::Value> neutral(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<Reduction> reductions,
                                       int64_t width);
/// Returns values combined one by one.
llvm::SmallVector<mlir::Value> combine(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<Reduction> reductions,
                                       mlir::ValueRange left, mlir::ValueRange right);
/// Returns the lanes of each vector combined to a scalar.
llvm::SmallVector<mlir::Value> combineLanes(mlir::OpBuilder &b, mlir::Location loc,
                                            llvm::ArrayRef<Reduction> reductions, mlir::ValueRange vectors);

/// Returns a vector with its lanes in the opposite order; a scalar as it is.
mlir::Value reverseLanes(mlir::OpBuilder &b, mlir::Location loc, mlir::Value vector);

} // namespace intarsia::kernel

#endif
