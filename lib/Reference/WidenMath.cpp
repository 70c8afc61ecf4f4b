//===- WidenMath.cpp - Elementary functions in double precision -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::reference {
#define GEN_PASS_DEF_REFERENCEWIDENMATH
#include "lib/Reference/Passes.h.inc"

namespace {
bool isNarrow(Type type) {
  auto element = dyn_cast<FloatType>(type);
  return element && element.getWidth() < 64;
}

/// Returns true for functions whose value is exact in the operands' type, or rounded once by every processor.
bool isExact(Operation *op) {
  return isa<math::AbsFOp, math::CeilOp, math::CopySignOp, math::FloorOp, math::FmaOp, math::RoundEvenOp, math::RoundOp,
             math::SqrtOp, math::TruncOp>(op);
}

struct WidenMath : impl::ReferenceWidenMathBase<WidenMath> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](Operation *op) {
      if (!isa<math::MathDialect>(op->getDialect()))
        return;
      if (isa<math::IsFiniteOp, math::IsInfOp, math::IsNaNOp, math::IsNormalOp>(op)) {
        classify(op, rewriter);
        return;
      }
      if (auto clamp = dyn_cast<math::ClampFOp>(op)) {
        rewriter.setInsertionPoint(op);
        Value most = arith::MinimumFOp::create(rewriter, op->getLoc(), clamp.getValue(), clamp.getMax());
        rewriter.replaceOpWithNewOp<arith::MaximumFOp>(op, most, clamp.getMin());
        return;
      }
      bool isNarrowerThanF32 = llvm::any_of(
          op->getOperandTypes(), [](Type type) { return isNarrow(type) && type.getIntOrFloatBitWidth() < 32; });
      if (isNarrowerThanF32 || !isExact(op))
        widen(op, rewriter);
      if (isa<math::Log1pOp, math::ExpM1Op>(op))
        callLibrary(op, rewriter);
    });
  }

private:
  /// Classifies by the limits of the original type, in f64.
  static void classify(Operation *op, IRRewriter &rewriter) {
    rewriter.setInsertionPoint(op);
    Location location = op->getLoc();
    Value x = op->getOperand(0);
    auto type = cast<FloatType>(x.getType());
    if (isa<math::IsNaNOp>(op)) {
      rewriter.replaceOpWithNewOp<arith::CmpFOp>(op, arith::CmpFPredicate::UNO, x, x);
      return;
    }
    if (isNarrow(type))
      x = arith::ExtFOp::create(rewriter, location, rewriter.getF64Type(), x);
    Value magnitude = math::AbsFOp::create(rewriter, location, x);
    auto compare = [&](arith::CmpFPredicate predicate, APFloat with) -> Value {
      bool losesInfo = false;
      with.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
      Value end = arith::ConstantOp::create(rewriter, location, rewriter.getF64FloatAttr(with.convertToDouble()));
      return arith::CmpFOp::create(rewriter, location, predicate, magnitude, end);
    };
    APFloat largest = APFloat::getLargest(type.getFloatSemantics());
    if (isa<math::IsInfOp>(op)) {
      rewriter.replaceOp(op, compare(arith::CmpFPredicate::OGT, largest));
      return;
    }
    Value isFinite = compare(arith::CmpFPredicate::OLE, largest);
    if (isa<math::IsNormalOp>(op))
      isFinite = arith::AndIOp::create(
          rewriter, location, isFinite,
          compare(arith::CmpFPredicate::OGE, APFloat::getSmallestNormalized(type.getFloatSemantics())));
    rewriter.replaceOp(op, isFinite);
  }

  /// Computes an op in f64 and rounds its results once.
  static void widen(Operation *op, IRRewriter &rewriter) {
    rewriter.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands())
      if (isNarrow(operand.get().getType()))
        operand.set(arith::ExtFOp::create(rewriter, op->getLoc(), rewriter.getF64Type(), operand.get()));
    rewriter.setInsertionPointAfter(op);
    for (OpResult result : op->getResults()) {
      Type type = result.getType();
      if (!isNarrow(type))
        continue;
      result.setType(rewriter.getF64Type());
      auto rounded = arith::TruncFOp::create(rewriter, op->getLoc(), type, result);
      result.replaceAllUsesExcept(rounded, rounded);
    }
  }

  /// Calls the C library for functions that would otherwise become `log(1 + x)` and `exp(x) - 1`: no digit of these is
  /// right where x is tiny.
  void callLibrary(Operation *op, IRRewriter &rewriter) {
    Type f64 = rewriter.getF64Type();
    if (op->getResult(0).getType() != f64)
      return;
    StringRef name = isa<math::Log1pOp>(op) ? "log1p" : "expm1";
    if (!getOperation().lookupSymbol(name)) {
      rewriter.setInsertionPointToStart(getOperation().getBody());
      func::FuncOp::create(rewriter, op->getLoc(), name, rewriter.getFunctionType({f64}, {f64})).setPrivate();
    }
    rewriter.setInsertionPoint(op);
    auto call = func::CallOp::create(rewriter, op->getLoc(), name, TypeRange{f64}, op->getOperands());
    rewriter.replaceOp(op, call);
  }
};
} // namespace
} // namespace intarsia::reference
