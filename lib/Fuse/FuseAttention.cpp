//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Fuser.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEATTENTION
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// The views between a stored tensor and an operand of attention: a slice of the last dimension, then its split into
/// heads; either may be missing.
SmallVector<Operation *> viewsOf(Value operand, const WorkModel &work) {
  SmallVector<Operation *> views;
  Operation *op = operand.getDefiningOp();
  if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op)) {
    SmallVector<ReassociationIndices> groups = expand.getReassociationIndices();
    bool splitsLast = groups.size() == 3 && groups.back().size() == 2;
    if (!splitsLast)
      return views;
    views.push_back(op);
    op = expand.getSrc().getDefiningOp();
  }
  if (op && isLastDimSlice(op, work))
    views.push_back(op);
  return views;
}

struct FuseAttention : fuse::impl::FuseAttentionBase<FuseAttention> {
  using FuseAttentionBase::FuseAttentionBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return signalPassFailure();
    Fuser fuser(function, getArgument(), std::move(*devices), flip);
    for (nn::AttentionOp attention : llvm::to_vector(fuser.body().getOps<nn::AttentionOp>()))
      group(fuser, attention);
    for (Operation &op : llvm::make_early_inc_range(fuser.body())) {
      if (auto attention = dyn_cast<nn::CachedAttentionOp>(op))
        takeRope(fuser, attention, attention.getQuery());
      else if (auto append = dyn_cast<nn::CacheAppendOp>(op); append && !append.getFormat().isQuantized())
        takeRope(fuser, append, append.getRows());
    }
    if (failed(fuser.finish()))
      return signalPassFailure();
  }

  /// Kernels of caches read each row once, if they do not quantize it: one that nothing else reads is rotated then.
  static void takeRope(Fuser &fuser, Operation *op, Value rows) {
    auto rope = rows.getDefiningOp<nn::RopeOp>();
    Candidate candidate(op, *kernelRootOf(op));
    bool readByOthers = rope && llvm::any_of(rope->getUsers(),
                                             [&](Operation *user) { return user != op && !isa<tensor::DimOp>(user); });
    if (!rope || readByOthers || !fuser.staysWhole(candidate, rope.getOperation()) ||
        !fuser.shouldJoin(candidate, rope.getOperation(), KernelRoot::Rows))
      return;
    candidate.ops.insert(rope);
    fuser.makeGroup(candidate);
  }

  void group(Fuser &fuser, nn::AttentionOp attention) {
    Candidate candidate(attention, KernelRoot::Attention);
    candidate.why = "attention: scores stay inside";
    llvm::SetVector<Operation *> reshapes, slices;
    for (Value operand : {attention.getQuery(), attention.getKey(), attention.getValue()})
      for (Operation *view : viewsOf(operand, fuser.work()))
        (isReshape(view) ? reshapes : slices).insert(view);
    // A reshape costs nothing on either side. It joins only with the slice before it, or where there is none:
    // the group's operand then has the type that is stored.
    bool join = slices.empty() || fuser.shouldView(candidate, slices.getArrayRef(), "tensor.extract_slice");
    candidate.views.insert(reshapes.begin(), reshapes.end());
    if (join)
      candidate.views.insert(slices.begin(), slices.end());
    if (attention->hasOneUse())
      if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(*attention->user_begin());
          collapse && collapse->getBlock() == attention->getBlock() && collapse.getReassociationIndices().size() == 3 &&
          collapse.getReassociationIndices().back().size() == 2)
        candidate.ops.insert(collapse);
    fuser.makeGroup(candidate);
  }
};
} // namespace
