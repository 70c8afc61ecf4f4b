//===- Rows.cpp - Rows of a call on different ranks ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/Rows.h"

#include "dialects/Nn/Nn.h"
#include "lib/Partition/Layers.h"
#include "lib/Partition/Placement.h"
#include "lib/Partition/RankFunction.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::partition {
namespace {

using Why = std::optional<std::string>;

std::string describe(Operation *op) {
  auto name = op->getLoc()->findInstanceOf<NameLoc>();
  return "'" + op->getName().getStringRef().str() + "'" + (name ? " of '" + name.getName().str() + "'" : "");
}

int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

/// True if rows are the outermost of a group's dimensions that are larger than 1, so that parts of them are parts of
/// the group.
bool isOutermost(int64_t dimension, ArrayRef<int64_t> group, RankedTensorType type) {
  for (int64_t each : group) {
    if (each == dimension)
      return true;
    if (type.getDimSize(each) != 1)
      return false;
  }
  return false;
}

} // namespace

//===-- What rows are ---------------------------------------------------------------------------------------------===//

Rows::Rows(func::FuncOp function) : symbolicSizes(function) {
  for (BlockArgument argument : function.getArguments()) {
    if (function.getArgAttr(argument.getArgNumber(), "nn.state")) {
      states.insert(argument);
      continue;
    }
    ArrayRef<AffineExpr> extents = symbolicSizes.of(argument);
    if (extents.empty())
      continue;
    if (auto symbol = dyn_cast<AffineSymbolExpr>(extents.front()))
      counts.insert(symbol.getPosition());
  }
}

bool Rows::depends(AffineExpr size) const {
  bool found = false;
  if (size)
    size.walk([&](AffineExpr part) {
      if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
        found |= counts.contains(symbol.getPosition());
    });
  return found;
}

bool Rows::has(Value value) const {
  return isa<RankedTensorType>(value.getType()) &&
         llvm::any_of(symbolicSizes.of(value), [&](AffineExpr size) { return depends(size); });
}

std::optional<int64_t> Rows::dimensionOf(Value value) const {
  std::optional<int64_t> found;
  for (auto [dimension, size] : llvm::enumerate(symbolicSizes.of(value)))
    if (depends(size)) {
      if (found)
        return std::nullopt;
      found = int64_t(dimension);
    }
  return found;
}

bool Rows::isOfInputs(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return !states.contains(argument);
  Operation *op = value.getDefiningOp();
  return !isa<nn::WeightOp>(op) && llvm::all_of(op->getOperands(), [&](Value operand) { return isOfInputs(operand); });
}

bool Rows::needsAll(OpOperand &operand) const {
  Operation *op = operand.getOwner();
  if (auto embedding = dyn_cast<nn::EmbeddingOp>(op))
    return &operand == &embedding.getTableMutable();
  if (auto attention = dyn_cast<nn::CachedAttentionOp>(op))
    return operand.get() == attention.getPageTable();
  return false;
}

