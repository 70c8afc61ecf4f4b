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

/// Returns true if an op quantizes the rows of its input as it reads them.
inline bool hasQuantizedInput(mlir::Operation *op) {
  auto root = llvm::dyn_cast<RowInputOpInterface>(op);
  return root && !root.getRowInput().quantization.empty();
}

/// Adds what the root of a candidate does to its input as it reads it: it quantizes rows, and reads slices and reshapes
/// of the input's outer dimensions (the first token of each sequence, for example) where they are. Neither is worth a
/// kernel, so that nothing has to be decided. Returns the value that is read; null if the root reads no rows.
inline mlir::Value takeInputViews(Candidate &candidate) {
  auto root = llvm::dyn_cast<RowInputOpInterface>(candidate.root);
  if (!root)
    return nullptr;
  auto [input, quantization] = root.getRowInput();
  if (!input)
    return nullptr;
  candidate.views.insert(quantization.begin(), quantization.end());
  for (mlir::Operation *view = input.getDefiningOp(); view && (isOuterSlice(view) || isOuterReshape(view));
       view = input.getDefiningOp()) {
    candidate.views.insert(view);
    input = view->getOperand(0);
  }
  return input;
}

} // namespace intarsia::fuse

#endif
