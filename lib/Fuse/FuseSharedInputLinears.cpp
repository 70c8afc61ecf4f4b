//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Prepacking.h"
#include "lib/Fuse/Fuser.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSESHAREDINPUTLINEARS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// Properties that linears must have in common to be concatenated: input, how the weight is stored and its input
/// features, the type of the bias if there is one, the device, and what becomes of the results: an attention reads
/// them, or a common consumer does.
struct Key {
  Value input;
  Attribute stored;
  int64_t depth;
  Type bias;
  bool feedsAttention;
  Operation *consumer;
  Attribute device;
  Attribute precision;

  auto fields() const { return std::tie(input, stored, depth, bias, feedsAttention, consumer, device, precision); }
  bool operator==(const Key &other) const { return fields() == other.fields(); }
};
using Sharing = SmallVector<std::pair<Key, SmallVector<nn::LinearOp>>>;

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

/// The first elementwise op on the only way from a linear's result that reads another tensor which is computed: the
/// multiplication of gate and up. Null if there is none.
Operation *consumerOf(nn::LinearOp linear) {
  for (Value value = linear.getResult();;) {
    Operation *next = nullptr;
    for (Operation *user : value.getUsers()) {
      if (isa<tensor::DimOp>(user) || user == next)
        continue;
      if (next || !isElementwise(user))
        return nullptr;
      next = user;
    }
    if (!next)
      return nullptr;
    if (llvm::any_of(next->getOperands(), [&](Value other) { return other != value && !isCompileTime(other); }))
      return next;
    value = next->getResult(0);
  }
}

/// "encoder.self.query", "encoder.self.key" → "encoder.self.{query,key}".
Location fusedLocation(MutableArrayRef<nn::LinearOp> linears) {
  MLIRContext *context = linears.front()->getContext();
  SmallVector<Location> locations;
  std::string prefix, names;
  for (nn::LinearOp linear : linears) {
    locations.push_back(linear.getLoc());
    auto name = dyn_cast<NameLoc>(linear.getLoc());
    if (!name)
      return FusedLoc::get(context, locations);
    auto [parent, last] = name.getName().getValue().rsplit('.');
    if (last.empty())
      std::swap(parent, last);
    if (!names.empty() && parent != prefix)
      return FusedLoc::get(context, locations);
    prefix = parent.str();
    names += (names.empty() ? "" : ",") + last.str();
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
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return signalPassFailure();
    Fuser fuser(function, getArgument(), std::move(*devices), flip);
    Sharing sharing;
    auto add = [&](const Key &key, nn::LinearOp linear) {
      auto found = llvm::find_if(sharing, [&](auto &entry) { return entry.first == key; });
      if (found == sharing.end())
        found = sharing.insert(found, {key, {}});
      found->second.push_back(linear);
    };
    llvm::SmallDenseMap<Operation *, unsigned> consumers;
    SmallVector<std::pair<nn::LinearOp, Operation *>> linears;
    for (auto linear : fuser.body().getOps<nn::LinearOp>()) {
      linears.emplace_back(linear, consumerOf(linear));
      ++consumers[linears.back().second];
    }
    // A linear that shares its consumer with other linears is concatenated only with those.
    for (auto [linear, consumer] : linears) {
      Attribute stored = nn::storedFormOf(linear.getWeight());
      if (!stored || (linear.getBias() && !linear.getBias().getDefiningOp<nn::WeightOp>()))
        continue;
      int64_t depth = cast<RankedTensorType>(linear.getWeight().getType()).getDimSize(1);
      Type bias = linear.getBias() ? getElementTypeOrSelf(linear.getBias().getType()) : Type();
      add({linear.getInput(), stored, depth, bias, feedsAttentionOnly(linear),
           consumers.lookup(consumer) > 1 ? consumer : nullptr, linear->getAttr(rt::deviceAttr),
           linear.getPrecisionAttr()},
          linear);
    }
    for (auto &[key, members] : sharing)
      if (members.size() > 1 &&
          (key.feedsAttention || areStoredApart(fuser.targetOf(members.front()), members, key.consumer)))
        concatenate(fuser, members);
    if (failed(fuser.finish()))
      return signalPassFailure();
  }

  /// True if a kernel can store the results each for itself: its tiles are panels of the weight's rows, each of which
  /// belongs to one result, or has one of each where an op reads them together.
  static bool areStoredApart(const target::Target &target, ArrayRef<nn::LinearOp> linears, bool together) {
    auto features = [](nn::LinearOp linear) {
      return cast<RankedTensorType>(linear.getResult().getType()).getShape().back();
    };
    if (together && !llvm::all_of(linears, [&](auto linear) { return features(linear) == features(linears.front()); }))
      return false;
    int64_t end = 0;
    return llvm::all_of(linears.drop_back(),
                        [&](nn::LinearOp linear) { return target.splitsAt(end += features(linear)); });
  }

  void concatenate(Fuser &fuser, MutableArrayRef<nn::LinearOp> linears) {
    SmallVector<Operation *> ops(linears.begin(), linears.end());
    double apartUs = 0;
    for (Operation *op : ops)
      apartUs += fuser.microseconds(KernelRoot::Linear, op);
    std::string why;
    if (!fuser.decide({ops.front(), KernelRoot::Linear, "nn.linear", fuser.microseconds(KernelRoot::Linear, ops),
                       apartUs, "apart: a kernel launch for each linear, and the input is read by each"},
                      why))
      return;

    // Weights may be defined after the first linear: build behind the last, and let the order be restored at the end.
    Operation *last = *llvm::max_element(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    OpBuilder builder(last->getContext());
    builder.setInsertionPointAfter(last);
    Location loc = fusedLocation(linears);
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
    auto concatenated = nn::LinearOp::create(builder, loc, RankedTensorType::get(shape, narrow.getElementType()), input,
                                             weight, bias, linears.front().getPrecisionAttr());
    if (Attribute device = linears.front()->getAttr(rt::deviceAttr))
      concatenated->setAttr(rt::deviceAttr, device);

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
      Value slice = tensor::ExtractSliceOp::create(builder, linear.getLoc(), type, concatenated.getResult(), offsets,
                                                   sizes, strides);
      fuser.replaced(linear.getResult(), slice);
      linear.getResult().replaceAllUsesWith(slice);
    }
  }
};
} // namespace
