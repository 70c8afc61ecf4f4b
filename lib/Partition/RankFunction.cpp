//===- RankFunction.cpp - The part of a function that one rank runs -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/RankFunction.h"

#include "dialects/Nn/Prepacking.h"
#include "dialects/Rt/Rt.h"
#include "lib/Partition/Placement.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::partition {

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

RankedTensorType withSize(RankedTensorType type, int64_t dimension, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dimension] = size;
  return cast<RankedTensorType>(type.clone(shape));
}

Value partOf(OpBuilder &builder, Value tensor, int64_t dimension, Range range) {
  RankedTensorType type = typeOf(tensor);
  if (range.size() == type.getDimSize(dimension))
    return tensor;
  // A part of a part is one of the whole.
  if (auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>()) {
    RankedTensorType whole = slice.getSourceType();
    bool cutsOnlyHere = nn::isPrepacked(tensor) && whole.getRank() == type.getRank();
    for (int64_t other = 0; other < type.getRank() && cutsOnlyHere; ++other)
      cutsOnlyHere = other == dimension || whole.getDimSize(other) == type.getDimSize(other);
    if (cutsOnlyHere) {
      int64_t offset = slice.getStaticOffsets()[dimension];
      return partOf(builder, slice.getSource(), dimension, {range.begin + offset, range.end + offset});
    }
  }
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0)),
      strides(type.getRank(), builder.getIndexAttr(1)), sizes;
  for (int64_t size : type.getShape())
    sizes.push_back(builder.getIndexAttr(size));
  offsets[dimension] = builder.getIndexAttr(range.begin);
  sizes[dimension] = builder.getIndexAttr(range.size());
  return tensor::ExtractSliceOp::create(builder, tensor.getLoc(), tensor, offsets, sizes, strides);
}

SmallVector<func::FuncOp> functionsWithWeights(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && !function.getBody().getOps<nn::WeightOp>().empty())
      functions.push_back(function);
  return functions;
}

bool hasState(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return llvm::any_of(llvm::seq(function.getNumArguments()),
                        [&](unsigned number) { return bool(function.getArgAttr(number, "nn.state")); });
  });
}

std::optional<int64_t> stageOf(func::FuncOp function) {
  auto stage = function->getAttrOfType<IntegerAttr>(rt::rankAttr);
  return stage ? std::optional(stage.getInt()) : std::nullopt;
}

func::FuncOp makeRankFunction(func::FuncOp source, int64_t rank) {
  auto local = cast<func::FuncOp>(source->cloneWithoutRegions());
  StringRef name = source.getSymName();
  std::string suffix = ".rank";
  if (std::optional<int64_t> stage = stageOf(source)) {
    std::string own = suffix + std::to_string(*stage);
    name.consume_back(own);
    suffix = ".stage" + std::to_string(*stage) + suffix;
  }
  local.setSymName((name + suffix + Twine(rank)).str());
  if (!local->hasAttr(rt::alternativeAttr))
    local->setAttr(rt::alternativeAttr, source.getSymNameAttr());
  local->setAttr(rt::rankAttr, Builder(source).getI64IntegerAttr(rank));
  return local;
}

func::FuncOp RankFunction::build() {
  local = makeRankFunction(source, stageOf(source).value_or(0) * world + rank);
  Block *block = builder.createBlock(&local.getBody());
  for (BlockArgument argument : source.getArguments())
    mapping.map(argument, block->addArgument(localType(argument), argument.getLoc()));
  builder.setInsertionPointToEnd(block);
  for (Operation &op : source.front())
    copy(op);
  setTypes();
  noteHeads();
  return local;
}

void noteCacheHeads(func::FuncOp local, ArrayRef<CacheHeads> caches) {
  auto metadata = local->getAttrOfType<DictionaryAttr>("nn.metadata");
  if (!metadata || caches.empty())
    return;
  Builder builder(local.getContext());
  NamedAttrList heads, entries(metadata);
  for (const CacheHeads &cache : caches)
    heads.set(cache.name,
              builder.getDictionaryAttr({builder.getNamedAttr("first", builder.getI64IntegerAttr(cache.first)),
                                         builder.getNamedAttr("all", builder.getI64IntegerAttr(cache.all))}));
  entries.set("cache_heads", heads.getDictionary(builder.getContext()));
  local->setAttr("nn.metadata", entries.getDictionary(builder.getContext()));
}

void RankFunction::noteHeads() {
  SmallVector<CacheHeads> caches;
  for (BlockArgument argument : source.getArguments()) {
    const Cut *cut = values.lookup(argument);
    auto name = source.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.name");
    if (cut && cut->dimension == 1 && name && source.getArgAttr(argument.getArgNumber(), "nn.state"))
      caches.push_back({name, cut->ranges[rank].begin, typeOf(argument).getDimSize(1)});
  }
  noteCacheHeads(local, caches);
}

