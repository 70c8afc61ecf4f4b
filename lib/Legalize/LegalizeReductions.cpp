//===- LegalizeReductions.cpp - Results without dimensions of 1 that no loop has ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"
#include "lib/Legalize/Rewrite.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SmallBitVector.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZEREDUCTIONS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

namespace {

/// A result without the dimensions that are constants in its map.
struct Narrowed {
  AffineMap map;
  RankedTensorType type;
  SmallVector<ReassociationIndices> groups; ///< dimensions that become one
};

std::optional<Narrowed> narrowed(RankedTensorType type, AffineMap map) {
  Narrowed result;
  SmallVector<AffineExpr> kept;
  SmallVector<int64_t> shape;
  SmallVector<bool> isKept;
  for (auto [expression, size] : llvm::zip_equal(map.getResults(), type.getShape())) {
    auto constant = dyn_cast<AffineConstantExpr>(expression);
    isKept.push_back(!constant);
    if (constant) {
      if (constant.getValue() != 0 || size != 1)
        return std::nullopt;
      continue;
    }
    kept.push_back(expression);
    shape.push_back(size);
  }
  if (shape.size() == isKept.size())
    return std::nullopt;
  result.map = AffineMap::get(map.getNumDims(), map.getNumSymbols(), kept, map.getContext());
  result.type = RankedTensorType::get(shape, type.getElementType());
  // Each kept dimension with the dropped ones behind it, the first one with those before it too.
  if (!shape.empty())
    result.groups.emplace_back();
  bool hasKept = false;
  for (auto [position, keeps] : llvm::enumerate(isKept)) {
    if (shape.empty())
      break;
    if (keeps && hasKept)
      result.groups.emplace_back();
    hasKept |= keeps;
    result.groups.back().push_back(static_cast<int64_t>(position));
  }
  return result;
}

/// Rewrites one op. Returns false if no result keeps a dimension.
bool narrow(linalg::GenericOp op, IRRewriter &rewriter) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  SmallVector<Value> outputs(op.getOutputs());
  SmallVector<std::optional<Narrowed>> found;
  Location location = op.getLoc();
  rewriter.setInsertionPoint(op);
  bool any = false;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    unsigned number = init.getOperandNumber(), output = number - op.getNumDpsInputs();
    found.push_back(narrowed(cast<RankedTensorType>(init.get().getType()), maps[number]));
    if (!found.back())
      continue;
    any = true;
    maps[number] = found.back()->map;
    // A fill is repeated on the narrow tensor, so that kernels can still have a copy of it.
    auto fill = init.get().getDefiningOp<linalg::FillOp>();
    if (fill || init.get().getDefiningOp<tensor::EmptyOp>()) {
      SmallVector<Value> sizes;
      for (auto [position, expression] : llvm::enumerate(op.getMatchingIndexingMap(&init).getResults()))
        if (!isa<AffineConstantExpr>(expression) && cast<RankedTensorType>(init.get().getType()).isDynamicDim(position))
          sizes.push_back(
              tensor::DimOp::create(rewriter, location, fill ? fill.getOutputs()[0] : init.get(), position));
      outputs[output] = tensor::EmptyOp::create(rewriter, location, found.back()->type, sizes);
      if (fill)
        outputs[output] = linalg::FillOp::create(rewriter, location, fill.getInputs(), outputs[output]).getResult(0);
    } else {
      outputs[output] =
          tensor::CollapseShapeOp::create(rewriter, location, found.back()->type, init.get(), found.back()->groups);
    }
  }
  if (!any)
    return false;
  SmallVector<Type> types = llvm::to_vector(llvm::map_range(outputs, [](Value value) { return value.getType(); }));
  auto narrow =
      linalg::GenericOp::create(rewriter, location, types, op.getInputs(), outputs, maps, op.getIteratorTypesArray());
  rewriter.inlineRegionBefore(op.getRegion(), narrow.getRegion(), narrow.getRegion().begin());
  narrow->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  SmallVector<Value> results;
  for (auto [result, wide, change] : llvm::zip_equal(narrow.getResults(), op.getResults(), found)) {
    if (!change) {
      results.push_back(result);
      continue;
    }
    auto type = cast<RankedTensorType>(wide.getType());
    SmallVector<OpFoldResult> sizes =
        tensor::getMixedSizes(rewriter, location, op.getDpsInitOperand(wide.getResultNumber())->get());
    results.push_back(tensor::ExpandShapeOp::create(rewriter, location, type, result, change->groups, sizes));
  }
  rewriter.replaceOp(op, results);
  return true;
}

