//===- PartitionShard.cpp - Functions become parts that ranks run together ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Prepacking.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Partition/Partition.h"
#include "lib/Partition/Cuts.h"
#include "lib/Partition/RankFunction.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include <numeric>

using namespace mlir;

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_PARTITIONSHARD
#include "lib/Partition/Passes.h.inc"

namespace {

/// Elements of a matrix from which on its product is split although all ranks then gather the results: a gather takes
/// some 10 us, in which a core reads about this many weights of one byte.
constexpr int64_t leastElementsToGather = 1 << 18;
/// The longest part may be so much longer than an even one for the sake of whole blocks of activations.
constexpr double mostImbalance = 1.05;
/// So many units for each rank are enough to divide them by speed within the same limit: half a unit of 16 is 3 %.
constexpr int64_t leastUnitsOfUnlike = 16;

int64_t lastSize(Value value) { return cast<RankedTensorType>(value.getType()).getShape().back(); }

/// Returns the elements of a row of a weight that cannot be cut: a block, or one element.
int64_t blockOf(Value weight) {
  BlockFormatAttrInterface format = nn::quantizedFormatOf(weight);
  return format ? std::max<int64_t>(1, format.getBlockElements()) : 1;
}

/// Returns the features of a linear's input that share a scale; 1 if it is not quantized or a row has one scale.
int64_t inputBlockOf(Value input) {
  auto dequantize = input.getDefiningOp<nn::DequantizeOp>();
  return dequantize ? std::max<int64_t>(1, dequantize.getFormat().getBlockElements()) : 1;
}

/// Returns the attention whose heads are the features of a value; null if they are not.
Operation *attentionOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && isa<tensor::CollapseShapeOp, tensor::CastOp, nn::QuantizeOp, nn::DequantizeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<nn::AttentionOp, nn::CachedAttentionOp>(op) ? op : nullptr;
}

struct PartitionShard : impl::PartitionShardBase<PartitionShard> {
  using PartitionShardBase::PartitionShardBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (world < 2)
      return;
    SmallVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock())
        functions.push_back(function);
    bool isSplit = false;
    for (func::FuncOp function : functions)
      isSplit |= split(function);
    auto stages = module.lookupSymbol<shard::GridOp>(gridName);
    if (!expertsRefusal.empty()) {
      module.emitError() << flag() << ": " << expertsRefusal;
      return signalPassFailure();
    }
    if (mostRanksWithWork < world) {
      bool isWorld = !stages && experts == 1;
      InFlightDiagnostic error = module.emitError();
      error << (isWorld ? "--world=" + std::to_string(world) : flag());
      error << ": '" << tooSmall.first << "' " << tooSmall.second << "; the largest "
            << (stages ? "number of ranks that can split the layers" : "world that can split the model") << " is "
            << mostRanksWithWork;
      return signalPassFailure();
    }
    if (!isSplit) {
      module.emitError() << "nothing of the model is split over " << world.getValue() << " ranks"
                         << (reasons.empty() ? "" : ": " + reasons.front().first + ": " + reasons.front().second);
      return signalPassFailure();
    }
    if (experts > 1 && expertsCount == 0) {
      module.emitError() << flag() << ": "
                         << (expertsReason.empty() ? "the model has no experts; tensor splits all of its layers"
                                                   : expertsReason);
      return signalPassFailure();
    }
    SmallVector<int64_t> shape = {world};
    if (stages) {
      shape.insert(shape.begin(), stages.getShape().front());
      stages.erase();
    }
    OpBuilder builder(module.getBody(), module.getBody()->begin());
    shard::GridOp::create(builder, module.getLoc(), gridName, shape);
    report();
  }