void RankFunction::copy(Operation &op) {
  auto part = parts.find(&op);
  if (part == parts.end())
    return values.isCut(&op) ? copyCut(op) : void(builder.clone(op, mapping));
  if (auto experts = dyn_cast<nn::ExpertsOp>(op))
    return addParts(experts, part->second);
  auto product = cast<ContractionOpInterface>(op);
  if (part->second.kind == Part::InputFeatures)
    return addParts(product, part->second);
  gatherParts(product);
}

/// The type of a value's part on this rank.
Type RankFunction::localType(Value value) const {
  const Cut *cut = values.lookup(value);
  return cut ? withSize(typeOf(value), cut->dimension, cut->ranges[rank].size()) : value.getType();
}

/// The part of an operand on this rank: computed, or taken from a weight.
Value RankFunction::localOf(Value value, const Cut &cut) {
  Value known = mapping.lookup(value);
  return values.lookup(value) ? known : partOf(builder, known, cut.dimension, cut.ranges[rank]);
}

/// Copies an op that computes parts.
void RankFunction::copyCut(Operation &op) {
  auto result = llvm::find_if(op.getResults(), [&](Value value) { return values.lookup(value); });
  OperandCuts operandCuts;
  [[maybe_unused]] std::optional<std::string> why = findOperandCuts(&op, *values.lookup(*result), operandCuts);
  assert(!why && "a value was cut that cannot be");
  SmallVector<Value> operands;
  for (auto [operand, cut] : llvm::zip_equal(op.getOperands(), operandCuts))
    operands.push_back(cut ? localOf(operand, *cut) : mapping.lookup(operand));
  Operation *copied = op.cloneWithoutRegions();
  for (auto [region, own] : llvm::zip_equal(op.getRegions(), copied->getRegions()))
    region.cloneInto(&own, mapping);
  copied->setOperands(operands);
  for (auto [before, after] : llvm::zip_equal(op.getResults(), copied->getResults())) {
    after.setType(localType(before));
    mapping.map(before, after);
  }
  builder.insert(copied);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(copied))
    expand.setStaticOutputShape(expand.getResultType().getShape());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(copied))
    slice.setStaticSizes(slice.getType().getShape());
  if (auto quantize = dyn_cast<nn::QuantizeOp>(copied)) {
    int64_t axis = quantize.getFormat().getAxis(),
            blocks = quantize.getFormat().getBlockCount(typeOf(quantize.getInput()).getDimSize(axis));
    quantize.getScales().setType(withSize(typeOf(quantize.getScales()), axis, blocks));
  }
}

Value RankFunction::allReduce(Value partial) {
  return shard::AllReduceOp::create(builder, partial.getLoc(), partial.getType(), gridName, axes(), partial,
                                    shard::ReductionKind::Sum);
}

void RankFunction::addParts(ContractionOpInterface product, const Part &part) {
  Value weight = partOf(builder, mapping.lookup(product.getRight()), 1, part.ranges[rank]);
  Value bias = rank == 0 && product.getBias() ? mapping.lookup(product.getBias()) : Value();
  Value result = product->getResult(0);
  Operation *partial =
      product.cloneWith(builder, product.getLoc(), result.getType(), mapping.lookup(product.getLeft()), weight, bias);
  mapping.map(result, allReduce(partial->getResult(0)));
}

/// Returns the numbers of experts among those of a rank: -1, which is no expert, for those of other ranks, and a number
/// outside of the rank's for what is outside of all.
Value RankFunction::indicesAmong(Value indices, Range own, int64_t all) {
  Location location = indices.getLoc();
  RankedTensorType type = typeOf(indices);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, location, indices);
  Value empty = tensor::EmptyOp::create(builder, location, sizes, type.getElementType());
  SmallVector<AffineMap> maps(2, builder.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> loops(type.getRank(), utils::IteratorType::parallel);
  auto numbers = [&](OpBuilder &b, Location at, ValueRange values) {
    auto constant = [&](int64_t number) -> Value {
      return arith::ConstantOp::create(b, at, b.getIntegerAttr(type.getElementType(), number));
    };
    auto isBelow = [&](Value index, int64_t count) -> Value {
      return arith::CmpIOp::create(b, at, arith::CmpIPredicate::ult, index, constant(count));
    };
    Value index = values.front(), number = arith::SubIOp::create(b, at, index, constant(own.begin));
    Value other = arith::SelectOp::create(b, at, isBelow(index, all), constant(-1), constant(own.size()));
    linalg::YieldOp::create(b, at,
                            arith::SelectOp::create(b, at, isBelow(number, own.size()), number, other).getResult());
  };
  auto generic = linalg::GenericOp::create(builder, location, TypeRange{type}, ValueRange{indices}, ValueRange{empty},
                                           maps, loops, numbers);
  placeAsFunction(generic);
  return generic.getResult(0);
}

