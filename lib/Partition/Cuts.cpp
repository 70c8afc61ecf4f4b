//===- Cuts.cpp - How tensors are cut into the parts of ranks -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/Cuts.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Prepacking.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::partition {
namespace {

using Why = std::optional<std::string>;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
int64_t lastOf(Value value) { return typeOf(value).getRank() - 1; }

std::string describe(Operation *op) {
  auto name = op->getLoc()->findInstanceOf<NameLoc>();
  return "'" + op->getName().getStringRef().str() + "'" + (name ? " of '" + name.getName().str() + "'" : "");
}

/// Sets what one operand is needed of.
class Needs {
public:
  Needs(Operation *op, OperandCuts &operands) : operands(operands) { operands.assign(op->getNumOperands(), {}); }
  void set(OpOperand &operand, const Cut &cut) {
    // Heads of keys that all ranks share are whole.
    Range whole = {0, typeOf(operand.get()).getDimSize(cut.dimension)};
    if (!llvm::all_equal(cut.ranges) || !(cut.ranges.front() == whole))
      operands[operand.getOperandNumber()] = cut;
  }
  void set(OpOperand &operand, int64_t dimension, ArrayRef<Range> ranges) {
    set(operand, Cut{dimension, SmallVector<Range>(ranges)});
  }

private:
  OperandCuts &operands;
};

Why wholeFeatures(Operation *op) { return describe(op) + " needs all features of a row"; }

//===-- Products with weights -----------------------------------------------------------------------------------===//

Why cutsOf(ContractionOpInterface product, const Cut &cut, Needs needs) {
  if (!asProductWithWeight(product))
    return describe(product) + " is not split";
  if (cut.dimension != lastOf(product->getResult(0)))
    return describe(product) + " is split by its features alone";
  if (!nn::isPrepacked(product.getRight()) || (product.getBias() && !nn::isPrepacked(product.getBias())))
    return describe(product) + " has a weight that is computed";
  needs.set(product.getRightOperand(), 0, cut.ranges);
  for (OpOperand &bias : product.getBiasOperand())
    needs.set(bias, 0, cut.ranges);
  return std::nullopt;
}

//===-- Attention -----------------------------------------------------------------------------------------------===//

/// Returns the heads of keys and values that heads of queries read, which share each among `group`. Heads of a rank
/// read as many heads of keys as an op over them alone says: all of a group, or a part of one.
FailureOr<SmallVector<Range>> keyHeads(ArrayRef<Range> heads, int64_t group) {
  SmallVector<Range> keys;
  for (Range range : heads) {
    Range own = {range.begin / group, int64_t(llvm::divideCeil(range.end, group))};
    bool areWhole = range.begin % group == 0 && range.end % group == 0;
    if (!areWhole && own.size() != 1)
      return failure();
    keys.push_back(own);
  }
  return keys;
}

Why cutsOf(nn::AttentionOp attention, const Cut &cut, Needs needs) {
  if (cut.dimension != 2)
    return describe(attention) + " is split by heads alone";
  int64_t heads = typeOf(attention.getQuery()).getDimSize(2), keyHeadCount = typeOf(attention.getKey()).getDimSize(2);
  FailureOr<SmallVector<Range>> keys = keyHeads(cut.ranges, heads / keyHeadCount);
  if (failed(keys))
    return describe(attention) + " has heads that share keys and would be on several ranks";
  needs.set(attention.getQueryMutable(), cut);
  needs.set(attention.getKeyMutable(), 2, *keys);
  needs.set(attention.getValueMutable(), 2, *keys);
  if (attention.getMask() && typeOf(attention.getMask()).getDimSize(1) != 1)
    needs.set(*attention.getMaskMutable().begin(), 1, cut.ranges);
  return std::nullopt;
}

Why cutsOf(nn::CachedAttentionOp attention, const Cut &cut, Needs needs) {
  if (cut.dimension != 1)
    return describe(attention) + " is split by heads alone";
  int64_t heads = typeOf(attention.getQuery()).getDimSize(1);
  int64_t keyHeadCount = typeOf(attention.getKeys().front()).getDimSize(1);
  FailureOr<SmallVector<Range>> keys = keyHeads(cut.ranges, heads / keyHeadCount);
  if (failed(keys))
    return describe(attention) + " has heads that share keys and would be on several ranks";
  needs.set(attention.getQueryMutable(), cut);
  for (OpOperand &cache : attention.getKeysMutable())
    needs.set(cache, 1, *keys);
  for (OpOperand &cache : attention.getValuesMutable())
    needs.set(cache, 1, *keys);
  for (OpOperand &rows : attention.getRowsMutable())
    needs.set(rows, 1, *keys);
  for (OpOperand &sinks : attention.getSinksMutable())
    needs.set(sinks, 0, cut.ranges);
  return std::nullopt;
}

Why cutsOf(nn::CacheAppendOp append, const Cut &cut, Needs needs) {
  if (cut.dimension != 1)
    return describe(append) + " is split by heads alone";
  for (OpOperand &cache : append.getCacheMutable())
    needs.set(cache, cut);
  needs.set(append.getRowsMutable(), cut);
  return std::nullopt;
}

//===-- Views ---------------------------------------------------------------------------------------------------===//

/// Returns the outermost of a group's dimensions that is larger than 1, and the elements of those behind it.
std::pair<int64_t, int64_t> outermostOf(ArrayRef<int64_t> group, RankedTensorType type) {
  int64_t outer = group.front(), inner = 1;
  for (int64_t dimension : group)
    if (type.getDimSize(dimension) != 1) {
      outer = dimension;
      break;
    }
  for (int64_t dimension : group)
    if (dimension > outer)
      inner = ShapedType::isDynamic(type.getDimSize(dimension)) ? 0 : inner * type.getDimSize(dimension);
  return {outer, inner};
}

Why cutsOf(tensor::ExpandShapeOp expand, const Cut &cut, Needs needs) {
  for (auto [dimension, group] : llvm::enumerate(expand.getReassociationIndices())) {
    if (!llvm::is_contained(group, cut.dimension))
      continue;
    auto [outer, inner] = outermostOf(group, expand.getResultType());
    if (outer != cut.dimension || inner == 0)
      break;
    SmallVector<Range> ranges;
    for (Range range : cut.ranges)
      ranges.push_back({range.begin * inner, range.end * inner});
    needs.set(expand.getSrcMutable(), dimension, ranges);
    return std::nullopt;
  }
  return describe(expand) + " mixes the parts of several ranks";
}

Why cutsOf(tensor::CollapseShapeOp collapse, const Cut &cut, Needs needs) {
  SmallVector<ReassociationIndices> groups = collapse.getReassociationIndices();
  auto [outer, inner] = outermostOf(groups[cut.dimension], collapse.getSrcType());
  SmallVector<Range> ranges;
  for (Range range : cut.ranges) {
    if (inner == 0 || range.begin % inner != 0 || range.end % inner != 0)
      return describe(collapse) + " mixes the parts of several ranks";
    ranges.push_back({range.begin / inner, range.end / inner});
  }
  needs.set(collapse.getSrcMutable(), outer, ranges);
  return std::nullopt;
}

/// All of a dimension is all of its parts.
Why cutsOf(tensor::ExtractSliceOp slice, const Cut &cut, Needs needs) {
  int64_t size = slice.getType().getDimSize(cut.dimension);
  if (slice.getType().getRank() != slice.getSourceType().getRank() || !slice.hasUnitStride() ||
      ShapedType::isDynamic(size) || slice.getSourceType().getDimSize(cut.dimension) != size)
    return describe(slice) + " mixes the parts of several ranks";
  needs.set(slice.getSourceMutable(), cut);
  return std::nullopt;
}

/// Rows of other ranks are gathered in the same parts.
Why cutsOf(shard::AllGatherOp gather, const Cut &cut, Needs needs) {
  if (gather.getGatherAxis().getSExtValue() == cut.dimension)
    return describe(gather) + " mixes the parts of several ranks";
  needs.set(gather.getInputMutable(), cut);
  return std::nullopt;
}

Why cutsOf(linalg::TransposeOp transpose, const Cut &cut, Needs needs) {
  needs.set(transpose.getInputMutable(), transpose.getPermutation()[cut.dimension], cut.ranges);
  needs.set(transpose.getInitMutable(), cut);
  return std::nullopt;
}

//===-- Elementwise ---------------------------------------------------------------------------------------------===//

Why cutsOf(linalg::GenericOp generic, const Cut &cut, Needs needs) {
  SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
  bool isElementwise = generic.getNumParallelLoops() == generic.getNumLoops() && generic.getNumResults() == 1 &&
                       !generic.hasIndexSemantics() &&
                       llvm::all_of(maps, [](AffineMap map) { return map.isProjectedPermutation(); });
  if (!isElementwise)
    return describe(generic) + " is not split";
  unsigned loop = maps.back().getDimPosition(cut.dimension);
  for (OpOperand &operand : generic->getOpOperands())
    if (std::optional<unsigned> own =
            maps[operand.getOperandNumber()].getResultPosition(getAffineDimExpr(loop, generic.getContext())))
      needs.set(operand, *own, cut.ranges);
  return std::nullopt;
}

} // namespace

