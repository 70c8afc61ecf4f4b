//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_PRODUCTS_H
#define INTARSIA_LIB_FUSE_PRODUCTS_H

#include "lib/Fuse/Fuser.h"

namespace intarsia::fuse {

/// Whether a linear's input is rounded to codes as it is read.
inline bool hasCodedInput(mlir::Operation *linear) {
  return llvm::isa<nn::LinearOp>(linear) && linear->getOperand(0).getDefiningOp<nn::DequantizeOp>();
}

/// A linear reads slices and reshapes of its input's outer dimensions where they are (the first token of each
/// sequence, for example), and rounds its input to codes itself: neither is worth a kernel, so that nothing has to be
/// decided. Gives the value that is read.
inline mlir::Value takeInputViews(Candidate &candidate) {
  auto linear = llvm::dyn_cast<nn::LinearOp>(candidate.root);
  if (!linear)
    return nullptr;
  mlir::Value input = linear.getInput();
  if (hasCodedInput(linear)) {
    mlir::Operation *dequantize = input.getDefiningOp();
    candidate.views.insert(dequantize);
    if (auto quantize = dequantize->getOperand(0).getDefiningOp<nn::QuantizeOp>()) {
      candidate.views.insert(quantize);
      input = quantize.getInput();
    }
  }
  for (mlir::Operation *view = input.getDefiningOp(); view && (isOuterSlice(view) || isOuterReshape(view));
       view = input.getDefiningOp()) {
    candidate.views.insert(view);
    input = view->getOperand(0);
  }
  return input;
}

} // namespace intarsia::fuse

#endif
