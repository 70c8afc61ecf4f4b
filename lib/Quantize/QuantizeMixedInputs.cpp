//===- QuantizeMixedInputs.cpp - Inputs of linears in blocks of 8 and of 4 bits ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/MixedBlocks.h"
#include "intarsia/Quantize/MixedInputs.h"
#include "lib/Quantize/CalibratedInputs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZEMIXEDINPUTS
#include "lib/Quantize/Passes.h.inc"

namespace {
struct QuantizeMixedInputs : impl::QuantizeMixedInputsBase<QuantizeMixedInputs> {
  using QuantizeMixedInputsBase::QuantizeMixedInputsBase;

  void runOnOperation() override {
    channelsOf.clear();
    operands = {};
    auto quantizeOne = [this](ContractionOpInterface linear, nn::WeightOp weight, const MixedInput &input) {
      return quantize(linear, weight, input);
    };
    if (failed(quantizeCalibrated<MixedInput>(
            getOperation(), parseMixedInputs(std::vector<std::string>(inputs.begin(), inputs.end())), quantizeOne)))
      signalPassFailure();
  }

  LogicalResult quantize(ContractionOpInterface linear, nn::WeightOp weight, const MixedInput &mixed) {
    nn::QuantizeOp ofWeight = quantizeOf(linear.getRight());
    auto fails = [&](const Twine &why) { return linear->emitError() << "weight '" << weight.getKey() << "' " << why; };
    if (!ofWeight)
      return fails(linear.getRight().getDefiningOp<nn::DequantizeOp>()
                       ? "is quantized in its archive, in the order of its features: blocks of 8 and of 4 bits permute "
                         "them; quantize a model that holds it in floats"
                       : "is not quantized, so that its input in 8 and 4 bits would gain nothing: give it a format");
    nn::BlockFormatAttr format = ofWeight.getFormat();
    if (!format.hasIntegerValues())
      return fails("has the format " + format.getName() +
                   ", whose values are no integers, which blocks of 8 and of 4 bits are multiplied by");
    int64_t features = cast<RankedTensorType>(ofWeight.getInput().getType()).getShape().back();
    if (features != int64_t(mixed.channels.size()))
      return fails("has " + Twine(features) + " input features, the order of its channels " +
                   Twine(mixed.channels.size()) + ": is it for another model?");
    nn::QuantizeOp ofInput = quantizeOf(linear.getLeft());
    Value input = ofInput ? ofInput.getInput() : linear.getLeft(), channels = channelsFor(linear, mixed);
    auto type = cast<RankedTensorType>(input.getType());
    Builder builder(&getContext());
    auto inputFormat = nn::BlockFormatAttr::get(&getContext(), nn::BlockElement::I8, nn::BlockScale::F32,
                                                nn::mixedBlock, type.getRank() - 1);
    OperandQuantization wide{inputFormat, channels, {}, builder.getI64IntegerAttr(mixed.wideBlocks), {}};
    operands.replace(linear.getLeftOperand(), input, wide, type.getElementType());
    if (channels)
      operands.replace(linear.getRightOperand(), ofWeight.getInput(), {format, channels, {}, {}, {}},
                       builder.getF32Type());
    return success();
  }

  /// Returns the constant that says the order of channels; null if it is that of the model.
  Value channelsFor(Operation *linear, const MixedInput &mixed) {
    if (llvm::is_sorted(mixed.channels))
      return nullptr;
    Value &result = channelsOf[&mixed];
    if (!result) {
      auto type = RankedTensorType::get({int64_t(mixed.channels.size())}, IntegerType::get(&getContext(), 32));
      result = CalibratedOperands::constant(linear, DenseElementsAttr::get(type, ArrayRef(mixed.channels)));
    }
    return result;
  }

  DenseMap<const MixedInput *, Value> channelsOf;
  CalibratedOperands operands;
};
} // namespace
} // namespace intarsia::quantize
