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

bool fuse::isRowReduction(Operation *op, const WorkModel &work) {
  auto reduction = dyn_cast<linalg::GenericOp>(op);
  if (!reduction || reduction->getNumResults() != 1 || reduction.getNumReductionLoops() != 1 ||
      !hasOnlyCloneableScalars(op, work) || !isCloned(*reduction.getDpsInitOperand(0)))
    return false;
  unsigned rank = reduction.getNumLoops();
  if (reduction.getIteratorTypesArray().back() != utils::IteratorType::reduction ||
      reduction.getMatchingIndexingMap(reduction.getDpsInitOperand(0)) !=
          AffineMap::getMultiDimIdentityMap(rank, op->getContext()).dropResult(rank - 1))
    return false;
  return llvm::all_of(reduction.getDpsInputOperands(),
                      [&](OpOperand *input) { return reduction.getMatchingIndexingMap(input).isIdentity(); }) &&
         llvm::none_of(capturedValues(op), [](Value value) { return isa<RankedTensorType>(value.getType()); });
}

/// True if the op's operands that have a value for each row, and that the candidate computes, are read at the row.
static bool readsAtRow(Operation *op, ArrayRef<AffineExpr> sizes, const Candidate &candidate, const WorkModel &work) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return sizes.empty() || llvm::all_of(op->getOpOperands(), [&](OpOperand &use) {
           if (!isa<RankedTensorType>(use.get().getType()) || !candidate.computes(use.get()) ||
               work.sizes(use.get()) != sizes.drop_back())
             return true;
           if (!generic)
             return false;
           unsigned rank = generic.getNumLoops();
           AffineMap map = generic.getMatchingIndexingMap(&use),
                     whole = AffineMap::getMultiDimIdentityMap(rank, op->getContext());
           return map == (rank == sizes.size() ? whole.dropResult(rank - 1) : whole);
         });
}

/// True if ops of the candidate read what an op computes at their own position, or at their row.
static bool isReadInPlace(Operation *op, ArrayRef<AffineExpr> sizes, const Candidate &candidate,
                          const WorkModel &work) {
  for (OpOperand &use : op->getUses()) {
    auto generic = dyn_cast<linalg::GenericOp>(use.getOwner());
    if (!generic || !candidate.ops.contains(generic))
      continue;
    unsigned rank = generic.getNumLoops();
    AffineMap map = generic.getMatchingIndexingMap(&use),
              whole = AffineMap::getMultiDimIdentityMap(rank, op->getContext());
    bool isOfRow = rank == sizes.size() && !sizes.empty() && work.sizes(use.get()) == sizes.drop_back();
    if (map != (isOfRow ? whole.dropResult(rank - 1) : whole))
      return false;
  }
  return true;
}

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
  auto isOfRows = [&](Value value) { return candidate.computes(value) && work.sizes(value) == sizes; };
  if (!isElementwiseOver(op, sizes, /*lastDimOnly=*/false, isOfRows, work, whyNot))
    return false;
  return readsAtRow(op, sizes, candidate, work);
}

/// True if the op computes something once for each row: a reduction, or what is computed from those alone.
static bool isOncePerRow(Operation *op, ArrayRef<AffineExpr> sizes, const Candidate &candidate, const WorkModel &work) {
  if (sizes.empty() || op->getNumResults() != 1 || work.sizes(op->getResult(0)) != sizes.drop_back())
    return false;
  if (isRowReduction(op, work))
    return work.sizes(cast<linalg::GenericOp>(op).getDpsInputOperand(0)->get()) == sizes;
  std::string whyNot;
  auto isOfRows = [&](Value value) { return candidate.computes(value) && work.sizes(value) == sizes; };
  return isElementwiseOver(op, sizes.drop_back(), /*lastDimOnly=*/false, isOfRows, work, whyNot) &&
         readsAtRow(op, sizes, candidate, work);
}

/// Slices of what comes in, such as the first rows of a position table, are read where they are.
static void takeSlices(Candidate &candidate) {
  for (unsigned i = 0; i < candidate.ops.size(); ++i)
    for (Value operand : candidate.ops[i]->getOperands())
      if (auto slice = operand.getDefiningOp<tensor::ExtractSliceOp>(); slice && !candidate.has(slice))
        if (slice.hasUnitStride() && !isGatheredRows(slice) && !candidate.computes(slice.getSource()))
          candidate.views.insert(slice);
}

/// Grows a candidate over rows of these sizes.
static void grow(Fuser &fuser, Candidate &candidate, ArrayRef<AffineExpr> sizes, bool takesReductions) {
  const WorkModel &work = fuser.work();
  llvm::SmallPtrSet<Operation *, 16> refused;
  auto tryJoin = [&](Operation *op, ArrayRef<AffineExpr> sizes) {
    if (refused.contains(op) || candidate.has(op) || op->getBlock() != candidate.root->getBlock())
      return false;
    bool fits = fitsRows(op, sizes, candidate, work) || (takesReductions && isOncePerRow(op, sizes, candidate, work));
    if (!fits || !isReadInPlace(op, sizes, candidate, work) || !fuser.staysWhole(candidate, op))
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
        bool isOfRow =
            takesReductions && isa<RankedTensorType>(use.get().getType()) && work.sizes(use.get()) == sizes.drop_back();
        if (onlyHere && (samePosition || isOfRow))
          grew |= tryJoin(producer, isPart ? work.sizes(use.get()) : sizes);
      }
    for (Operation *consumer : fuser.consumers(candidate))
      grew |= tryJoin(consumer, sizes);
  }
  takeSlices(candidate);
}

void fuse::growRows(Fuser &fuser, Candidate &candidate) {
  Sizes sizes(fuser.work().sizes(candidate.root->getResult(0)));
  Candidate nothing(candidate.root, KernelRoot::Rows);
  nothing.ops.clear();
  if (fitsRows(candidate.root, sizes, nothing, fuser.work())) // else a transposition, for example: a kernel of its own
    grow(fuser, candidate, sizes, /*takesReductions=*/false);
}

void fuse::growReducedRows(Fuser &fuser, Candidate &candidate) {
  const WorkModel &work = fuser.work();
  Sizes sizes(work.sizes(cast<linalg::GenericOp>(candidate.root).getDpsInputOperand(0)->get()));
  grow(fuser, candidate, sizes, /*takesReductions=*/true);
  // What is left once a row inside would be computed again for a result of its own.
  bool areRows = llvm::all_of(fuser.results(candidate),
                              [&](Value result) { return work.sizes(result) == ArrayRef<AffineExpr>(sizes); });
  if (!areRows) {
    candidate.ops.clear();
    candidate.ops.insert(candidate.root);
    candidate.views.clear();
  }
}

void fuse::growConcat(Fuser &fuser, Candidate &candidate) {
  for (unsigned i = 0; i < candidate.ops.size(); ++i)
    for (Value part : candidate.ops[i]->getOperands()) {
      auto inner = part.getDefiningOp<tensor::ConcatOp>();
      if (!inner || int64_t(inner.getDim()) + 1 == inner.getResultType().getRank() || isCompileTime(part))
        continue;
      Operation *op = inner;
      bool onlyHere = llvm::all_of(op->getUsers(),
                                   [&](Operation *user) { return candidate.has(user) || isa<tensor::DimOp>(user); });
      if (onlyHere && fuser.staysWhole(candidate, op) && fuser.shouldJoin(candidate, op, KernelRoot::Rows))
        candidate.ops.insert(op);
    }
}
