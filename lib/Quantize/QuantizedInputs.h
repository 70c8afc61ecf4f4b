//===- QuantizedInputs.h - Values that are quantized and dequantized ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_QUANTIZE_QUANTIZEDINPUTS_H
#define INTARSIA_LIB_QUANTIZE_QUANTIZEDINPUTS_H

#include "dialects/Nn/Nn.h"

namespace intarsia::quantize {

/// Returns nn.dequantize of nn.quantize of a tensor, with elements of the given type. A format with a scale of the
/// tensor has one of each row instead if `areRows` is set.
mlir::Value quantizeAndDequantize(mlir::OpBuilder &builder, mlir::Location location, mlir::Value input,
                                  nn::BlockFormatAttr format, mlir::Type element, bool areRows);

/// Returns true if the op only moves or reshapes the rows of its operands (values along the last dimension). Only the
/// first operand of a linalg.transpose counts.
bool movesRows(mlir::Operation *op);

/// Returns an op that multiplies rows of its left side by a stored matrix, each row with scales of its own or known
/// ones: a linear (asProductWithWeight), or a convolution, whose rows are the channels of positions. Null for other
/// ops, and for convolutions with groups or transposed ones, where few products share what is read: they stay in
/// floats.
ContractionOpInterface asProductToQuantize(mlir::Operation *op);
/// Returns true if a product (asProductToQuantize) is one of windows.
inline bool multipliesWindows(ContractionOpInterface product) { return product.getLeftRead() == LeftRead::Window; }

/// Returns how many features of a linear's input share a scale, beside weights of a block format; 0 for all of them.
/// `activations` is "8", `wideScales` or `tokenScales`.
int64_t inputBlockBeside(nn::BlockFormatAttr format, llvm::StringRef activations);

/// Quantizes left sides of contractions, each value once: to integers of 8 bits by blocks of 32 or 256 features or with
/// one scale for all (block 0), or to floats.
class QuantizedInputs {
public:
  void quantize(mlir::OpOperand &left, int64_t block);
  /// Quantizes a left side to the format of the weight that it is multiplied by.
  void quantizeToFloats(mlir::OpOperand &left, nn::BlockFormatAttr weights);
  /// Quantizes the input of the first linear of experts by blocks of 32; quantizeIntermediate() that of the second.
  void quantize(nn::ExpertsOp experts) { quantize(experts.getInputMutable(), /*block=*/32); }
  static void quantizeIntermediate(nn::ExpertsOp experts);

private:
  void quantize(mlir::OpOperand &operand, nn::BlockFormatAttr format);

  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::Value> inputs; // (input, format) → quantized input
};

} // namespace intarsia::quantize

#endif