private:
  /// Returns the flag that the user gave, for messages.
  std::string flag() const {
    return text.empty() ? "--world=" + std::to_string(world) : "--partition=" + text.getValue();
  }

  /// Replaces a function by one for each rank, if a part of it can be split.
  bool split(func::FuncOp function) {
    splitSharedLinears(function);
    CutValues values(function);
    DenseMap<Operation *, Part> parts;
    std::optional<int64_t> stage = stageOf(function);
    ownSpeeds.assign(size_t(world), 1.0);
    if (!speeds.empty())
      ownSpeeds.assign(speeds.begin() + stage.value_or(0) * world, speeds.begin() + (stage.value_or(0) + 1) * world);
    for (Operation &op : function.front()) {
      if (ContractionOpInterface product = asProductWithWeight(&op))
        planProduct(product, values, parts);
      else if (auto experts = dyn_cast<nn::ExpertsOp>(op))
        planExperts(experts, parts);
    }
    for (auto &[op, why] : refused)
      if (!values.isCut(op))
        reasons.emplace_back(nameOf(op), why);
    refused.clear();
    if (parts.empty() && !stage)
      return false; // every rank runs the function as it is
    SymbolTable symbols(getOperation());
    auto after = std::next(function->getIterator());
    for (int64_t rank = 0; rank < world; ++rank) {
      func::FuncOp local = RankFunction(function, values, parts, rank, world).build();
      symbols.insert(local, after);
    }
    symbols.erase(function);
    return !parts.empty();
  }

  /// A product whose result is only read in parts becomes a product for each part, so that each can be split: the fuse
  /// phase puts those of one input together again.
  static void splitSharedLinears(func::FuncOp function) {
    SmallVector<ContractionOpInterface> products;
    for (Operation &op : function.front())
      if (ContractionOpInterface product = asProductWithWeight(&op))
        products.push_back(product);
    for (ContractionOpInterface product : products) {
      auto type = cast<RankedTensorType>(product->getResult(0).getType());
      int64_t last = type.getRank() - 1;
      auto isPart = [&](Operation *user) {
        auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
        if (!slice || !slice.hasUnitStride() || slice.getType().getRank() != type.getRank() ||
            ShapedType::isDynamic(slice.getStaticOffsets()[last]) || slice.getType().isDynamicDim(last))
          return false;
        for (int64_t dimension = 0; dimension < last; ++dimension)
          if (slice.getStaticOffsets()[dimension] != 0 ||
              slice.getType().getDimSize(dimension) != type.getDimSize(dimension))
            return false;
        return true;
      };
      Value weight = product.getRight(), bias = product.getBias();
      bool isPacked = nn::isPrepacked(weight) && (!bias || nn::isPrepacked(bias));
      if (!isPacked || product->use_empty() || !llvm::all_of(product->getUsers(), isPart))
        continue;
      for (Operation *user : llvm::make_early_inc_range(product->getUsers())) {
        auto slice = cast<tensor::ExtractSliceOp>(user);
        int64_t begin = slice.getStaticOffsets()[last];
        Range range = {begin, begin + slice.getType().getDimSize(last)};
        OpBuilder builder(product);
        Value ownWeight = partOf(builder, weight, 0, range);
        Value ownBias = bias ? partOf(builder, bias, 0, range) : Value();
        Operation *own =
            product.cloneWith(builder, product.getLoc(), slice.getType(), product.getLeft(), ownWeight, ownBias);
        slice.replaceAllUsesWith(own->getResult(0));
        slice.erase();
      }
      product->erase();
    }
  }

  //===-- What is split -------------------------------------------------------------------------------------------===//

  void planProduct(ContractionOpInterface product, CutValues &values, DenseMap<Operation *, Part> &parts) {
    Value input = product.getLeft(), weight = product.getRight(), bias = product.getBias();
    if (!nn::isPrepacked(weight) || (bias && !nn::isPrepacked(bias)))
      return;
    std::string why;
    if (!canCutRows(weight)) {
      refused.push_back({product, "has a weight whose blocks cannot be cut"});
      return;
    }
    Operation *attention = attentionOf(input);
    std::optional<SmallVector<Range>> ranges =
        attention ? headsOf(weight, attention, ranks(), why) : featuresOf(input, weight, why);
    if (attention && !ranges)
      limitRanks(product, why, [&](int64_t ranks) {
        std::string other;
        return headsOf(weight, attention, SmallVector<double>(ranks, 1.0), other).has_value();
      });
    if (ranges) {
      int64_t last = cast<RankedTensorType>(input.getType()).getRank() - 1;
      std::optional<std::string> refused = values.cut(input, Cut{last, *ranges}, product);
      // An input that is no one's part is not worth a message: the product is split by its results, if at all.
      if (!refused && values.lookup(input)) {
        parts[product] = {Part::InputFeatures, *ranges, {}};
        ++(attention ? attentionCount : feedForwardCount);
        return;
      }
      why = refused.value_or("");
    }
    Value result = product->getResult(0);
    if (!isResultOf(result) || leastElementsToGather > lastSize(weight) * lastSize(result) ||
        lastSize(result) < world) {
      // What keeps attention together weighs more than a product that is alone.
      if (!why.empty())
        refused.insert(attention ? refused.begin() : refused.end(), {product, why});
      return;
    }
    parts[product] = {Part::OutputFeatures, {}, {}};
    ++headCount;
  }

  /// Each group of ranks has some experts, and each rank of a group some features of each of them.
  void planExperts(nn::ExpertsOp op, DenseMap<Operation *, Part> &parts) {
    std::string why;
    for (Value weight : {op.getGateUp(), op.getDown(), op.getGateUpBias(), op.getDownBias()})
      if (weight && !nn::isPrepacked(weight))
        why = "has weights that are computed";
    int64_t count = cast<RankedTensorType>(op.getGateUp().getType()).getDimSize(0), groups = experts;
    int64_t ranksOfGroup = world / groups;
    if (why.empty() && count < groups) {
      expertsRefusal = "'" + nameOf(op) + "' has " + std::to_string(count) + " experts, so that at most " +
                       std::to_string(count) + " groups of ranks have some each";
      return;
    }
    if (why.empty() && ranksOfGroup > 1 && !canCutRows(op.getDown()))
      why = "has weights whose blocks cannot be cut";
    int64_t features = lastSize(op.getDown()), block = ranksOfGroup > 1 ? blockOf(op.getDown()) : features;
    if (why.empty() && features / block < ranksOfGroup)
      why = tooFew(features, block);
    if (!why.empty()) {
      limitRanks(op, why, [&](int64_t ranks) { return ranks % groups == 0 && features / block >= ranks / groups; });
      refused.emplace_back(op, why);
      expertsReason = "'" + nameOf(op) + "' " + why;
      return;
    }
    Part part = {Part::InputFeatures, {}, {}};
    SmallVector<double> groupSpeeds;
    for (int64_t group = 0; group < groups; ++group) {
      ArrayRef<double> own = ranks().slice(group * ranksOfGroup, ranksOfGroup);
      groupSpeeds.push_back(std::accumulate(own.begin(), own.end(), 0.0));
      llvm::append_range(part.ranges, rangesOf(features / block, block, own));
    }
    if (groups > 1)
      for (Range range : rangesOf(count, 1, groupSpeeds))
        part.experts.append(ranksOfGroup, range);
    parts[op] = std::move(part);
    ++expertsCount;
  }

  /// True if the features of a weight can be cut in blocks: they have one format, or none.
  static bool canCutRows(Value weight) {
    SetVector<Operation *> made;
    BackwardSliceOptions options;
    options.inclusive = true;
    return nn::quantizedFormatOf(weight) || (succeeded(getBackwardSlice(weight, &made, options)) &&
                                             llvm::none_of(made, llvm::IsaPred<nn::DequantizeOp>));
  }

  /// Notes that an op can be split over fewer ranks than there are, if it can be split at all.
  void limitRanks(Operation *op, const std::string &why, llvm::function_ref<bool(int64_t)> works) {
    int64_t ranks = world - 1;
    while (ranks > 1 && !works(ranks))
      --ranks;
    if (ranks == 1 || ranks >= mostRanksWithWork)
      return;
    mostRanksWithWork = ranks;
    tooSmall = {nameOf(op), why};
  }

  /// Returns the features that each of some ranks gets of what a weight is multiplied by, in whole heads.
  static std::optional<SmallVector<Range>> headsOf(Value weight, Operation *attention, ArrayRef<double> speeds,
                                                   std::string &why) {
    int64_t world = speeds.size();
    bool isCached = isa<nn::CachedAttentionOp>(attention);
    auto type = cast<RankedTensorType>(attention->getResult(0).getType());
    Value keys =
        isCached ? cast<nn::CachedAttentionOp>(attention).getKeys().front() : cast<nn::AttentionOp>(attention).getKey();
    int64_t headDimension = isCached ? 1 : 2, heads = type.getDimSize(headDimension), size = type.getShape().back();
    int64_t keyHeads = cast<RankedTensorType>(keys.getType()).getDimSize(headDimension), group = heads / keyHeads;
    int64_t block = blockOf(weight);
    if (keyHeads >= world) {
      int64_t unit = std::lcm(block, group * size), units = heads * size / unit;
      if (heads * size % unit == 0 && units >= world)
        return rangesOf(units, unit, speeds);
      why = tooFew(heads * size, unit);
      return std::nullopt;
    }
    if (heads < world) {
      why =
          "has " + std::to_string(heads) + " heads, so that at most " + std::to_string(heads) + " ranks can share them";
      return std::nullopt;
    }
    // Several ranks share a head of keys, and each has all of it.
    SmallVector<Range> ranges;
    for (int64_t rank = 0; rank < world; ++rank) {
      auto firstOf = [&](int64_t keyHead) { return int64_t(llvm::divideCeil(keyHead * world, keyHeads)); };
      int64_t keyHead = rank * keyHeads / world, first = firstOf(keyHead), sharing = firstOf(keyHead + 1) - first;
      if (sharing > group) {
        why = "has " + std::to_string(group) + " heads that share keys, for " + std::to_string(sharing) + " ranks";
        return std::nullopt;
      }
      auto at = [&](int64_t place) { return (keyHead * group + place * group / sharing) * size; };
      ranges.push_back({at(rank - first), at(rank - first + 1)});
      if (ranges.back().begin % block != 0) {
        why = "has heads of " + std::to_string(size) + " features and blocks of " + std::to_string(block);
        return std::nullopt;
      }
    }
    return ranges;
  }

  /// Returns the features that each rank gets of what a weight is multiplied by.
  std::optional<SmallVector<Range>> featuresOf(Value input, Value weight, std::string &why) {
    int64_t features = lastSize(weight), block = blockOf(weight);
    if (features / block < world || (block > 1 && features % block != 0)) {
      why = tooFew(features, block);
      return std::nullopt;
    }
    // Whole blocks of activations leave these as they are in one piece, if that is nearly even. Without blocks, whole
    // vectors are faster.
    constexpr int64_t vectorElements = 32; // two of AVX-512 in f32, a panel of weights
    for (int64_t unit : {std::lcm(block, inputBlockOf(input)), std::lcm(block, vectorElements)}) {
      int64_t units = features / unit;
      bool isNearlyEven = !speeds.empty()
                              ? units >= leastUnitsOfUnlike * world
                              : double(llvm::divideCeil(units, world)) * double(world) <= mostImbalance * double(units);
      if (features % unit == 0 && units >= world && isNearlyEven)
        return rangesOf(units, unit, ranks());
    }
    return rangesOf(features / block, block, ranks());
  }

  /// The speed of each rank.
  ArrayRef<double> ranks() const { return ownSpeeds; }

  static std::string tooFew(int64_t features, int64_t block) {
    int64_t most = features / block;
    return "has " + std::to_string(most) + (block > 1 ? " blocks of " + std::to_string(block) : "") +
           " features, so that at most " + std::to_string(most) + " ranks can share them";
  }

  /// True if the function returns a matrix, or gathers its rows and returns them.
  static bool isResultOf(Value matrix) {
    if (cast<RankedTensorType>(matrix.getType()).getRank() != 2)
      return false;
    Operation *reader = matrix.hasOneUse() ? *matrix.user_begin() : nullptr;
    if (isa_and_nonnull<tensor::ExpandShapeOp>(reader) && reader->hasOneUse() &&
        isa<shard::AllGatherOp>(*reader->user_begin()))
      return true;
    return isa_and_nonnull<func::ReturnOp, shard::BroadcastOp>(reader);
  }

  static std::string nameOf(Operation *op) {
    auto name = op->getLoc()->findInstanceOf<NameLoc>();
    return name ? name.getName().str() : op->getName().getStringRef().str();
  }

  void report() {
    int64_t groups = experts;
    std::string text = "split over " + std::to_string(world) + " ranks:";
    auto add = [&](int64_t count, StringRef what, StringRef how) {
      if (count)
        text += ((text.back() == ':' ? " " : ", ") + Twine(count) + " " + what + (count == 1 ? " " : "s ") + how).str();
    };
    add(attentionCount, "attention layer", "by heads");
    add(feedForwardCount, "feed-forward layer", "by features");
    add(expertsCount, "expert layer",
        groups == 1       ? "by features"
        : groups == world ? "by experts"
                          : "by experts and features");
    add(headCount, "product", "by results");
    if (!reasons.empty()) {
      text += "; not split, so that each rank computes all of it: " + reasons.front().first + " (" +
              reasons.front().second + ")";
      if (reasons.size() > 1)
        text += " and " + std::to_string(reasons.size() - 1) + " more";
    }
    getOperation().emitRemark() << text;
  }

  SmallVector<double> ownSpeeds; // of the ranks that share the function
  int64_t mostRanksWithWork = mostRanks;
  std::pair<std::string, std::string> tooSmall; // the op that so many ranks can share at most, and why
  std::string expertsRefusal, expertsReason;    // why there are too few experts, and why they are not split
  int64_t attentionCount = 0, feedForwardCount = 0, expertsCount = 0, headCount = 0;
  SmallVector<std::pair<Operation *, std::string>> refused; // of one function, unless it is split by another op
  SmallVector<std::pair<std::string, std::string>> reasons; // why something is not split
};

} // namespace
} // namespace intarsia::partition
