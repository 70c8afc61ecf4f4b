//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/LinearInputs.h"
#include "lib/Fuse/Outside.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEWRAPREMAINING
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// " of 'encoder.dense'", the op's location in the user's model where it is known.
std::string inModel(Operation *op) {
  std::string name = locationName(op->getLoc());
  return name.empty() ? name : " of '" + name + "'";
}

struct FuseWrapRemaining : fuse::impl::FuseWrapRemainingBase<FuseWrapRemaining> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return signalPassFailure();
    Fuser fuser(function, getArgument(), std::move(*devices), {});
    bool wrapped = true;
    auto wrapAll = [&](function_ref<bool(Operation *)> isMeant) {
      SmallVector<Operation *> remaining;
      for (Operation &op : fuser.body())
        if (isMeant(&op) && !mayStayOutside(&op) && !isClonedIntoGroups(&op) && !isOpTriviallyDead(&op))
          remaining.push_back(&op);
      for (Operation *op : remaining)
        wrapped &= succeeded(wrap(fuser, op));
    };
    // An op that quantizes its input gets copies of the ops that say so; the originals are dead then.
    wrapAll(hasQuantizedInput);
    eraseDeadOps(fuser.body());
    wrapAll([](Operation *) { return true; });
    // Originals of ops that groups have copies of are still read where they leave the function, directly or through a
    // view.
    eraseDeadOps(fuser.body());
    for (Operation &op : llvm::make_early_inc_range(fuser.body())) {
      auto consumer = llvm::find_if(op.getUsers(), [](Operation *user) { return !isClonedIntoGroups(user); });
      if (consumer == op.user_end() || mayStayOutside(&op))
        continue;
      if (isa<linalg::FillOp, tensor::SplatOp>(op)) {
        wrapped &= succeeded(wrap(fuser, &op));
      } else if (isa<tensor::EmptyOp>(op)) {
        op.emitError() << "'" << (*consumer)->getName() << "' reads a 'tensor.empty'" << inModel(&op)
                       << ", whose elements nothing has written; fill it with linalg.fill";
        wrapped = false;
      }
    }
    if (failed(fuser.finish()) || !wrapped)
      signalPassFailure();
  }

  static LogicalResult wrap(Fuser &fuser, Operation *op) {
    std::optional<KernelRoot> kind = kernelRootOf(op);
    if (!kind)
      return op->emitError()
             << "no kernel computes '" << op->getName() << "'" << inModel(op)
             << "; kernels are built around nn.linear, nn.matmul, nn.conv, nn.attention, nn.cache_append, "
                "nn.cached_attention, nn.route, nn.experts, nn.candidates, rows (elementwise ops, norms, softmax, "
                "embeddings, slices) and "
                "linalg.generic";
    if (!hasOnlyCloneableScalars(op, fuser.work()))
      return op->emitError() << "no kernel computes '" << op->getName() << "'" << inModel(op)
                             << ": a scalar operand is computed from tensors, or from the counter of a loop of "
                                "more iterations than are written out";
    Candidate candidate(op, *kind);
    candidate.why = "alone";
    takeInputViews(candidate);
    fuser.makeGroup(candidate);
    return success();
  }
};
} // namespace
