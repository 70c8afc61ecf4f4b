//===- ExactProducts.h - Sums of products of bytes ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_EXACTPRODUCTS_H
#define INTARSIA_IMPORT_ONNX_OPS_EXACTPRODUCTS_H

#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {

/// An operand of a product: integers of 8 bits minus their zero points.
struct ByteOperand {
  mlir::Value tensor;
  DataType type;
  mlir::Value zero; ///< is broadcast to the tensor; null: 0
  GraphValue *known =
      {}; ///< the tensor as the graph has it, whose elements may lie in the file; null if it is computed
  GraphValue *zeros = {}; ///< the zero points as the graph has them
};

/// Reads an input with its zero points; refuses other types than integers of 8 bits, and zero points of another one.
/// The zero points are as the graph has them: the caller gives them a shape that is broadcast.
ByteOperand byteOperand(NodeContext &node, size_t input, size_t zero);

/// Which elements of the right operand belong to one sum.
enum class SumOf {
  Rows,   ///< [columns, …]: all elements of an index of the first dimension
  Columns ///< […, depth, columns]: the elements of a column
};

/// Returns the 32-bit sums of products that `multiply` sums in f32, `depth` in each: exact ones, as tensors of f32 hold
/// integers up to 2^24. Where sums may be larger, the right operand is divided into digits, each with sums of its own.
/// Null if `multiply` refuses the node, or if the sums may be too large even so.
mlir::Value exactSums(NodeContext &node, const ByteOperand &left, const ByteOperand &right, SumOf sumOf, int64_t depth,
                      llvm::function_ref<mlir::Value(mlir::Value left, mlir::Value right)> multiply);

/// Returns the 32-bit sums of the products of matrices, as NumPy's matmul has them; null if the node is refused. With
/// `isTurned` the right matrix is [columns, depth].
mlir::Value exactMatrixProduct(NodeContext &node, ByteOperand left, ByteOperand right, bool isTurned = false);

/// Returns the 32-bit sums of a convolution of images [batch, channels, spatial…], as kernels of bytes compute them, of
/// `depth` products each; null where they do not.
mlir::Value exactConv(NodeContext &node, const ByteOperand &images, const ByteOperand &weight, int64_t depth,
                      const importer::Windows &windows);

/// Returns an input that is one number as a tensor without dimensions; refuses others.
mlir::Value oneNumber(NodeContext &node, size_t input, llvm::StringRef name);

/// Returns an input that is one number, or one for each of `count` indices of a dimension with `behind` dimensions
/// behind it, in a shape that is broadcast; refuses others.
mlir::Value onePerIndex(NodeContext &node, size_t input, const Size &count, size_t behind, llvm::StringRef name);

/// Returns the factor of sums of products in f32: the product of the scales of both operands and of `by`, divided by
/// the scale of the result, which may be null.
mlir::Value factorOf(NodeContext &node, mlir::Value left, mlir::Value right, mlir::Value result = {}, double by = 1);

/// Returns round((sums + bias) * factor) + zero in an integer type; `bias` and `zero` may be null. Numbers are rounded
/// half to even, and clamped to the type.
mlir::Value requantized(NodeContext &node, mlir::Value sums, mlir::Value bias, mlir::Value factor, mlir::Value zero,
                        DataType to);

/// Returns 32-bit integers times a factor of f32.
mlir::Value scaledSums(NodeContext &node, mlir::Value sums, mlir::Value factor);

/// Returns the numbers that quantized elements mean, in `to`: (element - zero) * scale. The zero may be null.
mlir::Value dequantized(NodeContext &node, mlir::Value tensor, DataType type, mlir::Value scale, mlir::Value zero,
                        DataType to);

/// Returns numbers quantized to a type: round(number / scale) + zero, clamped. The zero may be null.
mlir::Value quantized(NodeContext &node, mlir::Value tensor, mlir::Value scale, mlir::Value zero, DataType to);

/// What DynamicQuantizeLinear finds of a tensor of f32.
struct DynamicBytes {
  mlir::Value bytes, scale, zero;
};
DynamicBytes dynamicallyQuantized(NodeContext &node, mlir::Value tensor);

} // namespace intarsia::onnx

#endif
