//===- QuantizeStaticInputs.cpp - Inputs of linears with scales that a text has shown ----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/RowScales.h"
#include "intarsia/Quantize/StaticInputs.h"
#include "lib/Quantize/CalibratedInputs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZESTATICINPUTS
#include "lib/Quantize/Passes.h.inc"

namespace {
struct QuantizeStaticInputs : impl::QuantizeStaticInputsBase<QuantizeStaticInputs> {
  using QuantizeStaticInputsBase::QuantizeStaticInputsBase;

  void runOnOperation() override {
    inversesOf.clear();
    factorsOf.clear();
    operands = {};
    auto quantizeOne = [this](ContractionOpInterface linear, nn::WeightOp weight, const StaticInput &input) {
      return quantize(linear, weight, input);
    };
    if (failed(quantizeCalibrated<StaticInput>(
            getOperation(), parseStaticInputs(std::vector<std::string>(inputs.begin(), inputs.end())), quantizeOne)))
      signalPassFailure();
    // Images between layers are large, so that a residual connection reads bytes, too. Texts keep their residuals in
    // f32, which are read from near caches.
    getOperation()->walk([](nn::ConvOp conv) {
      if (nn::QuantizeOp quantize = quantizeOf(conv.getInput()); quantize && quantize.getUnitScale())
        quantize->setAttr(nn::replacesInputAttr, UnitAttr::get(conv.getContext()));
    });
  }

  LogicalResult quantize(ContractionOpInterface linear, nn::WeightOp weight, const StaticInput &known) {
    nn::QuantizeOp ofWeight = quantizeOf(linear.getRight());
    auto fails = [&](const Twine &why) { return linear->emitError() << "weight '" << weight.getKey() << "' " << why; };
    if (!ofWeight)
      return fails(linear.getRight().getDefiningOp<nn::DequantizeOp>()
                       ? "is quantized in its archive, before it is multiplied by the factors of its input: quantize a "
                         "model that holds it in floats"
                       : "is not quantized, so that an input in 8 bits would gain nothing: give it the format "
                         "int8-channel");
    nn::BlockFormatAttr format = ofWeight.getFormat();
    if (format.getElement() != nn::BlockElement::I8 || format.getBlock() != 0 || ofWeight.getZeroPoints())
      return fails("has the format " + format.getName() +
                   ", inputs with scales that a text has shown are multiplied by int8-channel");
    int64_t features = cast<RankedTensorType>(linear.getLeft().getType()).getShape().back();
    int64_t columns = cast<RankedTensorType>(ofWeight.getInput().getType()).getShape().back();
    if (features != int64_t(known.factors.size()))
      return fails("has " + Twine(features) + " input features, and there are factors of " +
                   Twine(known.factors.size()) + ": are they for another model?");
    nn::QuantizeOp ofInput = quantizeOf(linear.getLeft());
    Value input = ofInput ? ofInput.getInput() : linear.getLeft();
    auto type = cast<RankedTensorType>(input.getType());
    auto [inverse, factors] = constantsFor(linear, known, columns);
    auto inputFormat = nn::BlockFormatAttr::get(&getContext(), nn::BlockElement::I8, nn::BlockScale::F32, /*block=*/0,
                                                type.getRank() - 1);
    OperandQuantization fixed{inputFormat, {}, inverse, {}, UnitAttr::get(&getContext())};
    operands.replace(linear.getLeftOperand(), input, fixed, type.getElementType());
    // Factors hold the scale of the input, which makes weights too small for scales in f16: these would be subnormal.
    auto weightFormat = nn::BlockFormatAttr::get(&getContext(), nn::BlockElement::I8, nn::BlockScale::F32, /*block=*/0,
                                                 format.getAxis());
    operands.replace(linear.getRightOperand(), ofWeight.getInput(), {weightFormat, {}, factors, {}, {}},
                     Float32Type::get(&getContext()));
    return success();
  }

  /// Returns what an input is multiplied by, and a weight of so many columns, which are those of each position of a
  /// window.
  std::pair<Value, Value> constantsFor(Operation *linear, const StaticInput &known, int64_t columns) {
    auto constantOf = [&](ArrayRef<float> numbers) {
      auto type = RankedTensorType::get({int64_t(numbers.size())}, Float32Type::get(&getContext()));
      return CalibratedOperands::constant(linear, DenseElementsAttr::get(type, numbers));
    };
    Value &inverse = inversesOf[&known], &factors = factorsOf[{&known, columns}];
    if (!inverse) {
      std::vector<float> inverses;
      for (float factor : known.factors)
        inverses.push_back(1 / factor);
      inverse = constantOf(inverses);
    }
    if (!factors) {
      std::vector<float> ofColumns;
      while (int64_t(ofColumns.size()) < columns)
        llvm::append_range(ofColumns, known.factors);
      factors = constantOf(ofColumns);
    }
    return {inverse, factors};
  }

  DenseMap<const StaticInput *, Value> inversesOf;
  DenseMap<std::pair<const StaticInput *, int64_t>, Value> factorsOf;
  CalibratedOperands operands;
};
} // namespace
} // namespace intarsia::quantize
