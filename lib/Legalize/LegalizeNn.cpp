//===- LegalizeNn.cpp - Ops that are made of others -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// What needs loops that the host runs, or constants that are stored as weights are, is written out before any phase
// decides on it.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Sort/SortLoops.h"
#include "lib/Legalize/Decompose.h"
#include "lib/Legalize/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZENN
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;
using namespace intarsia;
using namespace intarsia::reference;

/// True for an op that sorts a dynamic number of elements. A host runs loops around tensors, not in kernels.
template <typename Op> static bool isSortedInSteps(Op op) {
  return cast<RankedTensorType>(op.getInput().getType()).isDynamicDim(op.getAxis());
}

static SmallVector<Value> sortInSteps(ReferenceBuilder &builder, Value input, int64_t axis, bool isDescending,
                                      std::optional<int64_t> count) {
  SortLoops loops(builder, input, axis, isDescending);
  Value order = loops.orderInSteps(count ? OpFoldResult(builder.getIndexAttr(*count)) : builder.sizesOf(input)[axis]);
  return {loops.take(order), order};
}

/// True if no result has elements, as a static size says: there is nothing to compute, and loops have nothing to read.
static bool hasNoElements(Operation *op) {
  return llvm::all_of(op->getResultTypes(),
                      [](Type type) { return llvm::is_contained(cast<RankedTensorType>(type).getShape(), 0); });
}

/// Returns the results of an op, made of other ops; none if it stays.
static SmallVector<Value> decompose(ReferenceBuilder &builder, Operation *op) {
  if (hasNoElements(op))
    return {};
  return llvm::TypeSwitch<Operation *, SmallVector<Value>>(op)
      .Case([&](nn::NmsOp nms) { return nms.buildReference(builder); })
      .Case([&](nn::FftOp fft) -> SmallVector<Value> {
        if (ShapedType::isDynamic(fft.getNumber()))
          return {};
        return {legalize::decomposeFft(builder, fft)};
      })
      .Case([&](nn::SortOp sort) -> SmallVector<Value> {
        if (!isSortedInSteps(sort))
          return {};
        return sortInSteps(builder, sort.getInput(), sort.getAxis(), sort.getDescending(), std::nullopt);
      })
      .Case([&](nn::TopKOp top) -> SmallVector<Value> {
        if (!isSortedInSteps(top) || top.getK() == 0)
          return {};
        return sortInSteps(builder, top.getInput(), top.getAxis(), !top.getSmallest(), top.getK());
      })
      .Default([](Operation *) { return SmallVector<Value>(); });
}

namespace {
struct LegalizeNn : legalize::impl::LegalizeNnBase<LegalizeNn> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<Operation *> open;
    auto collect = [&](Operation *op) {
      if (isa<nn::NmsOp, nn::FftOp, nn::SortOp, nn::TopKOp>(op))
        open.push_back(op);
    };
    getOperation().walk(collect);
    while (!open.empty()) {
      Operation *op = open.pop_back_val();
      rewriter.setInsertionPoint(op);
      ReferenceBuilder builder(op->getLoc(), rewriter);
      builder.sumType = builder.getF32Type();
      Operation *before = op->getPrevNode();
      SmallVector<Value> values = decompose(builder, op);
      if (values.empty())
        continue;
      values = builder.castToResults(values, op);
      for (Operation *made = op->getPrevNode(); made != before; made = made->getPrevNode())
        collect(made);
      rewriter.replaceOp(op, values);
    }
  }
};
} // namespace
