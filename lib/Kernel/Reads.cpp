//===- Reads.cpp - Which elements of tensors a result is computed from ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/Reads.h"
#include "lib/Kernel/Reductions.h"

#include "intarsia/Analysis/LoopSizes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace intarsia::kernel {

bool Reads::isReduced(AffineExpr expression) const {
  for (unsigned loop = 0; loop != reduced.size(); ++loop)
    if (expression.isFunctionOfDim(rank + loop))
      return true;
  return false;
}

namespace {
class Walk {
public:
  Walk(Value result, const SymbolicSizes &sizes) : sizes(sizes) {
    reads.rank = unsigned(cast<RankedTensorType>(result.getType()).getRank());
    SmallVector<AffineExpr> at;
    for (unsigned d = 0; d != reads.rank; ++d)
      at.push_back(getAffineDimExpr(d, result.getContext()));
    visit(result, at);
  }

  Reads reads;

private:
  void visit(Value tensor, ArrayRef<AffineExpr> at) {
    Operation *op = tensor.getDefiningOp();
    // What two ways lead to at the same place is read once.
    for (const Read &seen : visited)
      if (seen.tensor == tensor && ArrayRef<AffineExpr>(seen.at) == at)
        return;
    visited.push_back({tensor, SmallVector<AffineExpr>(at)});
    if (auto linalgOp = dyn_cast_or_null<linalg::LinalgOp>(op))
      return visitLinalg(linalgOp, cast<OpResult>(tensor), at);
    if (auto cast = dyn_cast_or_null<tensor::CastOp>(op))
      return visit(cast.getSource(), at);
    if (op && (op->hasTrait<OpTrait::ConstantLike>() || isa<tensor::EmptyOp, tensor::SplatOp>(op)))
      return;
    if (op && OpTrait::hasElementwiseMappableTraits(op)) {
      for (Value operand : op->getOperands())
        if (isa<RankedTensorType>(operand.getType()))
          visit(operand, at);
      return;
    }
    reads.reads.push_back({tensor, SmallVector<AffineExpr>(at)});
  }

  void visitLinalg(linalg::LinalgOp op, OpResult result, ArrayRef<AffineExpr> at) {
    AffineMap written = op.getMatchingIndexingMap(op.getDpsInitOperand(result.getResultNumber()));
    SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    reads.dependsOnIndex |= op.hasIndexSemantics() || !written.isProjectedPermutation() ||
                            llvm::any_of(captured, [](Value value) { return isa<RankedTensorType>(value.getType()); });
    if (!written.isProjectedPermutation())
      return;
    if (op.getNumReductionLoops() != 0 && !reductionsOf(op)) {
      bool isSearch = positionSearchOf(op).has_value();
      (isSearch ? reads.hasSearch : reads.isOrdered) = true;
    }
    SmallVector<AffineExpr> loops(op.getNumLoops());
    for (auto [d, expression] : llvm::enumerate(written.getResults()))
      loops[cast<AffineDimExpr>(expression).getPosition()] = at[d];
    for (auto [loop, expression] : llvm::enumerate(loops)) {
      if (expression)
        continue;
      expression = getAffineDimExpr(reads.rank + reads.reduced.size(), op->getContext());
      // The emitter refuses a loop whose size no operand gives.
      AffineExpr size = sizeOfLoop(op, unsigned(loop), sizes);
      reads.reduced.push_back(size ? size : getAffineConstantExpr(1, op->getContext()));
    }
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()) || !op.payloadUsesValueFromOperand(&operand))
        continue;
      SmallVector<AffineExpr> operandAt;
      for (AffineExpr expression : op.getMatchingIndexingMap(&operand).getResults())
        operandAt.push_back(expression.replaceDims(loops));
      visit(operand.get(), operandAt);
    }
  }

  const SymbolicSizes &sizes;
  SmallVector<Read> visited;
};
} // namespace

Reads readsOf(Value result, const SymbolicSizes &sizes) { return std::move(Walk(result, sizes).reads); }

bool areOneDimension(const Reads &reads, unsigned dim, ArrayRef<AffineExpr> extents, const SymbolicSizes &sizes) {
  if (reads.dependsOnIndex)
    return false;
  return llvm::all_of(reads.reads, [&](const Read &read) {
    AffineExpr first = getAffineDimExpr(dim, extents[0].getContext());
    AffineExpr second = getAffineDimExpr(dim + 1, extents[0].getContext());
    bool isRead = false;
    for (unsigned d = 0; d != read.at.size(); ++d) {
      bool hasFirst = read.at[d].isFunctionOfDim(dim), hasSecond = read.at[d].isFunctionOfDim(dim + 1);
      if (!hasFirst && !hasSecond)
        continue;
      // The pair stands side by side, over a dimension that is walked as a whole.
      if (isRead || read.at[d] != first || d + 1 == read.at.size() || read.at[d + 1] != second ||
          sizes.of(read.tensor)[d + 1] != extents[dim + 1] || !isa<BlockArgument>(read.tensor))
        return false;
      isRead = true;
      ++d;
    }
    return true;
  });
}

bool takesLong(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        bool isLong = isa<math::MathDialect>(inner->getDialect()) || isa<arith::DivFOp>(inner);
        return isLong ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

} // namespace intarsia::kernel
