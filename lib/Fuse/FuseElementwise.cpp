//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Rows.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
struct FuseElementwise : fuse::impl::FuseElementwiseBase<FuseElementwise> {
  using FuseElementwiseBase::FuseElementwiseBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return signalPassFailure();
    Fuser fuser(function, getArgument(), std::move(*devices), flip);
    llvm::SmallPtrSet<Operation *, 16> done;
    auto groupAll = [&](llvm::function_ref<bool(Operation *)> isRoot, KernelRoot kind,
                        llvm::function_ref<void(Fuser &, Candidate &)> grow) {
      SmallVector<Operation *> roots;
      for (Operation &op : fuser.body())
        if (isRoot(&op) && !isCompileTimeOnly(&op))
          roots.push_back(&op);
      done.clear();
      for (Operation *root : roots) {
        if (done.contains(root))
          continue;
        Candidate candidate(root, kind);
        grow(fuser, candidate);
        done.insert(candidate.ops.begin(), candidate.ops.end());
        // One op alone says nothing that fuse-wrap-remaining would not.
        if (candidate.ops.size() > 1)
          fuser.makeGroup(candidate);
      }
    };
    groupAll([&](Operation *op) { return isRowReduction(op, fuser.work()); }, KernelRoot::Rows, growReducedRows);
    groupAll(isReduction, KernelRoot::Generic, growReduction);
    groupAll(isRowWise, KernelRoot::Rows, growRows);
    groupAll(isLastConcat, KernelRoot::Rows, growConcat);
    groupAll([](Operation *op) { return isElementwise(op) || isParallelGeneric(op); }, KernelRoot::Rows, growRows);
    if (failed(fuser.finish()))
      return signalPassFailure();
  }

  /// True for a concatenation that is no part of another one.
  static bool isLastConcat(Operation *op) {
    return isa<tensor::ConcatOp>(op) && !isCompileTime(op->getResult(0)) &&
           llvm::none_of(op->getUsers(), llvm::IsaPred<tensor::ConcatOp>);
  }

  static bool isCompileTimeOnly(Operation *op) { return op->hasTrait<OpTrait::ConstantLike>(); }

  /// A reduction takes elementwise producers over its whole iteration space, and elementwise consumers of its result.
  static void growReduction(Fuser &fuser, Candidate &candidate) {
    const WorkModel &work = fuser.work();
    auto root = cast<linalg::LinalgOp>(candidate.root);
    if (root->getNumResults() != 1)
      return;
    Sizes resultSizes(work.sizes(root->getResult(0)));
    auto inside = [&](Value value) { return candidate.computes(value); };
    llvm::SmallPtrSet<Operation *, 8> refused;
    auto tryJoin = [&](Operation *op, ArrayRef<AffineExpr> sizes) {
      std::string whyNot;
      if (refused.contains(op) || candidate.has(op) || !isElementwiseOver(op, sizes, false, inside, work, whyNot) ||
          !fuser.staysWhole(candidate, op))
        return false;
      if (!fuser.shouldJoin(candidate, op, KernelRoot::Rows)) {
        refused.insert(op);
        return false;
      }
      candidate.ops.insert(op);
      return true;
    };
    auto readOnlyHere = [&](Operation *op) {
      return llvm::all_of(op->getUsers(),
                          [&](Operation *user) { return candidate.has(user) || isa<tensor::DimOp>(user); });
    };

    llvm::SetVector<Operation *> producers;
    for (OpOperand *use : root.getDpsInputOperands())
      if (Operation *producer = use->get().getDefiningOp();
          producer && !isCloned(*use) && root.getMatchingIndexingMap(use).isIdentity())
        producers.insert(producer);
    for (unsigned i = 0; i < producers.size(); ++i) {
      Operation *producer = producers[i];
      if (producer->getNumResults() != 1 || !readOnlyHere(producer) ||
          !tryJoin(producer, work.sizes(producer->getResult(0))))
        continue;
      for (Value operand : producer->getOperands())
        if (Operation *next = operand.getDefiningOp();
            next && isa<RankedTensorType>(operand.getType()) && work.sameSizes(operand, producer->getResult(0)))
          producers.insert(next);
    }
    bool grew = true;
    while (grew) {
      grew = false;
      for (Operation *consumer : fuser.consumers(candidate))
        grew |= tryJoin(consumer, resultSizes);
    }
  }
};
} // namespace
