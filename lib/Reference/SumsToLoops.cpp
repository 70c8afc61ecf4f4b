//===- SumsToLoops.cpp - Sums of several results side by side -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A sum in its defined order waits for each addition. Neighbouring results are sums of their own, so several are
// computed in one loop: no addition changes, and a matrix product takes a third of the time.
//===----------------------------------------------------------------------------------------------------------===//
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::reference {
#define GEN_PASS_DEF_REFERENCESUMSTOLOOPS
#include "lib/Reference/Passes.h.inc"

namespace {

/// Results side by side, the more the better: eight additions are on their way at once where processors begin two in a
/// cycle and end each after four.
constexpr int64_t widths[] = {8, 4, 2};

/// Returns how many neighbours of the last dimension of the result can be computed side by side; 1 if the op is no sum
/// over memory, or has no such neighbours.
int64_t widthOf(linalg::GenericOp op) {
  unsigned parallel = op.getNumParallelLoops();
  if (!op.hasPureBufferSemantics() || parallel == 0 || op.getNumReductionLoops() == 0)
    return 1;
  // Loops are nested as the dimensions are listed: sums must be inside.
  for (auto [number, kind] : llvm::enumerate(op.getIteratorTypesArray()))
    if ((kind == utils::IteratorType::parallel) != (number < parallel))
      return 1;
  if (llvm::any_of(*op.getBody(), [](Operation &inner) { return inner.getNumRegions() != 0; }))
    return 1;
  int64_t size = op.getStaticLoopRanges()[parallel - 1];
  if (ShapedType::isDynamic(size) || size == 0)
    return 1;
  for (int64_t width : widths)
    if (size % width == 0)
      return width;
  return 1;
}

struct SumsToLoops : impl::ReferenceSumsToLoopsBase<SumsToLoops> {
  void runOnOperation() override {
    SmallVector<std::pair<linalg::GenericOp, int64_t>> sums;
    getOperation().walk([&](linalg::GenericOp op) {
      if (int64_t width = widthOf(op); width != 1)
        sums.push_back({op, width});
    });
    IRRewriter rewriter(&getContext());
    for (auto [op, width] : sums) {
      rewriter.setInsertionPoint(op);
      unsigned last = op.getNumParallelLoops() - 1;
      FailureOr<linalg::LinalgLoops> loops = linalg::linalgOpToLoops(rewriter, op);
      if (failed(loops) || failed(loopUnrollJamByFactor(cast<scf::ForOp>((*loops)[last]), width))) {
        op.emitOpError() << "cannot become loops that compute " << width << " results at once";
        return signalPassFailure();
      }
      rewriter.eraseOp(op);
    }
  }
};

} // namespace
} // namespace intarsia::reference
