//===- LowerNnToReference.cpp - Every nn op as plain loops -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/ReferenceBuilder.h"
#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Ops/Constants/Constants.h"
#include "intarsia/Reference/Reference.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace intarsia::reference {
#define GEN_PASS_DEF_LOWERNNTOREFERENCE
#include "lib/Reference/Passes.h.inc"

namespace {
void inlineGroup(IRRewriter &rewriter, nn::GroupOp group) {
  auto yield = cast<nn::YieldOp>(group.getBodyBlock().getTerminator());
  rewriter.inlineBlockBefore(&group.getBodyBlock(), group, group.getInputs());
  SmallVector<Value> values(yield.getValues());
  rewriter.eraseOp(yield);
  rewriter.replaceOp(group, values);
}

/// True if an op is of a cache whose pages have no size yet.
bool isOfOpenCache(Operation *op) {
  if (auto append = dyn_cast<nn::CacheAppendOp>(op))
    return append.getFormat().isOpen();
  auto attention = dyn_cast<nn::CachedAttentionOp>(op);
  return attention && attention.getKeyFormat().isOpen();
}

struct LowerNnToReference : impl::LowerNnToReferenceBase<LowerNnToReference> {
  void getDependentDialects(DialectRegistry &registry) const override {
    LowerNnToReferenceBase::getDependentDialects(registry);
    registerReferenceModels(registry);
  }

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<nn::GroupOp> groups;
    getOperation()->walk([&](nn::GroupOp group) { groups.push_back(group); });
    for (nn::GroupOp group : groups)
      inlineGroup(rewriter, group);

    // References may hold other ops of nn.
    bool fails = false;
    for (SmallVector<Operation *> ops = computed(); !ops.empty() && !fails; ops = computed())
      for (Operation *op : ops)
        fails |= failed(lower(rewriter, op));
    if (fails)
      signalPassFailure();
  }

  /// Returns the ops of nn that are left, but for weights.
  SmallVector<Operation *> computed() {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa<nn::NnDialect>(op->getDialect()) && !isa<nn::ArchiveOp, nn::ConstantsOp, nn::WeightOp>(op))
        ops.push_back(op);
    });
    return ops;
  }

  static LogicalResult lower(IRRewriter &rewriter, Operation *op) {
    auto reference = dyn_cast<ReferenceOpInterface>(op);
    if (!reference)
      return op->emitOpError("has no reference lowering; give it one in dialects/Nn/Ops");
    if (isOfOpenCache(op))
      return op->emitOpError("is of a cache whose pages have no size yet; run partition-lay-out-caches first");
    rewriter.setInsertionPoint(op);
    ReferenceBuilder builder(op->getLoc(), rewriter);
    rewriter.replaceOp(op, builder.castToResults(reference.buildReference(builder), op));
    return success();
  }
};
} // namespace
} // namespace intarsia::reference