SmallVector<Range> rangesOf(int64_t units, int64_t unit, ArrayRef<double> speeds) {
  double all = 0, before = 0;
  for (double speed : speeds)
    all += speed;
  SmallVector<Range> ranges;
  int64_t begin = 0, behind = speeds.size();
  for (double speed : speeds) {
    before += speed;
    --behind;
    // The ranks behind this one get one each.
    int64_t end = std::clamp(int64_t(double(units) * before / all + 0.5), begin + 1, units - behind);
    ranges.push_back({begin * unit, end * unit});
    begin = end;
  }
  return ranges;
}

std::optional<std::string> findOperandCuts(Operation *op, const Cut &cut, OperandCuts &operands) {
  Needs needs(op, operands);
  bool isLast = isa<RankedTensorType>(op->getResult(0).getType()) && cut.dimension == lastOf(op->getResult(0));
  auto sameOf = [&](OpOperand &operand) -> Why {
    needs.set(operand, cut);
    return std::nullopt;
  };
  if (op->hasTrait<OpTrait::Elementwise>()) {
    for (OpOperand &operand : op->getOpOperands())
      if (isa<RankedTensorType>(operand.get().getType()))
        needs.set(operand, cut);
    return std::nullopt;
  }
  return llvm::TypeSwitch<Operation *, Why>(op)
      .Case<ContractionOpInterface, nn::AttentionOp, nn::CachedAttentionOp, nn::CacheAppendOp, tensor::ExpandShapeOp,
            tensor::CollapseShapeOp, tensor::ExtractSliceOp, shard::AllGatherOp, linalg::TransposeOp,
            linalg::GenericOp>([&](auto each) { return cutsOf(each, cut, needs); })
      .Case([&](tensor::CastOp cast) { return sameOf(cast.getSourceMutable()); })
      .Case([&](tensor::EmptyOp) { return Why(); })
      .Case([&](nn::RopeOp rope) { return isLast ? wholeFeatures(op) : sameOf(rope.getInputMutable()); })
      .Case([&](RowwiseOpInterface) { return isLast ? wholeFeatures(op) : sameOf(op->getOpOperand(0)); })
      // Values and scales are one pair: the scales that a rank has are those of its blocks.
      .Case([&](nn::QuantizeOp quantize) {
        // An order of features, factors of them, and blocks that differ in their bits, are those of the whole row.
        bool isOfRow = quantize.getChannels() || quantize.getFactors() || quantize.getWideBlocks();
        return isOfRow ? wholeFeatures(op) : sameOf(quantize.getInputMutable());
      })
      .Case([&](nn::DequantizeOp dequantize) -> Why {
        if (!dequantize.getQuantized().getDefiningOp<nn::QuantizeOp>())
          return describe(op) + " is a weight that is computed";
        return sameOf(dequantize.getQuantizedMutable());
      })
      .Default([](Operation *other) { return describe(other) + " is not split"; });
}