Why Rows::whyNotRowWise(Operation *op) const {
  if (op->getNumResults() == 0 || !llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return describe(op) + " gives no rows";
  std::optional<int64_t> dimension = dimensionOf(op->getResult(0));
  for (Value result : op->getResults())
    if (!dimensionOf(result) || *dimensionOf(result) != *dimension)
      return describe(op) + " gives no rows along one dimension";
  for (OpOperand &operand : op->getOpOperands())
    if (has(operand.get()) && !needsAll(operand) && !dimensionOf(operand.get()))
      return describe(op) + " reads rows along several dimensions";
  bool isLast = *dimension == rankOf(op->getResult(0)) - 1;
  auto unless = [&](bool mixes) { return mixes ? Why(describe(op) + " mixes rows") : Why(); };
  auto along = [&](Value value, int64_t expected) { return !has(value) || dimensionOf(value) == expected; };
  if (op->hasTrait<OpTrait::Elementwise>())
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, Why>(op)
      .Case<RowwiseOpInterface, nn::RopeOp, nn::QuantizeOp, nn::DequantizeOp>(
          [&](Operation *) { return unless(isLast); })
      .Case<nn::RouteOp, nn::ExpertsOp>([&](Operation *) { return unless(*dimension != 0); })
      .Case([&](ContractionOpInterface contraction) {
        ContractionMaps maps = contraction.getMaps();
        std::optional<unsigned> loop = maps.result ? loopOf(maps.result, *dimension) : std::nullopt;
        auto goesAlong = [&](Value side, AffineMap map) {
          return !has(side) || loopOf(map, *dimensionOf(side)) == loop;
        };
        return unless(!loop || maps.kindOf(*loop) == ContractionLoop::Column ||
                      !goesAlong(contraction.getLeft(), maps.left) || !goesAlong(contraction.getRight(), maps.right));
      })
      .Case([&](nn::EmbeddingOp embedding) { return unless(isLast || !has(embedding.getIndices())); })
      .Case([&](nn::AttentionOp attention) {
        return unless(*dimension != 0 || !llvm::all_of(op->getOperands(), [&](Value each) { return along(each, 0); }));
      })
      .Case([&](nn::CachedAttentionOp attention) -> Why {
        if (attention.getRows())
          return describe(op) + " reads the keys of all new tokens beside a cache of 8 bits and less";
        return unless(*dimension != 0);
      })
      .Case([&](linalg::TransposeOp transpose) {
        return unless(!along(transpose.getInput(), transpose.getPermutation()[*dimension]));
      })
      .Case([&](linalg::LinalgOp linalgOp) -> Why {
        AffineMap map = linalgOp.getMatchingIndexingMap(linalgOp.getDpsInitOperand(0));
        auto loop = dyn_cast<AffineDimExpr>(map.getResult(*dimension));
        if (!loop || linalgOp.getIteratorTypesArray()[loop.getPosition()] != utils::IteratorType::parallel)
          return unless(true);
        for (OpOperand &operand : op->getOpOperands())
          if (has(operand.get()) &&
              linalgOp.getMatchingIndexingMap(&operand).getResult(*dimensionOf(operand.get())) != loop)
            return unless(true);
        bool readsPosition = false;
        op->walk([&](linalg::IndexOp index) { readsPosition |= index.getDim() == loop.getPosition(); });
        llvm::SetVector<Value> captured;
        getUsedValuesDefinedAbove(op->getRegions(), captured);
        return unless(readsPosition || llvm::any_of(captured, [&](Value value) {
                        return has(value) || (value.getType().isIndex() && depends(symbolicSizes.ofIndex(value)));
                      }));
      })
      .Case([&](tensor::ExpandShapeOp expand) {
        auto groups = expand.getReassociationIndices();
        std::optional<int64_t> from = dimensionOf(expand.getSrc());
        return unless(!from || !isOutermost(*dimension, groups[*from], expand.getResultType()));
      })
      .Case([&](tensor::CollapseShapeOp collapse) {
        auto groups = collapse.getReassociationIndices();
        std::optional<int64_t> from = dimensionOf(collapse.getSrc());
        return unless(!from || !isOutermost(*from, groups[*dimension], collapse.getSrcType()));
      })
      .Case([&](tensor::ExtractSliceOp slice) {
        std::optional<int64_t> from = dimensionOf(slice.getSource());
        return unless(!from || slice.getDroppedDims().test(*from) ||
                      !isConstantIntValue(slice.getMixedOffsets()[*from], 0) ||
                      !isConstantIntValue(slice.getMixedStrides()[*from], 1) ||
                      symbolicSizes.of(slice.getSource())[*from] != symbolicSizes.of(slice.getResult())[*dimension]);
      })
      .Case([&](tensor::ConcatOp concat) { return unless(int64_t(concat.getDim()) == *dimension); })
      .Case<tensor::CastOp, tensor::EmptyOp>([](Operation *) { return Why(); })
      .Default([](Operation *other) { return Why(describe(other) + " is not split by rows"); });
}

//===-- The function of a rank
//--------------------------------------------------------------------------------------===//

RowsFunction::RowsFunction(func::FuncOp source, const Rows &rows, int64_t rank, int64_t ranks, bool byHeads)
    : source(source), rows(rows), rank(rank), ranks(ranks), byHeads(byHeads), builder(source.getContext()),
      allSizes(builder.getIndexType(), [this](AffineExpr size) { return symbolValue(size); }),
      ownSizes(builder.getIndexType(), [this](AffineExpr size) { return countOfRank(size); }) {}

func::FuncOp RowsFunction::build() {
  result = makeRankFunction(source, rank);
  Block *block = builder.createBlock(&result.getBody());
  for (BlockArgument argument : source.getArguments())
    wholes.map(argument, block->addArgument(typeOfArgument(argument), argument.getLoc()));
  builder.setInsertionPointToEnd(block);
  for (Operation &op : source.front().without_terminator()) {
    if (!isWork(&op))
      continue;
    bool isOfRows = rows.has(op.getResult(0)) && isRowWise(&op);
    for (Value value : op.getResults())
      isOfRows ? local(value) : whole(value);
  }
  SmallVector<Value> returned;
  Operation *end = source.front().getTerminator();
  for (Value value : end->getOperands())
    returned.push_back(whole(value));
  func::ReturnOp::create(builder, end->getLoc(), returned);
  finish(returned);
  return result;
}

/// Sets the types of arguments and results, and notes the heads of caches.
void RowsFunction::finish(ArrayRef<Value> returned) {
  result.setFunctionType(builder.getFunctionType(result.front().getArgumentTypes(), ValueRange(returned).getTypes()));
  SmallVector<CacheHeads> caches;
  for (BlockArgument argument : source.getArguments())
    if (auto type = dyn_cast<RankedTensorType>(typeOfArgument(argument)); type != argument.getType()) {
      int64_t own = type.getDimSize(1);
      caches.push_back(
          {source.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.name"), rank * own, ranks * own});
    }
  noteCacheHeads(result, caches);
}

/// The type of an argument on this rank: of a cache, it has some heads.
Type RowsFunction::typeOfArgument(BlockArgument argument) {
  if (!byHeads || !source.getArgAttr(argument.getArgNumber(), "nn.state"))
    return argument.getType();
  auto type = cast<RankedTensorType>(argument.getType());
  return withSize(type, 1, type.getDimSize(1) / ranks);
}

bool RowsFunction::isRowWise(Operation *op) const {
  return (byHeads && isa<nn::CachedAttentionOp>(op)) || !rows.whyNotRowWise(op);
}

/// The value of a symbol is a size of an input, which all ranks have.
Value RowsFunction::symbolValue(AffineExpr size) {
  auto symbol = dyn_cast<AffineSymbolExpr>(size);
  std::optional<SymbolicSizes::Origin> origin =
      symbol ? rows.sizes().origin(symbol.getPosition()) : std::optional<SymbolicSizes::Origin>();
  if (!origin)
    return nullptr;
  return tensor::DimOp::create(builder, source.getLoc(), result.getArgument(origin->argument), origin->dimension);
}

Value RowsFunction::countOfRank(AffineExpr size) {
  auto symbol = dyn_cast<AffineSymbolExpr>(size);
  if (!symbol || !rows.isCount(symbol.getPosition()))
    return symbolValue(size);
  Value all = allSizes.get(builder, source.getLoc(), size);
  Value divisor = arith::ConstantIndexOp::create(builder, source.getLoc(), ranks);
  return arith::CeilDivSIOp::create(builder, source.getLoc(), all, divisor);
}

/// Returns a value as this rank computes it: its rows, or all of what has none.
Value RowsFunction::local(Value value) {
  if (Value known = locals.lookupOrNull(value))
    return known;
  if (value.getType().isIndex())
    if (AffineExpr size = rows.sizes().ofIndex(value); size && rows.depends(size)) {
      Value own = ownSizes.get(builder, value.getLoc(), size);
      locals.map(value, own);
      return own;
    }
  if (!rows.has(value))
    return whole(value);
  Operation *op = value.getDefiningOp();
  if (auto attention = dyn_cast_or_null<nn::CachedAttentionOp>(op); attention && byHeads)
    locals.map(value, attend(attention));
  else if (op && isRowWise(op))
    copy(op, locals);
  else
    locals.map(value, ownRows(value));
  return locals.lookup(value);
}

/// Returns a value with all rows.
Value RowsFunction::whole(Value value) {
  if (Value known = wholes.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!source.front().findAncestorOpInBlock(*op))
    return value; // of an op that is copied as a whole
  Value all;
  if (value.getType().isIndex())
    if (AffineExpr size = rows.sizes().ofIndex(value))
      all = allSizes.get(builder, value.getLoc(), size);
  if (!all && rows.has(value) && !rows.isOfInputs(value) && isRowWise(op) && rows.dimensionOf(value) == 0)
    all = gather(value);
  if (!all) {
    auto cache = dyn_cast<nn::CacheAppendOp>(op);
    cache &&byHeads ? append(cache) : copy(op, wholes);
    return wholes.lookup(value);
  }
  wholes.map(value, all);
  return all;
}

/// Copies an op that computes this rank's rows, or all.
void RowsFunction::copy(Operation *op, IRMapping &mapping) {
  bool isLocal = &mapping == &locals;
  SmallVector<Value> operands;
  for (OpOperand &operand : op->getOpOperands())
    operands.push_back(isLocal && !rows.needsAll(operand) ? local(operand.get()) : whole(operand.get()));
  IRMapping inside;
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  for (Value value : captured)
    inside.map(value, isLocal ? local(value) : whole(value));
  Operation *copied = op->clone(inside);
  copied->setOperands(operands);
  builder.insert(copied);
  mapping.map(op->getResults(), copied->getResults());
}

//===-- Heads of a rank -------------------------------------------------------------------------------------------===//

/// Stores all rows of this rank's heads.
void RowsFunction::append(nn::CacheAppendOp op) {
  auto copied = cast<nn::CacheAppendOp>(op->clone());
  for (OpOperand &operand : op->getOpOperands())
    copied->setOperand(operand.getOperandNumber(),
                       &operand == &op.getRowsMutable() ? headsOf(operand.get()) : whole(operand.get()));
  for (Value updated : copied.getNewCache()) {
    auto type = cast<RankedTensorType>(updated.getType());
    updated.setType(withSize(type, 1, type.getDimSize(1) / ranks));
  }
  builder.insert(copied);
  wholes.map(op->getResults(), copied->getResults());
}

/// Computes attention of all rows by this rank's heads; returns this rank's rows of all heads.
Value RowsFunction::attend(nn::CachedAttentionOp op) {
  auto isOneOf = [](MutableOperandRange range, OpOperand &operand) {
    return llvm::any_of(range, [&](OpOperand &each) { return &each == &operand; });
  };
  SmallVector<Value> operands;
  for (OpOperand &operand : op->getOpOperands()) {
    if (&operand == &op.getQueryMutable() || isOneOf(op.getRowsMutable(), operand)) {
      operands.push_back(headsOf(operand.get()));
    } else if (isOneOf(op.getSinksMutable(), operand)) {
      int64_t own = cast<RankedTensorType>(operand.get().getType()).getDimSize(0) / ranks;
      operands.push_back(partOf(builder, whole(operand.get()), 0, {rank * own, (rank + 1) * own}));
    } else {
      operands.push_back(whole(operand.get()));
    }
  }
  Operation *copied = op->clone();
  copied->setOperands(operands);
  auto type = cast<RankedTensorType>(op.getResult().getType());
  copied->getResult(0).setType(withSize(type, 1, type.getDimSize(1) / ranks));
  builder.insert(copied);
  return rowsOf(copied->getResult(0), op.getResult());
}

/// Returns all rows of this rank's heads of a value [rows, heads, …], of which each rank has its rows.
Value RowsFunction::headsOf(Value value) {
  Location location = value.getLoc();
  auto type = cast<RankedTensorType>(value.getType());
  Value own = local(value);
  AffineExpr size = rows.sizes().of(value).front();
  OpFoldResult ownCount = ownSizes.get(builder, location, size), allCount = allSizes.get(builder, location, size);
  // [own, heads, …] → [own, ranks, heads of a rank, …] → [ranks, own, heads of a rank, …]
  SmallVector<int64_t> shape = {ShapedType::kDynamic, ranks, type.getDimSize(1) / ranks};
  llvm::append_range(shape, type.getShape().drop_front(2));
  SmallVector<OpFoldResult> extents = {ownCount};
  for (int64_t each : ArrayRef(shape).drop_front())
    extents.push_back(builder.getIndexAttr(each));
  SmallVector<ReassociationIndices> heads = {{0}, {1, 2}}, rowsOfAll = {{0, 1}, {2}};
  for (int64_t dimension = 2; dimension < type.getRank(); ++dimension) {
    heads.push_back({dimension + 1});
    rowsOfAll.push_back({dimension + 1});
  }
  Value divided = tensor::ExpandShapeOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()),
                                                own, heads, extents);
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() + 1));
  std::swap(order[0], order[1]);
  // → the same with the rows of all ranks → [rows of all ranks, heads of a rank, …] → without those that are repeated
  Value all = exchange(transpose(divided, order));
  Value padded = tensor::CollapseShapeOp::create(builder, location, all, rowsOfAll);
  auto ofHeads = withSize(type, 1, type.getDimSize(1) / ranks);
  SmallVector<OpFoldResult> zeros(type.getRank(), builder.getIndexAttr(0)),
      ones(type.getRank(), builder.getIndexAttr(1)), kept = {allCount};
  for (int64_t each : ofHeads.getShape().drop_front())
    kept.push_back(builder.getIndexAttr(each));
  return tensor::ExtractSliceOp::create(builder, location, ofHeads, padded, zeros, kept, ones);
}

