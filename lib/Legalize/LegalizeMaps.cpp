//===- LegalizeMaps.cpp - Operands that loops read in other orders -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SmallBitVector.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZEMAPS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

namespace {

/// True for a sum of positive multiples of loops and a number that is not negative, which kernels read along.
bool isForward(AffineExpr index) {
  if (auto constant = dyn_cast<AffineConstantExpr>(index))
    return constant.getValue() >= 0;
  auto binary = dyn_cast<AffineBinaryOpExpr>(index);
  if (!binary)
    return isa<AffineDimExpr>(index);
  if (binary.getKind() == AffineExprKind::Add)
    return isForward(binary.getLHS()) && isForward(binary.getRHS());
  auto factor = dyn_cast<AffineConstantExpr>(binary.getRHS());
  return binary.getKind() == AffineExprKind::Mul && factor && factor.getValue() > 0 && isForward(binary.getLHS());
}

/// True if maps say how often each loop runs.
bool coverLoops(ArrayRef<AffineMap> maps, unsigned loops) {
  llvm::SmallBitVector covered(loops);
  for (AffineMap map : maps)
    for (AffineExpr index : map.getResults())
      if (auto loop = dyn_cast<AffineDimExpr>(index))
        covered.set(loop.getPosition());
  return covered.all();
}

/// Lets the body read the inputs whose maps are not forward.
void rewrite(linalg::GenericOp op, IRRewriter &rewriter) {
  SmallVector<unsigned> moved, kept;
  SmallVector<AffineMap> maps;
  for (OpOperand *input : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(input);
    bool isRead = isa<RankedTensorType>(input->get().getType()) && !llvm::all_of(map.getResults(), isForward);
    (isRead ? moved : kept).push_back(input->getOperandNumber());
    if (!isRead)
      maps.push_back(map);
  }
  for (OpOperand &init : op.getDpsInitsMutable())
    maps.push_back(op.getMatchingIndexingMap(&init));
  if (moved.empty() || !coverLoops(maps, op.getNumLoops()))
    return;
  Location location = op.getLoc();
  rewriter.setInsertionPoint(op);
  SmallVector<Value> inputs = llvm::map_to_vector(kept, [&](unsigned number) { return op->getOperand(number); });
  auto narrow = linalg::GenericOp::create(rewriter, location, op.getResultTypes(), inputs, op.getOutputs(), maps,
                                          op.getIteratorTypesArray());
  rewriter.inlineRegionBefore(op.getRegion(), narrow.getRegion(), narrow.getRegion().begin());
  Block &body = narrow.getRegion().front();
  rewriter.setInsertionPointToStart(&body);
  SmallVector<Value> loops;
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
    loops.push_back(linalg::IndexOp::create(rewriter, location, loop));
  for (unsigned number : llvm::reverse(moved)) {
    AffineMap map = op.getIndexingMapsArray()[number];
    SmallVector<Value> position;
    for (AffineExpr index : map.getResults())
      position.push_back(affine::expandAffineExpr(rewriter, location, index, loops, /*symbolValues=*/{}));
    Value element = tensor::ExtractOp::create(rewriter, location, op->getOperand(number), position);
    body.getArgument(number).replaceAllUsesWith(element);
    body.eraseArgument(number);
  }
  narrow->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  rewriter.replaceOp(op, narrow.getResults());
}

struct LegalizeMaps : intarsia::legalize::impl::LegalizeMapsBase<LegalizeMaps> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<linalg::GenericOp> ops;
    getOperation().walk([&](linalg::GenericOp op) {
      if (op.hasPureTensorSemantics())
        ops.push_back(op);
    });
    for (linalg::GenericOp op : ops)
      rewrite(op, rewriter);
    if (llvm::any_of(ops, isWrittenElsewhere))
      signalPassFailure();
  }

  /// Refuses results that are not written along loops.
  static bool isWrittenElsewhere(linalg::GenericOp op) {
    for (OpOperand &init : op.getDpsInitsMutable())
      for (AffineExpr index : op.getMatchingIndexingMap(&init).getResults())
        if (!isa<AffineDimExpr, AffineConstantExpr>(index)) {
          op.emitError() << "'" << op->getName() << "' writes a result through "
                         << AffineMapAttr::get(op.getMatchingIndexingMap(&init))
                         << ": results are written at dimensions, each once, and read at any expression of them";
          return true;
        }
    return false;
  }
};
} // namespace
