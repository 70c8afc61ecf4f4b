//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Helpers of the references of ops (Ops/*/*Reference.cpp).
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_OPS_REFERENCES_H
#define INTARSIA_DIALECTS_NN_OPS_REFERENCES_H

#include "dialects/Interfaces/ReferenceBuilder.h"
#include "dialects/Nn/BlockFormats.h"

#include <limits>

namespace intarsia::reference {

inline constexpr double minusInfinity = -std::numeric_limits<double>::infinity();

inline mlir::Type elementOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
}
inline int64_t rankOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()).getRank(); }

/// Returns the map of a tensor whose dimensions are the first ones of the iteration space, but for the last.
mlir::AffineMap rowMap(ReferenceBuilder &builder, unsigned dimensions, unsigned rank, unsigned last);
/// Builds the products of two tensors at their maps, summed in f64 over the last loop.
mlir::Value buildContraction(ReferenceBuilder &builder, mlir::ArrayRef<mlir::OpFoldResult> sizes, mlir::Value lhs,
                             mlir::AffineMap lhsMap, mlir::Value rhs, mlir::AffineMap rhsMap);
/// Dequantizes blocks of ggml.
mlir::Value buildDequantizedBlocks(ReferenceBuilder &builder, mlir::Value blocks, const GgmlType &type);
/// Rounds a tensor to another element type.
mlir::Value buildNarrow(ReferenceBuilder &builder, mlir::Value value, mlir::Type element);
/// Builds softmax over the last dimension, computed in f64; a row of -inf gives zeros.
mlir::Value buildSoftmax(ReferenceBuilder &builder, mlir::Value input, mlir::Type element);
/// The bits of an f32 in a small float format, as i32: to nearest, ties to even, saturating.
mlir::Value buildEncodeFloat(ScalarBuilder &b, const FloatFormat &format, mlir::Value value);

/// The kernel of cubic convolution (Keys 1981, DOI 10.1109/TASSP.1981.1163711) at a distance from 0 to 1, and at one
/// from 1 to 2, in f32; its parameter is `a`.
std::pair<mlir::Value, mlir::Value> buildCubic(ScalarBuilder &b, mlir::Value distance, float a);

/// A tensor with so many elements more before and behind those of each dimension, all of them `value`; the tensor
/// itself if there are none.
mlir::Value buildPadded(ReferenceBuilder &builder, mlir::Value tensor, mlir::ArrayRef<int64_t> low,
                        mlir::ArrayRef<int64_t> high, mlir::TypedAttr value);
inline mlir::Value buildPadded(ReferenceBuilder &builder, mlir::Value tensor, mlir::ArrayRef<int64_t> low,
                               mlir::ArrayRef<int64_t> high, double value) {
  return buildPadded(builder, tensor, low, high, mlir::TypedAttr(builder.getFloatAttr(elementOf(tensor), value)));
}

} // namespace intarsia::reference

#endif
