//===- SequenceRegions.cpp - Rows around the norms of a rank ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/SequenceRegions.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "lib/Partition/RankFunction.h"
#include "lib/Partition/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace intarsia::partition {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
int64_t lastOf(Value value) { return typeOf(value).getRank() - 1; }
int64_t featuresOf(Value value) { return typeOf(value).getShape().back(); }

/// Returns the groups that make all dimensions in front of the features one.
SmallVector<ReassociationIndices> rowGroups(int64_t rank) {
  SmallVector<ReassociationIndices> groups(2);
  for (int64_t dimension = 0; dimension + 1 < rank; ++dimension)
    groups.front().push_back(dimension);
  groups.back().push_back(rank - 1);
  return groups;
}

/// Returns a tensor with its rows as one dimension.
Value flatten(OpBuilder &builder, Value value) {
  int64_t rank = typeOf(value).getRank();
  if (rank == 2)
    return value;
  return tensor::CollapseShapeOp::create(builder, value.getLoc(), value, rowGroups(rank));
}

/// Returns the map of an elementwise op's operand for rows as one dimension: the same row, or the features that all
/// rows have, or one element; null for others.
AffineMap mapOfRows(AffineMap map) {
  MLIRContext *context = map.getContext();
  if (map.isIdentity())
    return AffineMap::getMultiDimIdentityMap(2, context);
  if (map.getNumResults() == 0)
    return AffineMap::get(2, 0, context);
  bool isOfFeatures = map.getNumResults() == 1 && map.getResult(0) == getAffineDimExpr(map.getNumDims() - 1, context);
  return isOfFeatures ? AffineMap::get(2, 0, getAffineDimExpr(1, context)) : AffineMap();
}

/// True for a generic op that computes each element from those at the same place of a row.
bool isOfEachRow(linalg::GenericOp generic) {
  if (generic.getNumResults() != 1 || generic.getNumParallelLoops() != generic.getNumLoops() ||
      generic.hasIndexSemantics() || generic.getNumLoops() < 2 ||
      !generic.getDpsInits().front().getDefiningOp<tensor::EmptyOp>() ||
      !generic.getRegionOutputArgs().front().use_empty() || !generic.getIndexingMapsArray().back().isIdentity() ||
      !llvm::all_of(generic.getIndexingMapsArray(), mapOfRows))
    return false;
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(generic->getRegions(), captured);
  return llvm::none_of(captured, [](Value value) { return isa<TensorType>(value.getType()); });
}

/// True for an op that computes each row of its results from the same row of its operands.
bool isRowOp(Operation *op) {
  if (op->hasTrait<OpTrait::Elementwise>())
    return op->getNumResults() == 1 && op->getNumRegions() == 0 &&
           llvm::all_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>);
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return isOfEachRow(generic);
  return isa<nn::RmsNormOp, nn::LayerNormOp>(op);
}

} // namespace

void SequenceRegions::Counts::add(const Counts &more) {
  ranks = std::max(ranks, more.ranks);
  sums += more.sums;
  norms += more.norms;
  others += more.others;
  gathers += more.gathers;
}

//===-- What is computed in rows ----------------------------------------------------------------------------------===//

int64_t SequenceRegions::placeOf(ArrayRef<shard::GridAxis> axes) const {
  SmallVector<int64_t> row = rt::rowOfRanks(rank, shape, axes.front());
  return llvm::find(row, rank) - row.begin();
}

/// True for a tensor with these rows and features whose number is known, in whole bytes.
bool SequenceRegions::isOfRows(Value value, const RowSpace &rows) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == int64_t(rows.leading.size()) + 1 && !type.isDynamicDim(type.getRank() - 1) &&
         type.getElementType().isIntOrFloat() && type.getElementTypeBitWidth() >= 8 &&
         sizes.of(value).drop_back() == ArrayRef(rows.leading);
}

