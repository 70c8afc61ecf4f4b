//===- RowParts.cpp - How the elements of a kernel's results are walked over ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/RowParts.h"

#include "lib/Kernel/PanelEmitter.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace intarsia::kernel {

/// True if elements of a row share what is computed once for it: norms, reductions of the row.
static bool sharesRows(KernelBody &body, const RowPart &part) {
  llvm::SetVector<Operation *> needed;
  auto need = [&](Value value) {
    if (Operation *op = value.getDefiningOp())
      needed.insert(op);
  };
  for (unsigned output : part.outputs)
    need(body.yielded(output));
  for (unsigned i = 0; i < needed.size(); ++i)
    llvm::for_each(needed[i]->getOperands(), need);
  return llvm::any_of(needed, [&](Operation *op) {
    if (isa<RowwiseOpInterface, nn::DequantizeOp>(op))
      return true;
    auto reduction = dyn_cast<linalg::LinalgOp>(op);
    if (!reduction || reduction.getNumReductionLoops() == 0)
      return false;
    ArrayRef<AffineExpr> extents = body.sizes.of(op->getResult(0)), rows = part.leading;
    return extents.size() <= rows.size() && extents == rows.take_front(extents.size());
  });
}

/// Returns the dimension of the result along which elements of inputs are neighbours while those of the last dimension
/// are not; none if there is no such dimension, or more than one.
static std::optional<unsigned> columnsOfInputs(KernelBody &body, const Reads &reads) {
  PanelEmitter weights(body);
  std::optional<unsigned> across;
  for (const Read &read : reads.reads) {
    if (read.at.empty() || !isa<BlockArgument>(read.tensor) || weights.panelsOf(read.tensor))
      continue;
    bool readsLast = llvm::any_of(read.at, [&](AffineExpr at) { return at.isFunctionOfDim(reads.rank - 1); });
    auto neighbours = dyn_cast<AffineDimExpr>(read.at.back());
    if (!readsLast || !neighbours || neighbours.getPosition() == reads.rank - 1)
      continue;
    if (across && *across != neighbours.getPosition())
      return std::nullopt;
    across = neighbours.getPosition();
  }
  return across;
}

/// True if reductions read tensors, or what is computed from those in little time: it is computed again for each tile.
static bool reducesWhatIsRead(Value result) {
  auto isReduction = [](Operation *op) {
    auto nest = dyn_cast<linalg::LinalgOp>(op);
    return nest && nest.getNumReductionLoops() != 0;
  };
  auto addDefinitions = [](Operation *op, llvm::SetVector<Operation *> &to) {
    for (Value operand : op->getOperands())
      if (Operation *definition = operand.getDefiningOp())
        to.insert(definition);
  };
  llvm::SetVector<Operation *> all, reduced;
  all.insert(result.getDefiningOp());
  for (unsigned i = 0; i < all.size(); ++i)
    addDefinitions(all[i], all);
  for (Operation *op : all) {
    if (!isReduction(op))
      continue;
    if (takesLong(op))
      return false;
    addDefinitions(op, reduced);
  }
  for (unsigned i = 0; i < reduced.size(); ++i) {
    if (isReduction(reduced[i]) || takesLong(reduced[i]))
      return false;
    addDefinitions(reduced[i], reduced);
  }
  return true;
}

/// Cuts results into tiles, where an input whose elements are neighbours along rows is the same for several rows.
static bool chooseTiles(KernelBody &body, const WalkLimits &limits, const Reads &reads, RowPart &part) {
  Value result = body.yielded(part.outputs.front());
  Type element = MemoryEmitter::computeType(cast<RankedTensorType>(result.getType()).getElementType());
  int64_t bits = std::max<int64_t>(element.getIntOrFloatBitWidth(), 32);
  int64_t columns = std::max(limits.tileColumns * 32 / bits, limits.lanes);
  auto length = dyn_cast<AffineConstantExpr>(body.productExpression(part.merged));
  if (limits.tileRows == 0 || part.outputs.size() != 1 || (length && length.getValue() < limits.lanes) ||
      reads.isOrdered || reads.hasSearch || reads.dependsOnIndex || !reducesWhatIsRead(result))
    return false;
  for (unsigned d = part.leading.size(); d-- != 0;) {
    auto size = dyn_cast<AffineConstantExpr>(part.leading[d]);
    if (size && size.getValue() < limits.tileRows)
      continue;
    bool isShared = llvm::any_of(reads.reads, [&](const Read &read) {
      return !read.at.empty() && read.at.back().isFunctionOfDim(reads.rank - 1) &&
             llvm::any_of(read.at, [&](AffineExpr at) { return reads.isReduced(at); }) &&
             llvm::none_of(read.at, [&](AffineExpr at) { return at.isFunctionOfDim(d); });
    });
    if (!isShared)
      continue;
    // Few tiles would leave threads without work.
    Sizes tiles(part.leading);
    tiles[d] = tiles[d].ceilDiv(limits.tileRows);
    tiles.push_back(body.productExpression(part.merged).ceilDiv(columns));
    auto count = dyn_cast<AffineConstantExpr>(body.productExpression(tiles));
    if (count && count.getValue() < limits.fewRows)
      return false;
    part.walk = Walk::Tiles;
    part.across = d;
    part.rows = limits.tileRows;
    part.columns = columns;
    return true;
  }
  return false;
}

