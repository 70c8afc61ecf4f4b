//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Outside.h"
#include "lib/Fuse/Products.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEWRAPREMAINING
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// The kind of kernel that computes the op alone; empty if there is none.
StringRef kindOf(Operation *op) {
  if (isa<nn::LinearOp>(op))
    return "linear";
  if (isa<nn::MatmulOp>(op))
    return "matmul";
  if (isa<nn::AttentionOp>(op))
    return "attention";
  if (isa<nn::EmbeddingOp, nn::RopeOp, tensor::ExtractSliceOp, tensor::ConcatOp>(op) || isRowWise(op) ||
      isElementwise(op) || isParallelGeneric(op))
    return "rows";
  if (isa<linalg::GenericOp>(op))
    return "generic";
  return "";
}

struct FuseWrapRemaining : fuse::impl::FuseWrapRemainingBase<FuseWrapRemaining> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    Fuser fuser(function, getArgument(), "", {});
    SmallVector<Operation *> remaining;
    for (Operation &op : fuser.body())
      if (!mayStayOutside(&op) && !isClonedIntoGroups(&op) && !isOpTriviallyDead(&op))
        remaining.push_back(&op);
    bool refused = false;
    for (Operation *op : remaining) {
      StringRef kind = kindOf(op);
      if (kind.empty() || !hasOnlyCloneableScalars(op, fuser.work())) {
        InFlightDiagnostic error = op->emitError() << "no kernel computes '" << op->getName() << "'";
        std::string place = locationName(op->getLoc());
        if (!place.empty())
          error << " of '" << place << "'";
        if (kind.empty())
          error << "; kernels are built around nn.linear, nn.matmul, nn.attention, rows (elementwise ops, norms, "
                   "softmax, embeddings, slices) and linalg.generic";
        else
          error << ": a scalar operand is computed from tensors";
        refused = true;
        continue;
      }
      Candidate candidate(op, kind);
      candidate.why = "alone";
      takeInputViews(candidate);
      fuser.makeGroup(candidate);
    }
    fuser.finish();
    if (refused)
      signalPassFailure();
  }
};
} // namespace