void SequenceRegions::planSum(shard::AllReduceOp sum) {
  Value partial = sum.getInput();
  auto type = dyn_cast<RankedTensorType>(partial.getType());
  if (sum.getReduction() != shard::ReductionKind::Sum || sum.getGridAxes().size() != 1 || !type || type.getRank() < 2 ||
      type.isDynamicDim(type.getRank() - 1) || !isa<FloatType>(type.getElementType()))
    return;
  int64_t ranks = ranksOf(sum.getGridAxes()), each = ShapedType::kDynamic;
  if (ArrayRef<int64_t> leading = type.getShape().drop_back(); !ShapedType::isDynamicShape(leading)) {
    int64_t count = ShapedType::getNumElements(leading);
    if (count % ranks != 0) {
      auto name = sum.getLoc()->findInstanceOf<NameLoc>();
      reason = "'" + (name ? name.getName().str() : std::string("shard.all_reduce")) + "' always has " +
               std::to_string(count) + " rows, which " + std::to_string(ranks) + " ranks cannot share evenly";
      return;
    }
    each = count / ranks;
  }
  auto rows = llvm::find_if(allRows, [&](const RowSpace &space) {
    return isOfRows(sum.getResult(), space) && ArrayRef(space.axes) == sum.getGridAxes();
  });
  if (rows == allRows.end()) {
    allRows.emplace_back();
    rows = std::prev(allRows.end());
    rows->leading.assign(sizes.of(partial).drop_back().begin(), sizes.of(partial).drop_back().end());
    rows->partial = partial;
    rows->sum = sum;
    rows->axes.assign(sum.getGridAxes().begin(), sum.getGridAxes().end());
    rows->staticEach = each;
  }
  owned.insert({sum.getResult(), &*rows});
}

/// Returns the rows that an op is computed in; null if it is not.
SequenceRegions::RowSpace *SequenceRegions::rowsOf(Operation *op) {
  RowSpace *rows = nullptr;
  for (Value operand : op->getOperands())
    if (RowSpace *known = owned.lookup(operand))
      rows = known;
  if (!rows || !isRowOp(op))
    return nullptr;
  if (!llvm::all_of(op->getResults(), [&](Value result) { return isOfRows(result, *rows); }))
    return nullptr;
  // A value of other sizes belongs to no row: it is the weight of a norm, or is broadcast.
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    bool isOfNoRow = type && type.getRank() <= 1;
    if (auto known = owned.lookup(operand.get()); known ? known != rows : !isOfNoRow && !isOfRows(operand.get(), *rows))
      return nullptr;
  }
  return rows;
}

void SequenceRegions::plan() {
  for (Operation &op : function.front()) {
    if (auto sum = dyn_cast<shard::AllReduceOp>(op)) {
      planSum(sum);
    } else if (RowSpace *rows = rowsOf(&op)) {
      region.insert(&op);
      for (Value result : op.getResults())
        owned.insert({result, rows});
    }
  }
  // A sum that nothing reads by rows is not worth a gather.
  owned.remove_if([&](auto &entry) {
    return entry.first.template getDefiningOp<shard::AllReduceOp>() &&
           llvm::none_of(entry.first.getUsers(), [&](Operation *user) { return region.contains(user); });
  });
}

/// True if something reads all rows of a value. Sizes are those of other values too.
bool SequenceRegions::isNeeded(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto dim = dyn_cast<tensor::DimOp>(user);
    return !region.contains(user) && !(dim && dim.getConstantIndex());
  });
}

/// True for an op of which all rows are needed, and all rows of what it reads are there: computing them again takes
/// less than an exchange.
bool SequenceRegions::mayStayWhole(Operation *op) const {
  return region.contains(op) && llvm::any_of(op->getResults(), [&](Value result) { return isNeeded(result); }) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return !owned.contains(operand) || isNeeded(operand); });
}

//===-- The rewritten function ------------------------------------------------------------------------------------===//

RankedTensorType SequenceRegions::ownType(Value value, const RowSpace &rows) const {
  return RankedTensorType::get({rows.staticEach, featuresOf(value)}, typeOf(value).getElementType());
}

