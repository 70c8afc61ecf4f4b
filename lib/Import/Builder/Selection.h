//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_BUILDER_SELECTION_H
#define INTARSIA_IMPORT_BUILDER_SELECTION_H

#include "lib/Import/Builder/ModuleBuilder.h"

namespace intarsia::importer {

// Results whose size a call computes (docs/mlir.md): the legalize phase cuts a function where such a size is first
// needed, so these are not for the bodies of control flow.

/// Returns a count, i64 without dimensions, as a size.
Size sizeOfCount(ModuleBuilder &graph, mlir::Location at, mlir::Value count);
/// Returns the coordinates of the elements that are not zero: [count, rank] (`NonZero` of ONNX transposed).
mlir::Value nonzero(ModuleBuilder &graph, mlir::Location at, mlir::Value input);
/// Returns the slices of `input` along `axis` where `condition` [at most the size of the axis] is not zero, or without
/// an axis the elements of the input as a row (`Compress` of ONNX 11, masks of PyTorch). Reports a condition of another
/// rank or of more elements.
mlir::Value compress(ModuleBuilder &graph, mlir::Location at, mlir::Value input, mlir::Value condition,
                     std::optional<int64_t> axis);

/// Slices that differ from one another.
struct Unique {
  mlir::Value values;  // along the axis the slices that differ, or without an axis elements: [count]
  mlir::Value indices; // where each is first, i64 [count]
  mlir::Value inverse; // which of them each slice is, i64 [size of the axis]
  mlir::Value counts;  // how often each is there, i64 [count]
};
/// Returns the slices along `axis`, or without an axis the elements, of which no two are equal (`Unique` of ONNX 11):
/// in order, as NumPy has them, or else in that of their first place. NaN is equal to NaN. Slices are compared each
/// with each other, elements are sorted.
Unique unique(ModuleBuilder &graph, mlir::Location at, mlir::Value input, std::optional<int64_t> axis, bool isSorted);

} // namespace intarsia::importer

#endif
