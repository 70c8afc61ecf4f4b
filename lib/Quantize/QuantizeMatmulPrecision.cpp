//===- QuantizeMatmulPrecision.cpp - Types that linears may be multiplied in -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Prepacking.h"
#include "intarsia/Quantize/Quantize.h"
#include "lib/Quantize/QuantizedInputs.h"
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
      Type type = linear.getPrecision() ? Type() : precisionOf(linear.getInput(), linear.getWeight());
      if (type)
        linear.setPrecision(type);
    });
    getOperation().walk([&](nn::ExpertsOp experts) {
      // Rows between the two matrices are quantized, or multiplied in the same type as the input.
      if (experts.getPrecision() || experts.getIntermediateFormat())
        return;
      Type type = precisionOf(experts.getInput(), experts.getGateUp());
      if (type && type == precisionOf(experts.getInput(), experts.getDown()))
        experts.setPrecision(type);
    });
  }

  /// Returns the type that rows and a weight may be multiplied in; null if they are multiplied as they are.
  Type precisionOf(Value input, Value weight) {
    MLIRContext *context = &getContext();
    if (precision != "stored")
      return llvm::StringSwitch<Type>(precision)
          .Case("tf32", FloatTF32Type::get(context))
          .Case("bf16", BFloat16Type::get(context))
          .Case("f16", Float16Type::get(context))
          .Default(Type());
    // Inputs that are quantized are multiplied as integers.
    if (input.getDefiningOp<nn::DequantizeOp>())
      return nullptr;
    // Matrices of experts may be put together from those of each.
    while (movesRows(weight.getDefiningOp()))
      weight = weight.getDefiningOp()->getOperand(0);
    if (weight.getDefiningOp<nn::DequantizeOp>())
      return Float16Type::get(context);
    Type element = getElementTypeOrSelf(weight);
    return element.getIntOrFloatBitWidth() == 16 ? element : Type();
  }
};
} // namespace
} // namespace intarsia::quantize
