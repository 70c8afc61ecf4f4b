//===- Intervals.h - Bounds of integers that bodies compute -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LEGALIZE_INTERVALS_H
#define INTARSIA_LIB_LEGALIZE_INTERVALS_H

#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace intarsia::legalize {

/// Bounds of an integer, both included.
struct Interval {
  int64_t low, high;
};

/// Bounds of a float that is no NaN.
struct FloatInterval {
  double low, high;
};

/// Proves bounds of integers that bodies of linalg ops compute, and of the elements of tensors that they read.
class Intervals {
public:
  explicit Intervals(const SymbolicSizes &sizes) : sizes(sizes) {}

  /// Returns the bounds of an integer, or of all elements of a tensor of integers.
  Interval of(mlir::Value value);

private:
  /// Returns the bounds of what a reduction keeps if they are those of where it begins and of its first step, as for
  /// the index of the largest element.
  Interval ofReduction(mlir::linalg::LinalgOp op, unsigned result, Interval all);
  /// Returns the bounds of a float; nullopt if it may be NaN.
  std::optional<FloatInterval> ofFloat(mlir::Value value);

  const SymbolicSizes &sizes;
  llvm::DenseMap<mlir::Value, Interval> assumed; ///< of what reductions keep, while their steps are looked at
  unsigned left = 4096;                          ///< values that are still looked at
};

} // namespace intarsia::legalize

#endif