/// The way back: returns this rank's rows of `value`, of which each rank has all rows of its heads.
Value RowsFunction::rowsOf(Value ofHeads, Value value) {
  Location location = value.getLoc();
  auto type = cast<RankedTensorType>(ofHeads.getType());
  AffineExpr size = rows.sizes().of(value).front();
  Value ownCount = ownSizes.get(builder, location, size), allCount = allSizes.get(builder, location, size);
  Value count = arith::ConstantIndexOp::create(builder, location, ranks);
  SmallVector<OpFoldResult> extents = {arith::MulIOp::create(builder, location, ownCount, count).getResult()};
  for (int64_t each : type.getShape().drop_front())
    extents.push_back(builder.getIndexAttr(each));
  Value padded =
      pickRows(builder, ofHeads, type, extents, 0, arith::ConstantIndexOp::create(builder, location, 0), allCount);
  SmallVector<int64_t> shape = {ranks, ShapedType::kDynamic};
  llvm::append_range(shape, type.getShape().drop_front());
  SmallVector<OpFoldResult> divided = {builder.getIndexAttr(ranks), OpFoldResult(ownCount)};
  llvm::append_range(divided, ArrayRef(extents).drop_front());
  SmallVector<ReassociationIndices> rowsOfAll = {{0, 1}, {2}}, heads = {{0}, {1, 2}};
  for (int64_t dimension = 2; dimension < type.getRank(); ++dimension) {
    rowsOfAll.push_back({dimension + 1});
    heads.push_back({dimension + 1});
  }
  Value parts = tensor::ExpandShapeOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()),
                                              padded, rowsOfAll, divided);
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() + 1));
  std::swap(order[0], order[1]);
  return tensor::CollapseShapeOp::create(builder, location, transpose(exchange(parts), order), heads);
}

