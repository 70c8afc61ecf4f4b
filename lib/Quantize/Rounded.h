//===- Rounded.h - Values as the codes of a format mean them -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_QUANTIZE_ROUNDED_H
#define INTARSIA_LIB_QUANTIZE_ROUNDED_H

#include "dialects/Nn/Nn.h"

namespace intarsia::quantize {

/// Returns nn.dequantize of nn.quantize of a tensor, with elements of the given type.
mlir::Value rounded(mlir::OpBuilder &builder, mlir::Location location, mlir::Value input, nn::BlockFormatAttr format,
                    mlir::Type element);

/// Returns true if the op only moves or reshapes the rows of its operands (values along the last dimension). Only the
/// first operand of a linalg.transpose counts.
bool movesRows(mlir::Operation *op);

/// Rounds inputs of linears and experts to 8 bits, by blocks of 32 or 256 features; each input once.
class RoundedInputs {
public:
  void round(nn::LinearOp linear, int64_t block) { round(linear.getInputMutable(), block); }
  /// Rounds the input of the first product of experts by blocks of 32; roundIntermediate() that of the second.
  void round(nn::ExpertsOp experts) { round(experts.getInputMutable(), /*block=*/32); }
  static void roundIntermediate(nn::ExpertsOp experts);

private:
  void round(mlir::OpOperand &operand, int64_t block);

  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> inputs; // (input, block) → rounded input
};

} // namespace intarsia::quantize

#endif
