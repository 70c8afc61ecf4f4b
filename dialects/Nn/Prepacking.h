//===- Prepacking.h - Tensors that are made when weights are packed -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_PREPACKING_H
#define INTARSIA_DIALECTS_NN_PREPACKING_H

#include "dialects/Nn/Nn.h"
#include <optional>
#include <string>

namespace intarsia::nn {

/// Returns true if a tensor can be made when weights are packed: the packer interprets its ops row by row. They are
/// nn.weight, arith.constant, reshapes, nn.dequantize of what nn.quantize gives or of what an archive stores,
/// concatenations along the outermost dimension, parts along one dimension, of rows of quantized values in whole
/// blocks, and transpositions of tensors of archives or of whole rows. If the value begins as such a tensor, `reason`
/// says why it is none.
bool isPrepacked(mlir::Value value, std::string *reason = nullptr);

/// Returns why the packer cannot interpret an op whose operands it can; nullopt if it can.
std::optional<std::string> whyNotPrepacked(mlir::Operation *op);

/// Returns the format that the rows of a prepacked tensor are quantized to, by nn.quantize or in an archive, as a
/// layout of one matrix names it (getRowFormat). Null if there are several formats or none, or no rows of whole blocks.
BlockFormatAttrInterface quantizedFormatOf(mlir::Value value);

/// Returns the nn.weight that is a value, or whose quantized values a value is dequantized from; null if there is none.
WeightOp storedWeight(mlir::Value value);

/// Returns what must be equal in matrices of archives for one matrix of all their rows to be stored as each of them is:
/// the element type, and of a quantized matrix also the format and the type of the values that it is dequantized to.
/// Null for values that are neither stored in an archive nor quantized from what is.
mlir::Attribute storedFormOf(mlir::Value value);

/// Returns true for an op that gives nothing but parts of prepacked tensors: a weight, or what nn.quantize gives, that
/// only nn.dequantize reads. Such a part has no memory at run time.
bool isPartOfPrepacked(mlir::Operation *op);

/// Returns the tensor that a value is, or is another shape of.
mlir::Value reshapeSource(mlir::Value value);

/// Returns the tensor that a value is, or has the elements of in another shape or order.
mlir::Value transposeSource(mlir::Value value);

/// Returns true if a transposition leaves every element where it is.
bool isIdentityTranspose(mlir::Operation *op);

} // namespace intarsia::nn

#endif