/// Returns the dimensions of 1 that an op adds, if each group of its result has one other dimension at most.
std::optional<llvm::SmallBitVector> addedDimensions(tensor::ExpandShapeOp expand) {
  RankedTensorType type = expand.getResultType();
  llvm::SmallBitVector added(type.getRank());
  for (const ReassociationIndices &group : expand.getReassociationIndices()) {
    auto kept = llvm::find_if(group, [&](int64_t d) { return type.getDimSize(d) != 1; });
    for (int64_t d : group)
      if (d != (kept == group.end() ? group.front() : *kept)) {
        if (type.getDimSize(d) != 1)
          return std::nullopt;
        added.set(d);
      }
  }
  if (expand.getReassociationIndices().empty())
    added.set();
  return added;
}

/// Reads tensors before dimensions of 1 are added to them.
struct ReadBeforeExpansion : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    SmallVector<Value> inputs(op.getInputs());
    bool any = false;
    for (auto [i, input] : llvm::enumerate(inputs)) {
      auto expand = input.getDefiningOp<tensor::ExpandShapeOp>();
      std::optional<llvm::SmallBitVector> added = expand ? addedDimensions(expand) : std::nullopt;
      if (!added || llvm::any_of(added->set_bits(), [&](unsigned d) {
            return maps[i].getResult(d) != getAffineConstantExpr(0, op.getContext());
          }))
        continue;
      AffineMap map = maps[i].dropResults(*added);
      // A loop whose size only this operand had keeps it.
      SmallVector<AffineMap> others(maps);
      others[i] = map;
      if (!inversePermutation(concatAffineMaps(others, op.getContext())))
        continue;
      inputs[i] = expand.getSrc();
      maps[i] = map;
      any = true;
    }
    if (!any)
      return failure();
    auto narrow = linalg::GenericOp::create(rewriter, op.getLoc(), op.getResultTypes(), inputs, op.getOutputs(), maps,
                                            op.getIteratorTypesArray());
    rewriter.inlineRegionBefore(op.getRegion(), narrow.getRegion(), narrow.getRegion().begin());
    narrow->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rewriter.replaceOp(op, narrow);
    return success();
  }
};

/// A reshape that takes back what another one did, or takes dimensions of 1 from a tensor that nothing has written.
struct DropReshapes : OpRewritePattern<tensor::CollapseShapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::CollapseShapeOp op, PatternRewriter &rewriter) const override {
    if (auto empty = op.getSrc().getDefiningOp<tensor::EmptyOp>()) {
      SmallVector<OpFoldResult> wide = empty.getMixedSizes(), sizes;
      for (const ReassociationIndices &group : op.getReassociationIndices()) {
        auto others = llvm::make_filter_range(group, [&](int64_t d) { return empty.getType().getDimSize(d) != 1; });
        if (llvm::range_size(others) > 1)
          return failure();
        sizes.push_back(others.empty() ? OpFoldResult(rewriter.getIndexAttr(1)) : wide[*others.begin()]);
      }
      rewriter.replaceOpWithNewOp<tensor::EmptyOp>(op, sizes, op.getResultType().getElementType());
      return success();
    }
    auto expand = op.getSrc().getDefiningOp<tensor::ExpandShapeOp>();
    if (!expand || expand.getSrcType() != op.getResultType() ||
        expand.getReassociationIndices() != op.getReassociationIndices())
      return failure();
    rewriter.replaceOp(op, expand.getSrc());
    return success();
  }
};

/// Returns the loops of one iteration of an op that reads a tensor with dimensions of 1 that a reduction keeps.
SmallVector<unsigned> keptLoops(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  SmallVector<unsigned> loops;
  if (!generic || !generic.hasPureTensorSemantics() || generic.getNumReductionLoops() != 0)
    return loops;
  for (OpOperand *input : generic.getDpsInputOperands())
    if (auto expand = input->get().getDefiningOp<tensor::ExpandShapeOp>())
      if (std::optional<llvm::SmallBitVector> added = addedDimensions(expand))
        for (unsigned d : added->set_bits())
          if (auto dim = dyn_cast<AffineDimExpr>(generic.getMatchingIndexingMap(input).getResult(d));
              dim && !llvm::is_contained(loops, dim.getPosition()))
            loops.push_back(dim.getPosition());
  return loops;
}

struct LegalizeReductions : intarsia::legalize::impl::LegalizeReductionsBase<LegalizeReductions> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<linalg::GenericOp> ops;
    getOperation().walk([&](linalg::GenericOp op) {
      if (op.hasPureTensorSemantics())
        ops.push_back(op);
    });
    bool any = false;
    for (linalg::GenericOp op : ops)
      any |= narrow(op, rewriter);
    if (!any)
      return;
    // What reads such a result reads it without the dimensions too, and what is computed from it has none.
    RewritePatternSet patterns(&getContext());
    patterns.add<ReadBeforeExpansion, DropReshapes>(&getContext());
    linalg::ControlDropUnitDims control;
    control.controlFn = keptLoops;
    linalg::populateFoldUnitExtentDimsPatterns(patterns, control);
    if (failed(intarsia::legalize::rewrite(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
