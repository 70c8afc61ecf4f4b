//===- QuantizedProducts.h - Products of bytes with weights of the file -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_QUANTIZEDPRODUCTS_H
#define INTARSIA_IMPORT_ONNX_OPS_QUANTIZEDPRODUCTS_H

#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {

/// Returns the product of two inputs, [batch…, m, k] and [k, n], or with `isTurned` [n, k], as one of bytes: the left
/// one is what DequantizeLinear gives of the result of a QuantizeLinear to 8 bits, the right one of int8 in the file
/// with scales of columns, or one scale, and no zero points. Null for others, which are multiplied as floats.
/// The result is in f32.
mlir::Value quantizedProduct(NodeContext &node, size_t left, size_t right, bool isTurned = false);

/// The same for images [batch, channels, spatial…] and the weight [out, channels, window…] of a convolution without
/// groups; the result has its channels last.
mlir::Value quantizedConv(NodeContext &node, size_t images, size_t weight, const importer::Windows &windows);

/// Sums of products of bytes with a weight of int8 in the file, as whole numbers in f32 of which those below 2^24 are
/// exact, and the sum of the weight's elements for each output feature, the last dimension.
struct ByteSums {
  mlir::Value sums, ofWeight;
};

/// Multiplies whole numbers [batch…, m, k] from -128 to 127 by a matrix [k, n], or with `isTurned` [n, k]. Nullopt if
/// kernels of bytes do not multiply it.
std::optional<ByteSums> byteSums(NodeContext &node, mlir::Value numbers, const Tensor &weight, bool isTurned);
/// The same for images [batch, channels, spatial…] of whole numbers, around which there is `zero`, and the weight [out,
/// channels, window…] of a convolution. The result has its channels last.
std::optional<ByteSums> byteConvSums(NodeContext &node, mlir::Value images, const Tensor &weight,
                                     const importer::Windows &windows, int64_t zero);

} // namespace intarsia::onnx

#endif
