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
/// Properties that linears must have in common to be concatenated: the kind of op and its attributes, input, how the
/// weight is stored and its input features, the type of the bias if there is one, the device, and what becomes of the
/// results: an attention reads them, or a common consumer does.
struct Key {
  OperationName name;
  Attribute attributes;
  Value input;
  Attribute stored;
  int64_t depth;
  Type bias;
  bool feedsAttention;
  Operation *consumer;
  Attribute device;

  auto fields() const {
    return std::tie(name, attributes, input, stored, depth, bias, feedsAttention, consumer, device);
  }
  bool operator==(const Key &other) const { return fields() == other.fields(); }
};
using Sharing = SmallVector<std::pair<Key, SmallVector<ContractionOpInterface>>>;

/// True if an attention reads the linear's result as query, key or value, and nothing else reads it.
bool feedsAttentionOnly(ContractionOpInterface linear) {
  auto isAttentionOperand = [](OpOperand &use) {
    return isa<nn::AttentionOp>(use.getOwner()) && use.getOperandNumber() < 3;
  };
  for (OpOperand &use : linear->getUses()) {
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
Operation *consumerOf(ContractionOpInterface linear) {
  for (Value value = linear->getResult(0);;) {
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
Location fusedLocation(MutableArrayRef<ContractionOpInterface> linears) {
  MLIRContext *context = linears.front()->getContext();
  SmallVector<Location> locations;
  std::string prefix, names;
  for (ContractionOpInterface linear : linears) {
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
    auto add = [&](const Key &key, ContractionOpInterface linear) {
      auto found = llvm::find_if(sharing, [&](auto &entry) { return entry.first == key; });
      if (found == sharing.end())
        found = sharing.insert(found, {key, {}});
      found->second.push_back(linear);
    };
    llvm::SmallDenseMap<Operation *, unsigned> consumers;
    SmallVector<std::pair<ContractionOpInterface, Operation *>> linears;
    for (Operation &op : fuser.body()) {
      ContractionOpInterface linear = asProductWithWeight(&op);
      if (!linear || !kernelRootOf(&op))
        continue;
      linears.emplace_back(linear, consumerOf(linear));
      ++consumers[linears.back().second];
    }
    // A linear that shares its consumer with other linears is concatenated only with those.
    for (auto [linear, consumer] : linears) {
      Attribute stored = nn::storedFormOf(linear.getRight());
      if (!stored || (linear.getBias() && !linear.getBias().getDefiningOp<nn::WeightOp>()))
        continue;
      int64_t depth = cast<RankedTensorType>(linear.getRight().getType()).getDimSize(1);
      Type bias = linear.getBias() ? getElementTypeOrSelf(linear.getBias().getType()) : Type();
      add({linear->getName(), linear->getPropertiesAsAttribute(), linear.getLeft(), stored, depth, bias,
           feedsAttentionOnly(linear), consumers.lookup(consumer) > 1 ? consumer : nullptr,
           linear->getAttr(rt::deviceAttr)},
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
  static bool areStoredApart(const target::Target &target, ArrayRef<ContractionOpInterface> linears, bool together) {
    auto features = [](Operation *linear) {
      return cast<RankedTensorType>(linear->getResult(0).getType()).getShape().back();
    };
    if (together && !llvm::all_of(linears, [&](auto linear) { return features(linear) == features(linears.front()); }))
      return false;
    int64_t end = 0;
    return llvm::all_of(linears.drop_back(),
                        [&](Operation *linear) { return target.splitsAt(end += features(linear)); });
  }

  void concatenate(Fuser &fuser, MutableArrayRef<ContractionOpInterface> linears) {
    SmallVector<Operation *> ops(linears.begin(), linears.end());
    KernelRoot root = *kernelRootOf(ops.front());
    double apartUs = 0;
    for (Operation *op : ops)
      apartUs += fuser.microseconds(root, op);
    std::string why;
    if (!fuser.decide({ops.front(), root, ops.front()->getName().getStringRef().str(), fuser.microseconds(root, ops),
                       apartUs, "apart: a kernel launch for each linear, and the input is read by each"},
                      why))
      return;

    // Weights may be defined after the first linear: build behind the last, and let the order be restored at the end.
    Operation *last = *llvm::max_element(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    OpBuilder builder(last->getContext());
    builder.setInsertionPointAfter(last);
    Location loc = fusedLocation(linears);
    SmallVector<Value> weights, biases;
    for (ContractionOpInterface linear : linears) {
      weights.push_back(linear.getRight());
      if (linear.getBias())
        biases.push_back(linear.getBias());
    }
    Value input = linears.front().getLeft();
    Value weight = tensor::ConcatOp::create(builder, loc, 0, weights);
    Value bias = biases.empty() ? Value() : tensor::ConcatOp::create(builder, loc, 0, biases).getResult();
    int64_t features = cast<RankedTensorType>(weight.getType()).getDimSize(0);
    auto narrow = cast<RankedTensorType>(linears.front()->getResult(0).getType());
    SmallVector<int64_t> shape(narrow.getShape());
    shape.back() = features;
    ContractionOpInterface concatenated = linears.front().cloneWith(
        builder, loc, RankedTensorType::get(shape, narrow.getElementType()), input, weight, bias);
    concatenated->setDiscardableAttrs(DictionaryAttr::get(&getContext()));
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
    for (ContractionOpInterface linear : linears) {
      Value result = linear->getResult(0);
      auto type = cast<RankedTensorType>(result.getType());
      offsets.back() = builder.getIndexAttr(offset);
      sizes.back() = builder.getIndexAttr(type.getShape().back());
      offset += type.getShape().back();
      Value slice = tensor::ExtractSliceOp::create(builder, linear.getLoc(), type, concatenated->getResult(0), offsets,
                                                   sizes, strides);
      fuser.replaced(result, slice);
      result.replaceAllUsesWith(slice);
    }
  }
};
} // namespace