Why CutValues::cut(Value value, const Cut &cut, Operation *reader) {
  Cuts wanted;
  if (Why why = demand(value, cut, wanted))
    return why;
  if (Why why = checkReaders(reader, wanted))
    return why;
  for (auto &[each, its] : wanted)
    cuts.insert({each, its});
  if (lookup(value))
    sums.insert(reader);
  return std::nullopt;
}

Why CutValues::demand(Value value, const Cut &cut, Cuts &wanted) {
  const Cut *known = lookup(value);
  if (auto found = wanted.find(value); found != wanted.end())
    known = &found->second;
  if (known)
    return *known == cut ? Why() : Why("parts of one value would be cut in two ways");
  Operation *op = value.getDefiningOp();
  if (!op) {
    auto argument = cast<BlockArgument>(value);
    if (!function.getArgAttr(argument.getArgNumber(), "nn.state"))
      return "an input of the model would be cut";
    wanted.insert({value, cut});
    return std::nullopt;
  }
  if (sums.contains(op))
    return describe(op) + " is a sum over all ranks";
  if (nn::isPrepacked(value))
    return std::nullopt; // of which a part is packed
  OperandCuts operands;
  if (Why why = findOperandCuts(op, cut, operands))
    return why;
  if (isa<nn::QuantizeOp>(op))
    wanted.insert({op->getResult(0), cut});
  else
    for (Value result : op->getResults())
      wanted.insert({result, cut});
  for (auto [operand, its] : llvm::zip_equal(op->getOperands(), operands))
    if (its)
      if (Why why = demand(operand, *its, wanted))
        return why;
  return std::nullopt;
}

/// An update of a cache that nothing in the function reads is cut as the rows are that it stores.
Why CutValues::demandStateOf(Operation *append, Value rows, Cuts &wanted) {
  Cut cut = wanted.find(rows)->second;
  return demand(append->getResult(0), cut, wanted);
}

Why CutValues::checkReaders(Operation *reader, Cuts &wanted) {
  for (size_t number = 0; number < wanted.size(); ++number) {
    Value value = wanted.begin()[number].first;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto append = dyn_cast<nn::CacheAppendOp>(user);
          append && append.getRows() == value && !wanted.contains(append->getResult(0)))
        if (Why why = demandStateOf(append, value, wanted))
          return why;
      bool isState = isa<func::ReturnOp>(user) && function.getResultAttr(use.getOperandNumber(), "nn.state");
      bool isKnown = user == reader || isState || isa<tensor::DimOp>(user) || isCut(user) ||
                     llvm::any_of(user->getResults(), [&](Value result) { return wanted.contains(result); });
      if (!isKnown)
        return "all of it is read by " + (isa<func::ReturnOp>(user) ? "the caller" : describe(user));
    }
  }
  return std::nullopt;
}

} // namespace intarsia::partition