/// Makes the numbers of rows, in front of the first sum.
void SequenceRegions::makeSizes(RowSpace &rows) {
  if (rows.count)
    return;
  OpBuilder builder(rows.sum);
  Location location = rows.sum->getLoc();
  RankedTensorType type = typeOf(rows.partial);
  for (int64_t dimension = 0; dimension + 1 < type.getRank(); ++dimension) {
    Value size;
    if (type.isDynamicDim(dimension))
      size = tensor::DimOp::create(builder, location, rows.partial, dimension);
    else
      size = arith::ConstantIndexOp::create(builder, location, type.getDimSize(dimension));
    rows.count = rows.count ? arith::MulIOp::create(builder, location, rows.count, size).getResult() : size;
  }
  Value ranks = arith::ConstantIndexOp::create(builder, location, ranksOf(rows.axes));
  rows.each = arith::CeilDivSIOp::create(builder, location, rows.count, ranks);
}

/// Makes a sum of which this rank gets its rows.
void SequenceRegions::scatter(shard::AllReduceOp sum) {
  RowSpace &rows = *owned.lookup(sum.getResult());
  makeSizes(rows);
  OpBuilder builder(sum);
  Value own = shard::ReduceScatterOp::create(builder, sum.getLoc(), ownType(sum.getResult(), rows), sum.getGrid(),
                                             sum.getGridAxes(), flatten(builder, sum.getInput()),
                                             shard::ReductionKind::Sum, APInt(64, 0));
  owns[sum.getResult()] = own;
  if (placeOf(rows.axes) == 0)
    ++counted.sums;
}

/// Returns this rank's rows of a value: those that are computed, or some of all.
Value SequenceRegions::ownOf(Value value, const RowSpace &rows, OpBuilder &builder) {
  if (Value known = owns.lookup(value))
    return known;
  Location location = value.getLoc();
  RankedTensorType type = ownType(value, rows);
  OpFoldResult each = type.isDynamicDim(0) ? OpFoldResult(rows.each) : builder.getIndexAttr(rows.staticEach);
  DenseElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)) && constant.isSplat())
    return arith::ConstantOp::create(builder, location, constant.resizeSplat(type));
  if (auto splat = value.getDefiningOp<tensor::SplatOp>()) {
    SmallVector<Value> dynamic(type.isDynamicDim(0) ? 1 : 0, rows.each);
    return tensor::SplatOp::create(builder, location, type, splat.getInput(), dynamic);
  }
  Value first;
  if (int64_t place = placeOf(rows.axes)) {
    Value number = arith::ConstantIndexOp::create(builder, location, place);
    first = arith::MulIOp::create(builder, location, rows.each, number);
  }
  Value own = pickRows(builder, flatten(builder, value), type, {each, builder.getIndexAttr(featuresOf(value))},
                       /*dimension=*/0, first, rows.count);
  owns[value] = own;
  return own;
}

/// Copies an op that computes rows: this rank's.
void SequenceRegions::compute(Operation *op) {
  const RowSpace &rows = *owned.lookup(op->getResult(0));
  OpBuilder builder(op);
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    SmallVector<Value> inputs;
    SmallVector<AffineMap> maps;
    for (AffineMap map : generic.getIndexingMapsArray())
      maps.push_back(mapOfRows(map));
    for (auto [input, map] : llvm::zip(generic.getDpsInputs(), maps))
      inputs.push_back(map.isIdentity() ? ownOf(input, rows, builder) : input);
    RankedTensorType type = ownType(generic.getResult(0), rows);
    SmallVector<Value> dynamic(type.isDynamicDim(0) ? 1 : 0, rows.each);
    Value empty = tensor::EmptyOp::create(builder, op->getLoc(), type, dynamic);
    auto own = linalg::GenericOp::create(builder, op->getLoc(), TypeRange{type}, inputs, ValueRange{empty}, maps,
                                         SmallVector<utils::IteratorType>(2, utils::IteratorType::parallel));
    own->setDiscardableAttrs(generic->getDiscardableAttrDictionary());
    IRMapping mapping;
    generic.getRegion().cloneInto(&own.getRegion(), mapping);
    owns[generic.getResult(0)] = own.getResult(0);
    return;
  }
  Operation *own = op->clone();
  for (OpOperand &operand : own->getOpOperands())
    if (isOfRows(operand.get(), rows) && typeOf(operand.get()).getRank() > 1)
      operand.set(ownOf(operand.get(), rows, builder));
  for (auto [before, after] : llvm::zip_equal(op->getResults(), own->getResults())) {
    after.setType(ownType(before, rows));
    owns[before] = after;
  }
  builder.insert(own);
}

