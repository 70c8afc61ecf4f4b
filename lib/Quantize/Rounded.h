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

/// Inputs of linears, each rounded to 8 bits by blocks of so many features (32 or 256) once.
class RoundedInputs {
public:
  void round(nn::LinearOp linear, int64_t block);

private:
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> inputs; // as computed and the block, as rounded
};

} // namespace intarsia::quantize

#endif
