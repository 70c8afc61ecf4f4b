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
  if (alongLast && isBesideEachOther && limits.reducedColumns != 0)
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
  return facts.getDictionary(context);
}

} // namespace intarsia::kernel
