//===- LegalizeLoops.cpp - Short loops whose counter kernels would need ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZELOOPS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

namespace {

/// The most iterations that become one another's successors, and the most ops that they may have together: a kernel for
/// each is compiled. Longer loops stay, and are refused where a kernel would need their counter.
constexpr int64_t mostIterations = 64, mostOps = 4096;

/// True if a value, or an integer that is computed from it, is read by an op other than control flow.
bool isReadByTensors(Value counter) {
  SmallVector<Value> open{counter};
  while (!open.empty())
    for (Operation *user : open.pop_back_val().getUsers()) {
      bool isInteger = user->getNumResults() == 1 && user->getResult(0).getType().isIntOrIndex() &&
                       isa_and_nonnull<arith::ArithDialect>(user->getDialect());
      if (isInteger)
        open.push_back(user->getResult(0));
      else if (!isa<scf::YieldOp, scf::ConditionOp, scf::ForOp, scf::IfOp, scf::WhileOp>(user))
        return true;
    }
  return false;
}

int64_t opsIn(Region &region) {
  int64_t count = 0;
  region.walk([&](Operation *) { ++count; });
  return count;
}

/// The iterations of a loop over constants, the last counter running fastest; none if there are too many.
std::optional<SmallVector<SmallVector<int64_t>>> iterations(ArrayRef<OpFoldResult> lower, ArrayRef<OpFoldResult> upper,
                                                            ArrayRef<OpFoldResult> steps, Region &body) {
  SmallVector<SmallVector<int64_t>> result{{}};
  for (auto [low, high, step] : llvm::zip_equal(lower, upper, steps)) {
    std::optional<int64_t> from = getConstantIntValue(low), to = getConstantIntValue(high),
                           by = getConstantIntValue(step);
    if (!from || !to || !by || *by <= 0)
      return std::nullopt;
    SmallVector<SmallVector<int64_t>> longer;
    for (ArrayRef<int64_t> before : result)
      for (int64_t at = *from; at < *to; at += *by) {
        longer.emplace_back(before).push_back(at);
        if (longer.size() > size_t(mostIterations))
          return std::nullopt;
      }
    result = std::move(longer);
  }
  if (int64_t(result.size()) * opsIn(body) > mostOps)
    return std::nullopt;
  return result;
}

/// Maps the counters of an iteration to constants.
void mapCounters(ValueRange counters, ArrayRef<int64_t> values, IRMapping &mapping, OpBuilder &builder, Location at) {
  for (auto [counter, value] : llvm::zip_equal(counters, values))
    mapping.map(counter, arith::ConstantIndexOp::create(builder, at, value).getResult());
}

/// Clones the ops of a block but its terminator. Integers of constants become constants.
void cloneBody(Block &block, IRMapping &mapping, IRRewriter &rewriter) {
  for (Operation &inner : block.without_terminator()) {
    Operation *clone = rewriter.clone(inner, mapping);
    SmallVector<Value> folded;
    if (isa_and_nonnull<arith::ArithDialect>(inner.getDialect()) && inner.getNumOperands() &&
        succeeded(rewriter.tryFold(clone, folded)) && !folded.empty()) {
      mapping.map(inner.getResults(), folded);
      rewriter.eraseOp(clone);
    }
  }
}

/// scf.forall: what its iterations insert is inserted one after the other.
void unroll(scf::ForallOp op, IRRewriter &rewriter) {
  auto all = iterations(op.getMixedLowerBound(), op.getMixedUpperBound(), op.getMixedStep(), op.getRegion());
  if (!all || op.getNumResults() == 0)
    return;
  rewriter.setInsertionPoint(op);
  SmallVector<Value> outputs(op.getOutputs());
  for (ArrayRef<int64_t> iteration : *all) {
    IRMapping mapping;
    mapCounters(op.getInductionVars(), iteration, mapping, rewriter, op.getLoc());
    mapping.map(op.getRegionOutArgs(), outputs);
    cloneBody(*op.getBody(), mapping, rewriter);
    for (Operation &insertion : op.getTerminator().getYieldingOps()) {
      auto insert = cast<tensor::ParallelInsertSliceOp>(insertion);
      unsigned output = cast<BlockArgument>(insert.getDest()).getArgNumber() - op.getInductionVars().size();
      auto mapped = [&](ArrayRef<OpFoldResult> values) {
        return llvm::to_vector(llvm::map_range(values, [&](OpFoldResult value) -> OpFoldResult {
          auto of = dyn_cast<Value>(value);
          if (!of)
            return value;
          Value now = mapping.lookupOrDefault(of);
          if (std::optional<int64_t> constant = getConstantIntValue(now))
            return rewriter.getIndexAttr(*constant);
          return now;
        }));
      };
      outputs[output] = tensor::InsertSliceOp::create(
          rewriter, insert.getLoc(), mapping.lookupOrDefault(insert.getSource()), outputs[output],
          mapped(insert.getMixedOffsets()), mapped(insert.getMixedSizes()), mapped(insert.getMixedStrides()));
    }
  }
  rewriter.replaceOp(op, outputs);
}

/// scf.parallel: what its iterations reduce is reduced in their order.
void unroll(scf::ParallelOp op, IRRewriter &rewriter) {
  SmallVector<OpFoldResult> lower = getAsOpFoldResult(op.getLowerBound()),
                            upper = getAsOpFoldResult(op.getUpperBound()), steps = getAsOpFoldResult(op.getStep());
  auto all = iterations(lower, upper, steps, op.getRegion());
  if (!all)
    return;
  rewriter.setInsertionPoint(op);
  SmallVector<Value> results(op.getInitVals());
  for (ArrayRef<int64_t> iteration : *all) {
    IRMapping mapping;
    mapCounters(op.getInductionVars(), iteration, mapping, rewriter, op.getLoc());
    cloneBody(*op.getBody(), mapping, rewriter);
    auto reduce = cast<scf::ReduceOp>(op.getBody()->getTerminator());
    for (auto [number, operand, region] : llvm::enumerate(reduce.getOperands(), reduce.getReductions())) {
      Block &body = region.front();
      mapping.map(body.getArgument(0), results[number]);
      mapping.map(body.getArgument(1), mapping.lookupOrDefault(operand));
      cloneBody(body, mapping, rewriter);
      results[number] = mapping.lookupOrDefault(body.getTerminator()->getOperand(0));
    }
  }
  rewriter.replaceOp(op, results);
}

void unroll(scf::ForOp op, IRRewriter &rewriter) {
  auto all = iterations(getAsOpFoldResult(op.getLowerBound()), getAsOpFoldResult(op.getUpperBound()),
                        getAsOpFoldResult(op.getStep()), op.getRegion());
  if (!all || !isReadByTensors(op.getInductionVar()))
    return;
  rewriter.setInsertionPoint(op);
  SmallVector<Value> carried(op.getInitArgs());
  for (ArrayRef<int64_t> iteration : *all) {
    IRMapping mapping;
    Value counter = arith::ConstantOp::create(rewriter, op.getLoc(),
                                              rewriter.getIntegerAttr(op.getInductionVar().getType(), iteration[0]));
    mapping.map(op.getInductionVar(), counter);
    mapping.map(op.getRegionIterArgs(), carried);
    cloneBody(*op.getBody(), mapping, rewriter);
    for (auto [value, next] : llvm::zip_equal(carried, op.getBody()->getTerminator()->getOperands()))
      value = mapping.lookupOrDefault(next);
  }
  rewriter.replaceOp(op, carried);
}

struct LegalizeLoops : intarsia::legalize::impl::LegalizeLoopsBase<LegalizeLoops> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<Operation *> loops; // those within others first
    getOperation().walk([&](Operation *op) {
      if (isa<scf::ForOp, scf::ForallOp, scf::ParallelOp>(op))
        loops.push_back(op);
    });
    for (Operation *loop : loops)
      if (auto op = dyn_cast<scf::ForOp>(loop))
        unroll(op, rewriter);
      else if (auto op = dyn_cast<scf::ForallOp>(loop))
        unroll(op, rewriter);
      else
        unroll(cast<scf::ParallelOp>(loop), rewriter);
  }
};
} // namespace
