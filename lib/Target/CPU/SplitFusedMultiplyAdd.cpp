//===- SplitFusedMultiplyAdd.cpp - Processors without fused multiply-adds ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::target {

#define GEN_PASS_DEF_TARGETCPUSPLITFUSEDMULTIPLYADD
#include "lib/Target/Passes.h.inc"

namespace {
struct SplitFusedMultiplyAdd : impl::TargetCpuSplitFusedMultiplyAddBase<SplitFusedMultiplyAdd> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](Operation *op) {
      if (isa<vector::FMAOp, math::FmaOp>(op))
        split(op, rewriter);
    });
  }

private:
  static void split(Operation *op, IRRewriter &rewriter);
};
} // namespace

/// Replaces one op; products of f32 in elementary functions are computed in f64, which is exact.
void SplitFusedMultiplyAdd::split(Operation *op, IRRewriter &rewriter) {
  rewriter.setInsertionPoint(op);
  Location loc = op->getLoc();
  Type type = op->getResult(0).getType();
  SmallVector<Value> operands(op->getOperands());
  bool widens = isa<math::FmaOp>(op) && getElementTypeOrSelf(type).isF32();
  if (widens) {
    Type f64 = rewriter.getF64Type(), wide = f64;
    if (auto vector = dyn_cast<VectorType>(type))
      wide = vector.clone(f64);
    for (Value &operand : operands)
      operand = arith::ExtFOp::create(rewriter, loc, wide, operand);
  }
  Value product = arith::MulFOp::create(rewriter, loc, operands[0], operands[1]);
  Value sum = arith::AddFOp::create(rewriter, loc, product, operands[2]);
  rewriter.replaceOp(op, widens ? arith::TruncFOp::create(rewriter, loc, type, sum).getResult() : sum);
}

} // namespace intarsia::target
