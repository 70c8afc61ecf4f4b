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

/// A linear reads slices and reshapes of its input's outer dimensions where they are (the first token of each
/// sequence, for example): they cost nothing, so that nothing has to be decided.
inline void takeInputViews(Candidate &candidate) {
  auto linear = llvm::dyn_cast<nn::LinearOp>(candidate.root);
  if (!linear)
    return;
  for (mlir::Operation *view = linear.getInput().getDefiningOp(); view && (isOuterSlice(view) || isOuterReshape(view));
       view = view->getOperand(0).getDefiningOp())
    candidate.views.insert(view);
}

} // namespace intarsia::fuse

#endif
