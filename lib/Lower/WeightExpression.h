//===- WeightExpression.h - What is known of a tensor ahead of time ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_WEIGHTEXPRESSION_H
#define INTARSIA_LIB_LOWER_WEIGHTEXPRESSION_H

#include "dialects/Nn/Nn.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <string>

namespace intarsia::lower {

/// A tensor that can be made ahead of time: tensors of archives, joined one after another, or data that the IR holds.
struct WeightExpression {
  llvm::SmallVector<mlir::FlatSymbolRefAttr> archives; // one for each key
  llvm::SmallVector<mlir::StringAttr> keys;
  llvm::SmallVector<mlir::Attribute> blocks; // one for each key: the #nn.ggml_type that is decoded, null for none
  bool mxfp4 = false;                        // two keys, of blocks and of scales
  bool transposed = false;                   // each key is a matrix, transposed before it is joined
  llvm::SmallVector<int64_t> strides;        // of elements that lie in another order; else empty
  nn::BlockFormatAttr format;                // the numbers are rounded to it; of a matrix: its axis is 1
  mlir::DenseElementsAttr value;             // instead of keys
  mlir::RankedTensorType type;               // of the whole
};

/// The expression of a value that is made of nn.weight, nn.dequantize_blocks, arith.constant, reshapes, transposes of
/// what one key holds or that keep rows whole, nn.dequantize of nn.quantize along the last dimension, and
/// concatenations along the outermost dimension. Otherwise none, and `reason` says why if the value began as one.
std::optional<WeightExpression> weightExpressionOf(mlir::Value value, std::string &reason);

/// The format whose codes and scales panels can hold in place of the weight's numbers, an #nn.block_format or an
/// #nn.ggml_type that is none; null if there is none: the weight has no rows, is neither rounded nor stored in blocks
/// of one format, or no panels hold that.
mlir::Attribute codedFormatOf(const WeightExpression &expression);

} // namespace intarsia::lower

#endif