/// Gathers the rows of all ranks for those that read all of them.
void SequenceRegions::gather(Value value) {
  const RowSpace &rows = *owned.lookup(value);
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfter(value.getDefiningOp());
  Location location = value.getLoc();
  RankedTensorType type = ownType(value, rows);
  bool isDynamic = type.isDynamicDim(0);
  int64_t all = isDynamic ? ShapedType::kDynamic : rows.staticEach * ranksOf(rows.axes);
  auto flat = RankedTensorType::get({all, featuresOf(value)}, type.getElementType());
  Value gathered =
      shard::AllGatherOp::create(builder, location, flat, gridName, rows.axes, owns.lookup(value), APInt(64, 0));
  if (isDynamic) {
    SmallVector<OpFoldResult> zeros(2, builder.getIndexAttr(0)), ones(2, builder.getIndexAttr(1));
    SmallVector<OpFoldResult> extents = {rows.count, builder.getIndexAttr(featuresOf(value))};
    gathered = tensor::ExtractSliceOp::create(builder, location, flat, gathered, zeros, extents, ones);
  }
  RankedTensorType whole = typeOf(value);
  if (whole.getRank() > 2) {
    SmallVector<OpFoldResult> extents;
    for (int64_t dimension = 0; dimension < whole.getRank(); ++dimension)
      extents.push_back(
          whole.isDynamicDim(dimension)
              ? OpFoldResult(tensor::DimOp::create(builder, location, rows.partial, dimension).getResult())
              : builder.getIndexAttr(whole.getDimSize(dimension)));
    gathered = tensor::ExpandShapeOp::create(builder, location, whole, gathered, rowGroups(whole.getRank()), extents);
  }
  value.replaceUsesWithIf(gathered, [&](OpOperand &use) {
    Operation *user = use.getOwner();
    return !region.contains(user) || wholes.contains(user);
  });
  if (placeOf(rows.axes) == 0)
    ++counted.gathers;
}

/// Takes sizes from a value of which all rows are there.
void SequenceRegions::replaceSizes(Value value) {
  const RowSpace &rows = *owned.lookup(value);
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    auto dim = dyn_cast<tensor::DimOp>(user);
    if (!dim || !dim.getConstantIndex())
      continue;
    OpBuilder builder(dim);
    int64_t dimension = *dim.getConstantIndex();
    Value size = dimension == lastOf(value)
                     ? arith::ConstantIndexOp::create(builder, dim.getLoc(), featuresOf(value)).getResult()
                     : tensor::DimOp::create(builder, dim.getLoc(), rows.partial, dimension).getResult();
    dim.replaceAllUsesWith(size);
    dim.erase();
  }
}

/// Erases what nothing reads, and counts what is left of the region.
void SequenceRegions::count() {
  const RowSpace &rows = *owned.front().second;
  counted.ranks = ranksOf(rows.axes);
  for (Operation *op : llvm::reverse(region)) {
    Operation *own = owns.lookup(op->getResult(0)).getDefiningOp();
    if (isOpTriviallyDead(own))
      own->erase();
    else if (placeOf(rows.axes) == 0)
      ++(isa<NormOpInterface>(op) ? counted.norms : counted.others);
    if (op->use_empty())
      op->erase();
  }
}

void SequenceRegions::build() {
  plan();
  if (owned.empty())
    return;
  SmallVector<Value> needed;
  for (Operation *op : region)
    if (mayStayWhole(op))
      wholes.insert(op);
  for (auto &[value, rows] : owned)
    if (isNeeded(value) && !wholes.contains(value.getDefiningOp()))
      needed.push_back(value);
  SmallVector<shard::AllReduceOp> sums;
  for (auto &[value, rows] : owned) {
    replaceSizes(value);
    if (auto sum = value.getDefiningOp<shard::AllReduceOp>()) {
      scatter(sum);
      sums.push_back(sum);
    }
  }
  for (Operation *op : region)
    compute(op);
  for (Value value : needed)
    gather(value);
  count();
  for (shard::AllReduceOp sum : llvm::reverse(sums))
    sum.erase();
}

} // namespace intarsia::partition