static void chooseWalk(KernelBody &body, const WalkLimits &limits, RowPart &part) {
  MLIRContext *context = body.kernel.getContext();
  part.reduced = getAffineConstantExpr(1, context);
  ArrayRef<AffineExpr> extents = body.sizes.of(body.yielded(part.outputs.front()));
  if (extents.empty())
    return;
  part.merged = {extents.back()};
  auto others = ArrayRef(part.outputs).drop_front();
  if (llvm::any_of(others, [&](unsigned output) { return body.sizes.of(body.yielded(output)) != extents; }) ||
      sharesRows(body, part))
    return;
  Reads reads = readsOf(body.yielded(part.outputs.front()), body.sizes);
  SmallVector<Reads> all{reads};
  for (unsigned output : others)
    all.push_back(readsOf(body.yielded(output), body.sizes));
  part.reduced = body.productExpression(reads.reduced);

  // Along the last dimension elements of an input are neighbours, or along one that is reduced.
  bool alongLast = false, alongReduced = false, isBesideEachOther = true;
  AffineExpr last = getAffineDimExpr(unsigned(extents.size()) - 1, context);
  for (const Reads &each : all)
    for (const Read &read : each.reads) {
      if (read.at.empty() || llvm::none_of(read.at, [&](AffineExpr at) { return each.isReduced(at); }))
        continue;
      bool hasLast = read.at.back().isFunctionOfDim(each.rank - 1);
      alongLast |= hasLast;
      isBesideEachOther &= !hasLast || read.at.back().replace(last, last + 1) == read.at.back() + 1;
      alongReduced |= !hasLast && each.isReduced(read.at.back());
    }
  auto count = dyn_cast<AffineConstantExpr>(part.reduced);
  bool canShare = llvm::all_of(
      all, [&](const Reads &each) { return !each.isOrdered && (!each.hasSearch || limits.findsPositions); });
  if (alongReduced && !alongLast && canShare && (!count || count.getValue() >= limits.lanes)) {
    part.walk = Walk::Elements;
    return;
  }
  if (limits.hasBlocks && reads.reduced.empty() && !reads.dependsOnIndex) {
    if (std::optional<unsigned> across = columnsOfInputs(body, reads); across && others.empty()) {
      part.walk = Walk::Blocks;
      part.across = *across;
      part.reads = reads;
      return;
    }
  }

  auto concat = body.yielded(part.outputs.front()).getDefiningOp<tensor::ConcatOp>();
  if (concat && concat.getDim() + 1 == extents.size() && others.empty()) {
    part.walk = Walk::Columns;
    return;
  }
  PanelEmitter weights(body);
  if (llvm::any_of(all, [&](const Reads &each) {
        return llvm::any_of(each.reads, [&](const Read &read) { return weights.panelsOf(read.tensor).has_value(); });
      }))
    return;
  // Short rows become one with those that follow, where the elements of all of them are neighbours.
  auto length = dyn_cast<AffineConstantExpr>(extents.back());
  int64_t lanes = limits.lanes;
  while (!part.leading.empty() && length && (length.getValue() % lanes != 0 || length.getValue() < 4 * lanes) &&
         llvm::all_of(all, [&](const Reads &each) {
           return areOneDimension(each, unsigned(part.leading.size()) - 1, extents, body.sizes);
         })) {
    part.merged.insert(part.merged.begin(), part.leading.pop_back_val());
    part.walk = Walk::Columns;
    length = dyn_cast<AffineConstantExpr>(body.productExpression(part.merged));
  }
  auto rows = dyn_cast<AffineConstantExpr>(body.productExpression(part.leading));
  bool fits = length && length.getValue() <= limits.columns;
  bool isReducedInColumns = alongLast && isBesideEachOther && limits.reducedColumns != 0;
  if (isReducedInColumns && chooseTiles(body, limits, reads, part))
    return;
  if (isReducedInColumns)
    part.columns = limits.reducedColumns;
  else if (rows && rows.getValue() < limits.fewRows && !fits)
    part.columns = limits.columns;
  if (part.columns != 0 || (limits.hasHalves && length && length.getValue() % lanes != 0))
    part.walk = Walk::Columns;
}

std::vector<RowPart> findRowParts(KernelBody &body, const WalkLimits &limits) {
  std::vector<RowPart> parts;
  for (unsigned i = 0; i < body.kernel.getResultTypes().size(); ++i) {
    ArrayRef<AffineExpr> extents = body.sizes.of(body.yielded(i));
    ArrayRef<AffineExpr> leading = extents.empty() ? extents : extents.drop_back();
    auto same = llvm::find_if(parts, [&](const RowPart &part) {
      bool scalar = body.sizes.of(body.yielded(part.outputs.front())).empty();
      return !scalar && !extents.empty() && ArrayRef<AffineExpr>(part.leading) == leading;
    });
    if (same == parts.end()) {
      parts.emplace_back();
      parts.back().leading.assign(leading.begin(), leading.end());
      parts.back().outputs.push_back(i);
    } else {
      same->outputs.push_back(i);
    }
  }
  for (RowPart &part : parts)
    chooseWalk(body, limits, part);
  return parts;
}

static StringRef nameOf(Walk walk) {
  switch (walk) {
  case Walk::Rows:
    return "rows";
  case Walk::Columns:
    return "columns";
  case Walk::Elements:
    return "elements";
  case Walk::Blocks:
    return "blocks";
  case Walk::Tiles:
    return "tiles";
  }
  llvm_unreachable("all walks have names");
}

Attribute describe(const RowPart &part, MLIRContext *context) {
  Builder b(context);
  NamedAttrList facts;
  facts.set("walk", b.getStringAttr(part.merged.empty() ? "scalar" : nameOf(part.walk)));
  facts.set("results", b.getI64ArrayAttr(SmallVector<int64_t>(part.outputs.begin(), part.outputs.end())));
  if (part.columns != 0)
    facts.set("columns", b.getI64IntegerAttr(part.columns));
  if (part.walk == Walk::Tiles)
    facts.set("rows", b.getI64IntegerAttr(part.rows));
  return facts.getDictionary(context);
}

} // namespace intarsia::kernel
