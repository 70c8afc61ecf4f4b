//===- MathToIntrinsics.cpp - Functions that GPUs have instructions for -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::target {

#define GEN_PASS_DEF_TARGETGPUMATHTOINTRINSICS
#include "lib/Target/Passes.h.inc"

namespace {
struct MathToIntrinsics : impl::TargetGpuMathToIntrinsicsBase<MathToIntrinsics> {
  /// Returns the intrinsic of an op; empty if it has none.
  static StringRef intrinsicOf(Operation *op) {
    return llvm::TypeSwitch<Operation *, StringRef>(op)
        .Case<math::SqrtOp>([](auto) { return "llvm.sqrt"; })
        .Case<math::AbsFOp>([](auto) { return "llvm.fabs"; })
        .Case<math::FmaOp>([](auto) { return "llvm.fma"; })
        .Case<math::CopySignOp>([](auto) { return "llvm.copysign"; })
        .Case<math::FloorOp>([](auto) { return "llvm.floor"; })
        .Case<math::CeilOp>([](auto) { return "llvm.ceil"; })
        .Case<math::TruncOp>([](auto) { return "llvm.trunc"; })
        .Case<math::RoundEvenOp>([](auto) { return "llvm.roundeven"; })
        .Case<arith::MaxNumFOp>([](auto) { return "llvm.maxnum"; })
        .Case<arith::MinNumFOp>([](auto) { return "llvm.minnum"; })
        .Case<math::AbsIOp>([](auto) { return "llvm.abs"; })
        .Case<math::CountLeadingZerosOp>([](auto) { return "llvm.ctlz"; })
        .Case<math::CountTrailingZerosOp>([](auto) { return "llvm.cttz"; })
        .Case<math::CtPopOp>([](auto) { return "llvm.ctpop"; })
        .Default(StringRef());
  }

  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      StringRef intrinsic = intrinsicOf(op);
      if (intrinsic.empty())
        return;
      OpBuilder builder(op);
      SmallVector<Value> operands(op->getOperands());
      // The flag says that the least integer (abs) and zero (ctlz, cttz) give a number too.
      if (isa<math::AbsIOp, math::CountLeadingZerosOp, math::CountTrailingZerosOp>(op))
        operands.push_back(LLVM::ConstantOp::create(builder, op->getLoc(), builder.getBoolAttr(false)));
      auto call = LLVM::CallIntrinsicOp::create(builder, op->getLoc(), op->getResult(0).getType(),
                                                builder.getStringAttr(intrinsic), operands);
      op->getResult(0).replaceAllUsesWith(call.getResult(0));
      op->erase();
    });
  }
};
} // namespace
} // namespace intarsia::target
