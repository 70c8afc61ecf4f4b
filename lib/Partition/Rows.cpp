//===- Rows.cpp - Rows of a call on different ranks ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/Rows.h"

#include "dialects/Nn/Nn.h"
#include "lib/Partition/Layers.h"
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
      .Case<nn::LinearOp, nn::RmsNormOp, nn::LayerNormOp, nn::SoftmaxOp, nn::RopeOp, nn::QuantizeOp, nn::DequantizeOp>(
          [&](Operation *) { return unless(isLast); })
      .Case<nn::RouteOp, nn::ExpertsOp>([&](Operation *) { return unless(*dimension != 0); })
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

RowsFunction::RowsFunction(func::FuncOp source, const Rows &rows, int64_t rank, int64_t ranks)
    : source(source), rows(rows), rank(rank), ranks(ranks), builder(source.getContext()),
      allSizes(builder.getIndexType(), [this](AffineExpr size) { return symbolValue(size); }),
      ownSizes(builder.getIndexType(), [this](AffineExpr size) { return countOfRank(size); }) {}

func::FuncOp RowsFunction::build() {
  result = makeRankFunction(source, rank);
  Block *block = builder.createBlock(&result.getBody());
  for (BlockArgument argument : source.getArguments())
    wholes.map(argument, block->addArgument(argument.getType(), argument.getLoc()));
  builder.setInsertionPointToEnd(block);
  for (Operation &op : source.front().without_terminator()) {
    if (!isWork(&op))
      continue;
    bool isOfRows = rows.has(op.getResult(0)) && !rows.whyNotRowWise(&op);
    for (Value value : op.getResults())
      isOfRows ? local(value) : whole(value);
  }
  SmallVector<Value> returned;
  Operation *end = source.front().getTerminator();
  for (Value value : end->getOperands())
    returned.push_back(whole(value));
  func::ReturnOp::create(builder, end->getLoc(), returned);
  return result;
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
  if (op && !rows.whyNotRowWise(op))
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
  if (!all && rows.has(value) && !rows.isOfInputs(value) && !rows.whyNotRowWise(op) && rows.dimensionOf(value) == 0)
    all = gather(value);
  if (!all) {
    copy(op, wholes);
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
  return linalg::GenericOp::create(builder, location, TypeRange{type}, ValueRange(), ValueRange{empty},
                                   ArrayRef<AffineMap>{builder.getMultiDimIdentityMap(type.getRank())}, loops, pick)
      .getResult(0);
}

} // namespace intarsia::partition