void RankFunction::addParts(nn::ExpertsOp experts, const Part &part) {
  auto partial = cast<nn::ExpertsOp>(builder.clone(*experts, mapping));
  builder.setInsertionPoint(partial);
  Range features = part.ranges[rank];
  // The bias of a sum is that of the rank with its first features.
  if (features.begin != 0)
    partial.getDownBiasMutable().clear();
  auto cut = [&](OpOperand &operand, int64_t dimension, Range range) {
    operand.assign(partOf(builder, operand.get(), dimension, range));
  };
  SmallVector<OpOperand *> biases;
  for (OpOperand &bias : partial.getGateUpBiasMutable())
    biases.push_back(&bias);
  if (!part.experts.empty()) {
    Range own = part.experts[rank];
    partial.getIndicesMutable().assign(
        indicesAmong(partial.getIndices(), own, typeOf(experts.getDown()).getDimSize(0)));
    for (OpOperand *operand : {&partial.getGateUpMutable(), &partial.getDownMutable()})
      cut(*operand, 0, own);
    for (OpOperand *bias : biases)
      cut(*bias, 0, own);
    for (OpOperand &bias : partial.getDownBiasMutable())
      cut(bias, 0, own);
  }
  cut(partial.getGateUpMutable(), 2, features);
  cut(partial.getDownMutable(), 2, features);
  for (OpOperand *bias : biases)
    cut(*bias, 2, features);
  builder.setInsertionPointToEnd(&local.front());
  mapping.map(experts.getResult(), allReduce(partial.getResult()));
}

/// All ranks compute as many features, so that parts lie side by side: those of the last one begin in that before it,
/// if there are not enough.
void RankFunction::gatherParts(ContractionOpInterface product) {
  Location location = product.getLoc();
  RankedTensorType type = typeOf(product->getResult(0));
  int64_t features = type.getShape().back(), each = llvm::divideCeil(features, world);
  int64_t begin = std::min(rank * each, features - each);
  Range range = {begin, begin + each};
  Value weight = partOf(builder, mapping.lookup(product.getRight()), 0, range);
  Value bias = product.getBias() ? partOf(builder, mapping.lookup(product.getBias()), 0, range) : Value();
  ContractionOpInterface multiplied =
      product.cloneWith(builder, location, withSize(type, 1, each), mapping.lookup(product.getLeft()), weight, bias);
  Value partial = multiplied->getResult(0);
  // [rows, each] → [1, rows, each] → [world, rows, each] → [rows, world, each] → [rows, world * each]
  Type element = type.getElementType();
  int64_t rows = type.getDimSize(0);
  OpFoldResult rowCount = rows == ShapedType::kDynamic
                              ? OpFoldResult(tensor::DimOp::create(builder, location, partial, 0).getResult())
                              : builder.getIndexAttr(rows);
  auto sizes = [&](int64_t first, bool rowsFirst) {
    SmallVector<OpFoldResult> list = {builder.getIndexAttr(first), rowCount, builder.getIndexAttr(each)};
    if (rowsFirst)
      std::swap(list[0], list[1]);
    return list;
  };
  SmallVector<ReassociationIndices> groups = {{0, 1}, {2}};
  Value one = tensor::ExpandShapeOp::create(builder, location, RankedTensorType::get({1, rows, each}, element), partial,
                                            groups, sizes(1, false));
  Value all = shard::AllGatherOp::create(builder, location, RankedTensorType::get({world, rows, each}, element),
                                         gridName, axes(), one, APInt(64, 0));
  Value empty = tensor::EmptyOp::create(builder, location, sizes(world, true), element);
  Value moved = linalg::TransposeOp::create(builder, location, all, empty, ArrayRef<int64_t>{1, 0, 2})->getResult(0);
  SmallVector<ReassociationIndices> back = {{0}, {1, 2}};
  Value whole = tensor::CollapseShapeOp::create(builder, location, moved, back);
  if (int64_t twice = world * each - features) {
    auto columns = [&](int64_t first, int64_t last) -> Value {
      SmallVector<OpFoldResult> offsets = {builder.getIndexAttr(0), builder.getIndexAttr(first)};
      SmallVector<OpFoldResult> extents = {rowCount, builder.getIndexAttr(last - first)};
      SmallVector<OpFoldResult> strides(2, builder.getIndexAttr(1));
      return tensor::ExtractSliceOp::create(builder, location, whole, offsets, extents, strides);
    };
    int64_t end = (world - 1) * each;
    whole = tensor::ConcatOp::create(builder, location, /*dim=*/1,
                                     ValueRange{columns(0, end), columns(end + twice, world * each)});
  }
  mapping.map(product->getResult(0), whole);
}

void RankFunction::setTypes() {
  Operation *end = local.front().getTerminator();
  local.setFunctionType(builder.getFunctionType(local.front().getArgumentTypes(), end->getOperandTypes()));
}

} // namespace intarsia::partition
