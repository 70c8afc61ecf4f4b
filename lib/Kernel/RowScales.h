//===- RowScales.h - Inputs of linears with one scale for each row -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_ROWSCALES_H
#define INTARSIA_LIB_KERNEL_ROWSCALES_H

#include "dialects/Nn/Nn.h"

namespace intarsia::kernel {

/// Returns the nn.quantize to integers of 8 bits with one scale in f32 for each row that a matmul's input comes from;
/// null if there is none.
nn::QuantizeOp quantizedByRows(mlir::Value input);

} // namespace intarsia::kernel

#endif