/// Sends the i-th part of a value [ranks, …] to rank i; returns what this rank gets of all.
Value RowsFunction::exchange(Value value) {
  const SmallVector<shard::GridAxis, 1> axes = {0};
  return shard::AllToAllOp::create(builder, value.getLoc(), value.getType(), gridName, axes, value, APInt(64, 0),
                                   APInt(64, 0));
}

Value RowsFunction::transpose(Value value, ArrayRef<int64_t> permutation) {
  SmallVector<OpFoldResult> from = tensor::getMixedSizes(builder, value.getLoc(), value), to;
  for (int64_t dimension : permutation)
    to.push_back(from[dimension]);
  Value empty =
      tensor::EmptyOp::create(builder, value.getLoc(), to, cast<RankedTensorType>(value.getType()).getElementType());
  return linalg::TransposeOp::create(builder, value.getLoc(), value, empty, permutation).getResult().front();
}

//===-- All rows, and those of a rank -----------------------------------------------------------------------------===//

/// Returns the rows of all ranks.
Value RowsFunction::gather(Value value) {
  Location location = value.getLoc();
  auto type = cast<RankedTensorType>(value.getType());
  Value own = local(value);
  // [own, …] → [1, own, …] → [ranks, own, …] → [ranks * own, …] → [all, …]
  SmallVector<OpFoldResult> extents = {builder.getIndexAttr(1)}, allExtents;
  for (auto [dimension, size] : llvm::enumerate(rows.sizes().of(value))) {
    bool isStatic = !type.isDynamicDim(dimension);
    OpFoldResult constant = isStatic ? builder.getIndexAttr(type.getDimSize(dimension)) : OpFoldResult();
    extents.push_back(isStatic ? constant : OpFoldResult(ownSizes.get(builder, location, size)));
    allExtents.push_back(isStatic ? constant : OpFoldResult(allSizes.get(builder, location, size)));
  }
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin(), 1);
  SmallVector<ReassociationIndices> groups = {{0, 1}};
  for (int64_t dimension = 1; dimension < type.getRank(); ++dimension)
    groups.push_back({dimension + 1});
  Value one = tensor::ExpandShapeOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()), own,
                                            groups, extents);
  shape.front() = ranks;
  const SmallVector<shard::GridAxis, 1> axes = {0};
  Value all = shard::AllGatherOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()),
                                         gridName, axes, one, APInt(64, 0));
  Value padded = tensor::CollapseShapeOp::create(builder, location, all, groups);
  SmallVector<OpFoldResult> zeros(type.getRank(), builder.getIndexAttr(0)),
      ones(type.getRank(), builder.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(builder, location, type, padded, zeros, allExtents, ones);
}

