//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Rows.h"
#include "intarsia/Analysis/GatheredRows.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

/// True if the op can be part of a kernel over rows of these sizes.
static bool fitsRows(Operation *op, ArrayRef<AffineExpr> sizes, const Candidate &candidate, const WorkModel &work) {
  if (isa<nn::EmbeddingOp>(op))
    return work.sizes(op->getResult(0)) == sizes;
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) // whole rows of one or the other
    return work.sizes(concat) == sizes && concat.getDim() + 1 < sizes.size() &&
           llvm::none_of(op->getOperands(), [&](Value part) { return candidate.computes(part); });
  if (isRowWise(op))
    return work.sizes(op->getResult(0)) == sizes && llvm::none_of(candidate.ops, isRowWise);
  std::string whyNot;
  return isElementwiseOver(
      op, sizes, /*lastDimOnly=*/false, [&](Value value) { return candidate.computes(value); }, work, whyNot);
}

/// Slices of what comes in, such as the first rows of a position table, are read where they are.
static void takeSlices(Candidate &candidate) {
  for (unsigned i = 0; i < candidate.ops.size(); ++i)
    for (Value operand : candidate.ops[i]->getOperands())
      if (auto slice = operand.getDefiningOp<tensor::ExtractSliceOp>(); slice && !candidate.has(slice))
        if (slice.hasUnitStride() && !isGatheredRows(slice) && !candidate.computes(slice.getSource()))
          candidate.views.insert(slice);
}

void fuse::growRows(Fuser &fuser, Candidate &candidate) {
  const WorkModel &work = fuser.work();
  Sizes sizes(work.sizes(candidate.root->getResult(0)));
  Candidate nothing(candidate.root, KernelRoot::Rows);
  nothing.ops.clear();
  if (!fitsRows(candidate.root, sizes, nothing, work))
    return; // a transposition, for example: a kernel of its own
  llvm::SmallPtrSet<Operation *, 16> refused;
  auto tryJoin = [&](Operation *op, ArrayRef<AffineExpr> sizes) {
    if (refused.contains(op) || candidate.has(op) || op->getBlock() != candidate.root->getBlock())
      return false;
    if (!fitsRows(op, sizes, candidate, work) || !fuser.staysWhole(candidate, op))
      return false; // may fit once its neighbours have joined
    if (!fuser.shouldJoin(candidate, op, KernelRoot::Rows)) {
      refused.insert(op);
      return false;
    }
    candidate.ops.insert(op);
    return true;
  };
  bool grew = true;
  while (grew) {
    grew = false;
    // Producers that nobody else reads. What others read too is computed once, in a group of its own.
    for (unsigned i = 0; i < candidate.ops.size(); ++i)
      for (OpOperand &use : candidate.ops[i]->getOpOperands()) {
        Operation *producer = use.get().getDefiningOp();
        if (!producer || isCloned(use) || isCompileTime(use.get()))
          continue;
        bool onlyHere = llvm::all_of(producer->getUsers(),
                                     [&](Operation *user) { return candidate.has(user) || isa<tensor::DimOp>(user); });
        // A generic reads its operand at the position of its result only if the map says so.
        auto generic = dyn_cast<linalg::GenericOp>(candidate.ops[i]);
        bool samePosition = !generic || generic.getMatchingIndexingMap(&use).isIdentity();
        // Parts of a concatenated tensor have fewer rows; where the whole is computed, so are they.
        bool isPart = isa<tensor::ConcatOp>(candidate.ops[i]);
        if (isPart && !isElementwise(producer) && !isParallelGeneric(producer))
          continue;
        if (onlyHere && samePosition)
          grew |= tryJoin(producer, isPart ? work.sizes(use.get()) : ArrayRef<AffineExpr>(sizes));
      }
    for (Operation *consumer : fuser.consumers(candidate))
      grew |= tryJoin(consumer, sizes);
  }
  takeSlices(candidate);
}
