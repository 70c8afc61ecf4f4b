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

/// nn.dequantize of nn.quantize of a tensor, with elements of the given type.
mlir::Value rounded(mlir::OpBuilder &builder, mlir::Location location, mlir::Value input, nn::BlockFormatAttr format,
                    mlir::Type element);

/// Inputs of linears, each rounded to 8 bits by blocks of 32 along its features once.
class RoundedInputs {
public:
  void round(nn::LinearOp linear);

private:
  llvm::DenseMap<mlir::Value, mlir::Value> inputs; // as computed, as rounded
};

} // namespace intarsia::quantize

#endif