/// Returns this rank's rows of a value of which it has all.
Value RowsFunction::ownRows(Value value) {
  Location location = value.getLoc();
  auto type = cast<RankedTensorType>(value.getType());
  Value all = whole(value);
  int64_t dimension = rows.dimensionOf(value).value_or(0);
  SmallVector<OpFoldResult> extents;
  for (auto [each, size] : llvm::enumerate(rows.sizes().of(value)))
    extents.push_back(type.isDynamicDim(each) ? OpFoldResult(ownSizes.get(builder, location, size))
                                              : builder.getIndexAttr(type.getDimSize(each)));
  if (rank == 0)
    return pickRows(builder, all, type, extents, dimension, /*first=*/nullptr, /*count=*/nullptr);
  AffineExpr size = rows.sizes().of(value)[dimension];
  Value number = arith::ConstantIndexOp::create(builder, location, rank);
  Value first = arith::MulIOp::create(builder, location, ownSizes.get(builder, location, size), number);
  return pickRows(builder, all, type, extents, dimension, first, allSizes.get(builder, location, size));
}

Value pickRows(OpBuilder &builder, Value all, RankedTensorType type, ArrayRef<OpFoldResult> extents, int64_t dimension,
               Value first, Value count) {
  Location location = all.getLoc();
  if (!first) {
    SmallVector<OpFoldResult> zeros(type.getRank(), builder.getIndexAttr(0)),
        ones(type.getRank(), builder.getIndexAttr(1));
    return tensor::ExtractSliceOp::create(builder, location, type, all, zeros, extents, ones);
  }
  Value one = arith::ConstantIndexOp::create(builder, location, 1);
  Value last = arith::SubIOp::create(builder, location, count, one);
  Value empty = tensor::EmptyOp::create(builder, location, extents, type.getElementType());
  SmallVector<utils::IteratorType> loops(type.getRank(), utils::IteratorType::parallel);
  auto pick = [&](OpBuilder &b, Location at, ValueRange) {
    SmallVector<Value> position;
    for (int64_t each = 0; each < type.getRank(); ++each)
      position.push_back(linalg::IndexOp::create(b, at, each));
    Value row = arith::AddIOp::create(b, at, position[dimension], first);
    position[dimension] = arith::MinSIOp::create(b, at, row, last);
    linalg::YieldOp::create(b, at, tensor::ExtractOp::create(b, at, all, position).getResult());
  };
  auto generic =
      linalg::GenericOp::create(builder, location, TypeRange{type}, ValueRange(), ValueRange{empty},
                                ArrayRef<AffineMap>{builder.getMultiDimIdentityMap(type.getRank())}, loops, pick);
  placeAsFunction(generic);
  return generic.getResult(0);
}

} // namespace intarsia::partition
