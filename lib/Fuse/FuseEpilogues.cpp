//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Fuser.h"
#include "lib/Fuse/LinearInputs.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "fuse-epilogues"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// Channels of a picture, with one that says how opaque it is.
constexpr int64_t kFewChannels = 4;

struct FuseEpilogues : fuse::impl::FuseEpiloguesBase<FuseEpilogues> {
  using FuseEpiloguesBase::FuseEpiloguesBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return signalPassFailure();
    Fuser fuser(function, getArgument(), std::move(*devices), flip);
    SmallVector<Operation *> roots;
    for (Operation &op : fuser.body())
      if (auto contraction = dyn_cast<ContractionOpInterface>(op);
          contraction && contraction.givesSums() && kernelRootOf(&op))
        roots.push_back(&op);
    for (Operation *root : roots) {
      Candidate candidate(root, *kernelRootOf(root));
      takeNorm(fuser, candidate, takeInputViews(candidate));
      takeTransposition(fuser, candidate);
      takeParts(fuser, candidate);
      grow(fuser, candidate);
      if (candidate.why.empty())
        candidate.why = "nothing that follows joins it";
      fuser.makeGroup(candidate);
    }
    if (failed(fuser.finish()))
      return signalPassFailure();
  }

  static bool readsWindows(Operation *root) {
    return cast<ContractionOpInterface>(root).getLeftRead() == LeftRead::Window;
  }

  /// The slices that the result of a product with a weight is read as, if they are all of it: each is then stored for
  /// itself.
  static void takeParts(Fuser &fuser, Candidate &candidate) {
    if (!cast<ContractionOpInterface>(candidate.root).hasStoredRight())
      return;
    SmallVector<tensor::ExtractSliceOp> slices;
    for (Operation *consumer : fuser.consumers(candidate)) {
      if (!isLastDimSlice(consumer, fuser.work()))
        return;
      slices.push_back(cast<tensor::ExtractSliceOp>(consumer));
    }
    auto begin = [](tensor::ExtractSliceOp slice) { return slice.getStaticOffsets().back(); };
    llvm::sort(slices, [&](auto a, auto b) { return begin(a) < begin(b); });
    int64_t end = 0;
    for (tensor::ExtractSliceOp slice : slices) {
      if (begin(slice) != end || !fuser.targetOf(candidate.root).splitsAt(end))
        return;
      end += slice.getStaticSizes().back();
    }
    if (slices.size() < 2 || end != cast<RankedTensorType>(candidate.root->getResult(0).getType()).getShape().back())
      return;
    candidate.parts.assign(slices.begin(), slices.end());
    if (!fuser.staysWhole(candidate, candidate.parts) ||
        !fuser.shouldJoin(candidate, candidate.parts, KernelRoot::Rows))
      candidate.parts.clear();
    candidate.ops.insert(candidate.parts.begin(), candidate.parts.end());
  }

  /// A tile has columns of one part, or, if its root reads rows, the same columns of all parts. Returns true if the op
  /// reads columns that one tile holds.
  static bool readsColumnsOfTile(Operation *op, const Candidate &candidate, const WorkModel &work) {
    llvm::SetVector<Operation *> reads;
    reads.insert(op);
    for (unsigned i = 0; i < reads.size(); ++i)
      for (Value operand : reads[i]->getOperands())
        if (candidate.computes(operand) && !llvm::is_contained(candidate.parts, reads[i]))
          reads.insert(operand.getDefiningOp());
    bool isOfOnePart = llvm::count_if(candidate.parts, [&](Operation *part) { return reads.contains(part); }) == 1;
    if (readsWindows(candidate.root))
      return isOfOnePart;
    return isOfOnePart || llvm::all_of(candidate.parts, [&](Operation *part) {
             return work.sameSizes(part->getResult(0), op->getResult(0));
           });
  }

  /// True if the op can be computed where the GEMM's tile is, or when its last tile of some rows is done.
  static bool fits(Operation *op, const Candidate &candidate, const Fuser &fuser, std::string &whyNot) {
    const WorkModel &work = fuser.work();
    ArrayRef<AffineExpr> sizes = work.sizes(candidate.root->getResult(0));
    for (Operation *part : candidate.parts)
      if (op->getNumResults() == 1 && work.sizes(op->getResult(0)) == work.sizes(part->getResult(0)))
        sizes = work.sizes(part->getResult(0));
    if (isNorm(op)) {
      bool isHeld = fuser.targetOf(candidate.root)
                        .holdsNorm({candidate.root, candidate.rootKind, hasQuantizedInput(candidate.root),
                                    !candidate.parts.empty()},
                                   whyNot);
      if (isHeld && (work.sizes(op->getResult(0)) != sizes || !candidate.computes(op->getOperand(0))))
        whyNot = "the norm is over other rows than the root's";
      return whyNot.empty();
    }
    if (!isElementwiseOver(
            op, sizes, /*lastDimOnly=*/true, [&](Value value) { return candidate.computes(value); }, work, whyNot))
      return false;
    if (candidate.parts.empty() || readsColumnsOfTile(op, candidate, work))
      return true;
    whyNot = readsWindows(candidate.root)
                 ? "it reads several parts of the result, and a tile of a convolution has columns of one"
                 : "it reads several parts of the linear's result, which are of different sizes";
    return false;
  }

  /// A linear that quantizes its input reads each row as a whole before its tiles begin: it can normalise the row
  /// first.
  static void takeNorm(Fuser &fuser, Candidate &candidate, Value input) {
    Operation *norm = input ? input.getDefiningOp() : nullptr;
    if (!norm || !isNorm(norm) || !hasQuantizedInput(candidate.root) ||
        fuser.work().sizes(input).drop_back() != fuser.work().sizes(candidate.root->getResult(0)).drop_back())
      return;
    Candidate grown = candidate;
    grown.views.insert(norm);
    if (fuser.staysWhole(grown, {}) && fuser.shouldView(candidate, norm, norm->getName().getStringRef()))
      candidate.views.insert(norm);
  }

  /// Windows of few channels are read an element at a time, in whatever order the image has them: a picture whose
  /// channels come first is not copied before.
  static void takeTransposition(Fuser &fuser, Candidate &candidate) {
    auto product = cast<ContractionOpInterface>(candidate.root);
    auto type = dyn_cast<RankedTensorType>(product.getLeft().getType());
    if (!readsWindows(product) || !type || type.isDynamicDim(type.getRank() - 1) ||
        type.getShape().back() > kFewChannels)
      return;
    auto transposition = product.getLeft().getDefiningOp<linalg::GenericOp>();
    if (!transposition || !isParallelGeneric(transposition) || transposition.getNumDpsInputs() != 1 ||
        !transposition.getMatchingIndexingMap(transposition.getDpsInputOperand(0)).isPermutation() ||
        cast<linalg::YieldOp>(transposition.getBody()->getTerminator()).getOperand(0) !=
            transposition.getBody()->getArgument(0))
      return;
    Candidate grown = candidate;
    grown.views.insert(transposition);
    if (fuser.staysWhole(grown, {}) &&
        fuser.shouldView(candidate, transposition.getOperation(), transposition->getName().getStringRef()))
      candidate.views.insert(transposition);
  }

  static void grow(Fuser &fuser, Candidate &candidate) {
    llvm::SmallPtrSet<Operation *, 8> refused;
    bool grew = true;
    while (grew) {
      grew = false;
      for (Operation *op : fuser.consumers(candidate)) {
        std::string whyNot;
        if (refused.contains(op) || !fits(op, candidate, fuser, whyNot)) {
          LDBG() << op->getName() << " does not join " << candidate.root->getName() << ": " << whyNot;
          continue;
        }
        if (!fuser.staysWhole(candidate, op))
          continue;
        // A norm ends the kernel: whatever else can join must have done so before.
        if (isNorm(op) && othersCanJoin(fuser, candidate, op, refused))
          continue;
        if (!fuser.shouldJoin(candidate, op, KernelRoot::Rows)) {
          refused.insert(op);
          continue;
        }
        candidate.ops.insert(op);
        if (isNorm(op))
          return;
        grew = true;
        break;
      }
    }
  }

  static bool othersCanJoin(Fuser &fuser, const Candidate &candidate, Operation *norm,
                            const llvm::SmallPtrSetImpl<Operation *> &refused) {
    return llvm::any_of(fuser.consumers(candidate), [&](Operation *op) {
      std::string whyNot;
      return op != norm && !refused.contains(op) && !isNorm(op) && fits(op, candidate, fuser, whyNot) &&
             fuser.staysWhole(candidate, op);
    });
  }
};
} // namespace
