//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_LINEARINPUTS_H
#define INTARSIA_LIB_FUSE_LINEARINPUTS_H

#include "lib/Fuse/Fuser.h"

namespace intarsia::fuse {

/// True if the input of a linear or of experts is quantized as it is read.
inline bool hasQuantizedInput(mlir::Operation *op) {
  return llvm::isa<nn::LinearOp, nn::ExpertsOp>(op) && op->getOperand(0).getDefiningOp<nn::DequantizeOp>();
}

/// A linear reads slices and reshapes of its input's outer dimensions where they are (the first token of each
/// sequence, for example), and quantizes its input itself, as experts do: neither is worth a kernel, so that nothing
/// has to be decided. Gives the value that is read.
inline mlir::Value takeInputViews(Candidate &candidate) {
  if (!llvm::isa<nn::LinearOp, nn::ExpertsOp>(candidate.root))
    return nullptr;
  mlir::Value input = candidate.root->getOperand(0);
  if (hasQuantizedInput(candidate.root)) {
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
