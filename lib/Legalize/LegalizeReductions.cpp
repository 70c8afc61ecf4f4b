//===- LegalizeReductions.cpp - Results without dimensions of 1 that no loop has ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"

#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/PatternMatch.h"

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

struct LegalizeReductions : intarsia::legalize::impl::LegalizeReductionsBase<LegalizeReductions> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<linalg::GenericOp> ops;
    getOperation().walk([&](linalg::GenericOp op) {
      if (op.hasPureTensorSemantics())
        ops.push_back(op);
    });
    for (linalg::GenericOp op : ops)
      narrow(op, rewriter);
  }
};
} // namespace
