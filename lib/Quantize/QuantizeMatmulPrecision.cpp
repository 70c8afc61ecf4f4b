//===- QuantizeMatmulPrecision.cpp - Types that linears may be multiplied in -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Prepacking.h"
#include "intarsia/Quantize/Quantize.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZEMATMULPRECISION
#include "lib/Quantize/Passes.h.inc"

namespace {
struct QuantizeMatmulPrecision : impl::QuantizeMatmulPrecisionBase<QuantizeMatmulPrecision> {
  using QuantizeMatmulPrecisionBase::QuantizeMatmulPrecisionBase;

  void runOnOperation() override {
    if (llvm::Error error = checkMatmulPrecision(precision)) {
      getOperation().emitError() << llvm::toString(std::move(error));
      return signalPassFailure();
    }
    getOperation().walk([&](nn::LinearOp linear) {
      Type type = linear.getPrecision() ? Type() : precisionOf(linear);
      if (type)
        linear.setPrecision(type);
    });
  }

  /// Returns the type that a linear may be multiplied in; null if operands are multiplied as they are.
  Type precisionOf(nn::LinearOp linear) {
    MLIRContext *context = &getContext();
    if (precision != "stored")
      return llvm::StringSwitch<Type>(precision)
          .Case("tf32", FloatTF32Type::get(context))
          .Case("bf16", BFloat16Type::get(context))
          .Case("f16", Float16Type::get(context))
          .Default(Type());
    // Inputs that are quantized are multiplied as integers.
    if (linear.getInput().getDefiningOp<nn::DequantizeOp>())
      return nullptr;
    if (linear.getWeight().getDefiningOp<nn::DequantizeOp>())
      return Float16Type::get(context);
    Type element = getElementTypeOrSelf(linear.getWeight());
    return element.getIntOrFloatBitWidth() == 16 ? element : Type();
  }
};
} // namespace
} // namespace intarsia::quantize
