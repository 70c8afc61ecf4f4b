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
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZELOOPS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

namespace {

/// Limits for writing loops out: the iterations of a loop, and the ops in all copies of a function, each of which may
/// become a kernel. Longer loops stay, and are refused where a kernel would need their counter.
constexpr int64_t mostIterations = 64, mostOps = 4096;

/// True if ops on tensors read a value, or what control flow and integer arithmetic make of it.
bool isReadByTensors(Value counter) {
  llvm::SetVector<Value> open;
  open.insert(counter);
  for (unsigned i = 0; i < open.size(); ++i)
    for (OpOperand &use : open[i].getUses()) {
      Operation *user = use.getOwner();
      bool isInteger = user->getNumResults() == 1 && user->getResult(0).getType().isIntOrIndex() &&
                       isa_and_nonnull<arith::ArithDialect>(user->getDialect());
      if (isInteger) {
        open.insert(user->getResult(0));
      } else if (auto loop = dyn_cast<scf::ForOp>(user)) {
        // As a bound or step it decides which iterations there are; as a value it is carried.
        if (use.getOperandNumber() < loop.getNumControlOperands()) {
          open.insert(loop.getInductionVar());
        } else {
          open.insert(loop.getTiedLoopRegionIterArg(&use));
          open.insert(loop.getTiedLoopResult(&use));
        }
      } else if (isa<scf::YieldOp>(user)) {
        Operation *parent = user->getParentOp();
        if (use.getOperandNumber() < parent->getNumResults())
          open.insert(parent->getResult(use.getOperandNumber()));
        if (auto loop = dyn_cast<scf::ForOp>(parent))
          open.insert(loop.getRegionIterArg(use.getOperandNumber()));
      } else if (!isa<scf::ConditionOp, scf::IfOp, scf::WhileOp>(user)) {
        return true;
      }
    }
  return false;
}

int64_t opsIn(Region &region) {
  int64_t count = 0;
  region.walk([&](Operation *) { ++count; });
  return count;
}

/// Returns the iterations of a loop over constants, the last counter running fastest; none if there are too many.
std::optional<SmallVector<SmallVector<int64_t>>> iterations(ArrayRef<OpFoldResult> lower, ArrayRef<OpFoldResult> upper,
                                                            ArrayRef<OpFoldResult> steps, Region &body,
                                                            int64_t &budget) {
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
  int64_t ops = int64_t(result.size()) * opsIn(body);
  if (ops > budget)
    return std::nullopt;
  budget -= ops;
  return result;
}

/// Maps the counters of an iteration to constants.
void mapCounters(ValueRange counters, ArrayRef<int64_t> values, IRMapping &mapping, OpBuilder &builder, Location at) {
  for (auto [counter, value] : llvm::zip_equal(counters, values))
    mapping.map(counter, arith::ConstantIndexOp::create(builder, at, value).getResult());
}

/// Clones a block without its terminator, and folds arithmetic on constants.
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
bool unroll(scf::ForallOp op, int64_t &budget, IRRewriter &rewriter) {
  if (op.getNumResults() == 0)
    return false;
  auto all = iterations(op.getMixedLowerBound(), op.getMixedUpperBound(), op.getMixedStep(), op.getRegion(), budget);
  if (!all)
    return false;
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
  return true;
}

/// scf.parallel: what its iterations reduce is reduced in their order.
bool unroll(scf::ParallelOp op, int64_t &budget, IRRewriter &rewriter) {
  SmallVector<OpFoldResult> lower = getAsOpFoldResult(op.getLowerBound()),
                            upper = getAsOpFoldResult(op.getUpperBound()), steps = getAsOpFoldResult(op.getStep());
  auto all = iterations(lower, upper, steps, op.getRegion(), budget);
  if (!all)
    return false;
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
  return true;
}

/// Returns the op whose body an op stands in, which a kernel computes; null outside of bodies.
Operation *bodyOf(Operation *op) {
  Operation *parent = op->getParentOp();
  while (parent && !isa<linalg::LinalgOp, tensor::GenerateOp>(parent))
    parent = parent->getParentOp();
  return parent;
}

bool unroll(scf::ForOp op, int64_t &budget, IRRewriter &rewriter) {
  // A loop that compares without sign stays a loop of the host.
  if (op.getUnsignedCmp() || (!bodyOf(op) && !isReadByTensors(op.getInductionVar())))
    return false;
  auto all = iterations(getAsOpFoldResult(op.getLowerBound()), getAsOpFoldResult(op.getUpperBound()),
                        getAsOpFoldResult(op.getStep()), op.getRegion(), budget);
  if (!all)
    return false;
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
  return true;
}

struct LegalizeLoops : intarsia::legalize::impl::LegalizeLoopsBase<LegalizeLoops> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    int64_t budget = mostOps;
    // Outer loops first, as bounds of inner ones may be their counters; then all again, with what they have become.
    auto unrollOne = [&](Operation *op) {
      bool isUnrolled = llvm::TypeSwitch<Operation *, bool>(op)
                            .Case<scf::ForOp, scf::ForallOp, scf::ParallelOp>(
                                [&](auto loop) { return unroll(loop, budget, rewriter); })
                            .Default(false);
      return isUnrolled ? WalkResult::interrupt() : WalkResult::advance();
    };
    while (getOperation().walk<WalkOrder::PreOrder>(unrollOne).wasInterrupted()) {
    }
    if (failed(refuse()))
      signalPassFailure();
  }

  /// Refuses the loops that are left in bodies.
  LogicalResult refuse() {
    WalkResult result = getOperation().walk([](Operation *op) -> WalkResult {
      Operation *body = isa<scf::ForOp, scf::WhileOp, scf::ForallOp, scf::ParallelOp>(op) ? bodyOf(op) : nullptr;
      if (!body)
        return WalkResult::advance();
      return op->emitError() << "'" << op->getName() << "' in the body of '" << body->getName()
                             << "': bodies have only loops between constants, of at most " << mostIterations
                             << " iterations; make it a reduction dimension of a 'linalg.generic'";
    });
    return failure(result.wasInterrupted());
  }
};
} // namespace
