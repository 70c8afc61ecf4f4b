//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Fuser.h"
#include "llvm/ADT/MapVector.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSESHAREDINPUTLINEARS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// What linears must have in common to be joined: input, element type and input features of the weight, whether there
/// is a bias.
using Key = std::tuple<Value, Type, int64_t, int64_t>;

/// True if an attention reads the linear's result as query, key or value, and nothing else reads it.
bool feedsAttentionOnly(nn::LinearOp linear) {
  auto isAttentionOperand = [](OpOperand &use) {
    return isa<nn::AttentionOp>(use.getOwner()) && use.getOperandNumber() < 3;
  };
  for (OpOperand &use : linear.getResult().getUses()) {
    if (isAttentionOperand(use) || isa<tensor::DimOp>(use.getOwner()))
      continue;
    auto expand = dyn_cast<tensor::ExpandShapeOp>(use.getOwner());
    if (!expand || !llvm::all_of(expand->getUses(), isAttentionOperand))
      return false;
  }
  return !linear->use_empty();
}

/// "encoder.self.query", "encoder.self.key" → "encoder.self.{query,key}".
Location joinedLocation(MutableArrayRef<nn::LinearOp> linears) {
  MLIRContext *context = linears.front()->getContext();
  SmallVector<Location> locations;
  std::string prefix, names;
  for (nn::LinearOp linear : linears) {
    locations.push_back(linear.getLoc());
    auto name = dyn_cast<NameLoc>(linear.getLoc());
    if (!name)
      return FusedLoc::get(context, locations);
    auto [parent, leaf] = name.getName().getValue().rsplit('.');
    if (leaf.empty())
      std::swap(parent, leaf);
    if (!names.empty() && parent != prefix)
      return FusedLoc::get(context, locations);
    prefix = parent.str();
    names += (names.empty() ? "" : ",") + leaf.str();
  }
  std::string name = (prefix.empty() ? "" : prefix + ".") + "{" + names + "}";
  return NameLoc::get(StringAttr::get(context, name), FusedLoc::get(context, locations));
}

struct FuseSharedInputLinears : fuse::impl::FuseSharedInputLinearsBase<FuseSharedInputLinears> {
  using FuseSharedInputLinearsBase::FuseSharedInputLinearsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    Fuser fuser(function, getArgument(), cpu, flip);
    llvm::MapVector<Key, SmallVector<nn::LinearOp>> sharing;
    for (auto linear : fuser.body().getOps<nn::LinearOp>()) {
      auto weight = dyn_cast<RankedTensorType>(linear.getWeight().getType());
      bool stored = linear.getWeight().getDefiningOp<nn::WeightOp>() &&
                    (!linear.getBias() || linear.getBias().getDefiningOp<nn::WeightOp>());
      if (stored && feedsAttentionOnly(linear))
        sharing[{linear.getInput(), weight.getElementType(), weight.getDimSize(1), linear.getBias() ? 1 : 0}].push_back(
            linear);
    }
    for (auto &[key, linears] : sharing)
      if (linears.size() > 1)
        join(fuser, linears);
    fuser.finish();
  }

  void join(Fuser &fuser, MutableArrayRef<nn::LinearOp> linears) {
    SmallVector<Operation *> ops(linears.begin(), linears.end());
    double apartUs = 0;
    for (Operation *op : ops)
      apartUs += fuser.microseconds("linear", op);
    std::string why;
    if (!fuser.decide({ops.front(), "linear", "nn.linear", fuser.microseconds("linear", ops), apartUs,
                       "apart: a kernel launch for each linear, and the input is read by each"},
                      why))
      return;

    // Weights may be defined after the first linear: build behind the last, and let the order be restored at the end.
    Operation *last = *llvm::max_element(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    OpBuilder builder(last->getContext());
    builder.setInsertionPointAfter(last);
    Location loc = joinedLocation(linears);
    SmallVector<Value> weights, biases;
    for (nn::LinearOp linear : linears) {
      weights.push_back(linear.getWeight());
      if (linear.getBias())
        biases.push_back(linear.getBias());
    }
    Value input = linears.front().getInput();
    Value weight = tensor::ConcatOp::create(builder, loc, 0, weights);
    Value bias = biases.empty() ? Value() : tensor::ConcatOp::create(builder, loc, 0, biases).getResult();
    int64_t features = cast<RankedTensorType>(weight.getType()).getDimSize(0);
    auto narrow = cast<RankedTensorType>(linears.front().getResult().getType());
    SmallVector<int64_t> shape(narrow.getShape());
    shape.back() = features;
    auto joined =
        nn::LinearOp::create(builder, loc, RankedTensorType::get(shape, narrow.getElementType()), input, weight, bias);

    SmallVector<OpFoldResult> offsets(shape.size(), builder.getIndexAttr(0)),
        strides(shape.size(), builder.getIndexAttr(1));
    SmallVector<OpFoldResult> sizes;
    for (auto [position, size] : llvm::enumerate(shape))
      sizes.push_back(ShapedType::isDynamic(size)
                          ? OpFoldResult(tensor::DimOp::create(builder, loc, input, position).getResult())
                          : OpFoldResult(builder.getIndexAttr(size)));
    int64_t offset = 0;
    for (nn::LinearOp linear : linears) {
      auto type = cast<RankedTensorType>(linear.getResult().getType());
      offsets.back() = builder.getIndexAttr(offset);
      sizes.back() = builder.getIndexAttr(type.getShape().back());
      offset += type.getShape().back();
      Value slice =
          tensor::ExtractSliceOp::create(builder, linear.getLoc(), type, joined.getResult(), offsets, sizes, strides);
      fuser.replaced(linear.getResult(), slice);
      linear.getResult().replaceAllUsesWith(slice);
    }
  }
};
} // namespace
