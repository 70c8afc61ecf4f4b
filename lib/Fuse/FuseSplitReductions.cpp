//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Fuser.h"
#include "mlir/Analysis/SliceAnalysis.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSESPLITREDUCTIONS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// Reductions to this many results or more have work for 64 threads.
constexpr int64_t manyResults = 64;
/// A thread adds this many elements in about 10 us, which is what a second kernel and its threads cost at most.
constexpr int64_t manyElements = 1 << 16;

/// Returns the op that combines, if the only result of a reduction can be combined in any order.
Operation *combinerOf(linalg::GenericOp op) {
  SmallVector<Operation *> combiners;
  if (op->getNumResults() != 1 || !matchReduction(op.getRegionOutputArgs(), 0, combiners) || combiners.size() != 1)
    return nullptr;
  return arith::getNeutralElement(combiners[0]) ? combiners[0] : nullptr;
}

/// Returns the outermost loop that is reduced, if it is to become a dimension of a first result.
std::optional<unsigned> loopToSplit(linalg::GenericOp op) {
  SmallVector<int64_t> extents = op.getStaticLoopRanges();
  int64_t results = 1, reduced = 1;
  std::optional<unsigned> outermost;
  for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
    if (ShapedType::isDynamic(extents[loop]))
      return std::nullopt;
    bool isReduced = kind == utils::IteratorType::reduction;
    (isReduced ? reduced : results) *= extents[loop];
    if (isReduced && !outermost)
      outermost = unsigned(loop);
  }
  if (op.getNumReductionLoops() < 2 || results >= manyResults || reduced < manyElements ||
      extents[*outermost] < manyResults)
    return std::nullopt;
  return outermost;
}

void split(linalg::GenericOp op, unsigned loop, Operation *combiner, IRRewriter &rewriter) {
  Location location = op.getLoc();
  rewriter.setInsertionPoint(op);
  AffineMap written = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  auto type = cast<RankedTensorType>(op.getResult(0).getType());
  // The first step has the loop as the last dimension of its result.
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(op.getStaticLoopRanges()[loop]);
  Value empty = tensor::EmptyOp::create(rewriter, location, shape, type.getElementType());
  Value neutral = arith::ConstantOp::create(rewriter, location, *arith::getNeutralElement(combiner));
  Value filled = linalg::FillOp::create(rewriter, location, neutral, empty).getResult(0);
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  maps.back() = written.insertResult(getAffineDimExpr(loop, op.getContext()), written.getNumResults());
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  kinds[loop] = utils::IteratorType::parallel;
  auto first = linalg::GenericOp::create(rewriter, location, filled.getType(), op.getInputs(), filled, maps, kinds);
  first->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  rewriter.cloneRegionBefore(op.getRegion(), first.getRegion(), first.getRegion().begin());

  unsigned results = type.getRank();
  AffineMap all = AffineMap::getMultiDimIdentityMap(results + 1, op.getContext());
  SmallVector<utils::IteratorType> loops(results, utils::IteratorType::parallel);
  loops.push_back(utils::IteratorType::reduction);
  auto second = linalg::GenericOp::create(rewriter, location, type, first.getResult(0), op.getOutputs(),
                                          {all, all.dropResult(results)}, loops,
                                          [&](OpBuilder &builder, Location here, ValueRange arguments) {
                                            Operation *combined = builder.clone(*combiner);
                                            combined->setOperands(arguments);
                                            linalg::YieldOp::create(builder, here, combined->getResult(0));
                                          });
  second->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  rewriter.replaceOp(op, second);
}

struct FuseSplitReductions : fuse::impl::FuseSplitReductionsBase<FuseSplitReductions> {
  void runOnOperation() override {
    if (!isStraightLine(getOperation()))
      return;
    IRRewriter rewriter(&getContext());
    for (auto op : llvm::make_early_inc_range(getOperation().getBody().front().getOps<linalg::GenericOp>())) {
      std::optional<unsigned> loop = loopToSplit(op);
      Operation *combiner = loop ? combinerOf(op) : nullptr;
      if (combiner)
        split(op, *loop, combiner, rewriter);
    }
  }
};
} // namespace
