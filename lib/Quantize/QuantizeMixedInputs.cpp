//===- QuantizeMixedInputs.cpp - Inputs of linears in blocks of 8 and of 4 bits ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/MixedBlocks.h"
#include "dialects/Nn/Prepacking.h"
#include "intarsia/Quantize/MixedInputs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZEMIXEDINPUTS
#include "lib/Quantize/Passes.h.inc"

/// Returns the nn.quantize that a value is dequantized from; null if there is none.
static nn::QuantizeOp quantizeOf(Value value) {
  auto dequantize = value.getDefiningOp<nn::DequantizeOp>();
  return dequantize ? dequantize.getQuantized().getDefiningOp<nn::QuantizeOp>() : nullptr;
}

/// Returns the weight of an archive that a linear reads, however it is quantized or transposed.
static nn::WeightOp weightOf(nn::LinearOp linear) {
  Value matrix = linear.getWeight();
  if (nn::QuantizeOp quantize = quantizeOf(matrix))
    matrix = quantize.getInput();
  if (auto transpose = matrix.getDefiningOp<linalg::TransposeOp>())
    matrix = transpose.getInput();
  return nn::storedWeight(matrix);
}

/// Returns what `dequantize` gives if `input` is quantized with these channels and blocks.
static Value requantize(OpBuilder &builder, Location location, Value input, Value channels, nn::BlockFormatAttr format,
                        IntegerAttr wideBlocks, Type element) {
  auto type = cast<RankedTensorType>(input.getType());
  SmallVector<int64_t> scaleShape(type.getShape());
  scaleShape.back() = format.getBlockCount(scaleShape.back());
  Type tensorScale = format.hasTensorScale() ? RankedTensorType::get({}, builder.getF32Type()) : Type();
  auto quantize = nn::QuantizeOp::create(builder, location, type.clone(format.getStorageType()),
                                         RankedTensorType::get(scaleShape, format.getScaleType()),
                                         /*zero_points=*/Type(), tensorScale, input, channels, format, wideBlocks);
  return nn::DequantizeOp::create(builder, location, type.clone(element), quantize.getQuantized(), quantize.getScales(),
                                  /*zero_points=*/Value(), quantize.getTensorScale(), /*group_indices=*/Value(),
                                  /*codebook=*/Value(), format);
}

namespace {
struct QuantizeMixedInputs : impl::QuantizeMixedInputsBase<QuantizeMixedInputs> {
  using QuantizeMixedInputsBase::QuantizeMixedInputsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    llvm::Expected<std::vector<MixedInput>> parsed =
        parseMixedInputs(std::vector<std::string>(inputs.begin(), inputs.end()));
    if (!parsed) {
      function.emitError() << llvm::toString(parsed.takeError());
      return signalPassFailure();
    }
    channelsOf.clear();
    made.clear();
    llvm::StringMap<const MixedInput *> ofWeights;
    for (const MixedInput &input : *parsed)
      for (StringRef key : input.weights)
        ofWeights[key] = &input;
    WalkResult result = function.walk([&](nn::LinearOp linear) -> WalkResult {
      nn::WeightOp weight = weightOf(linear);
      auto found = weight ? ofWeights.find(weight.getKey()) : ofWeights.end();
      return found == ofWeights.end() ? WalkResult::advance() : WalkResult(quantize(linear, weight, *found->second));
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult quantize(nn::LinearOp linear, nn::WeightOp weight, const MixedInput &mixed) {
    nn::QuantizeOp ofWeight = quantizeOf(linear.getWeight());
    auto fails = [&](const Twine &why) { return linear.emitError() << "weight '" << weight.getKey() << "' " << why; };
    if (!ofWeight)
      return fails(linear.getWeight().getDefiningOp<nn::DequantizeOp>()
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
    nn::QuantizeOp ofInput = quantizeOf(linear.getInput());
    Value input = ofInput ? ofInput.getInput() : linear.getInput(), channels = channelsFor(mixed);
    auto type = cast<RankedTensorType>(input.getType());
    Builder builder(&getContext());
    auto inputFormat = nn::BlockFormatAttr::get(&getContext(), nn::BlockElement::I8, nn::BlockScale::F32,
                                                nn::mixedBlock, type.getRank() - 1);
    replace(linear.getInputMutable(), input, channels, inputFormat, builder.getI64IntegerAttr(mixed.wideBlocks),
            type.getElementType());
    if (channels)
      replace(linear.getWeightMutable(), ofWeight.getInput(), channels, format, /*wideBlocks=*/nullptr,
              builder.getF32Type());
    return success();
  }

  /// Returns the constant that says the order of channels; null if it is that of the model.
  Value channelsFor(const MixedInput &mixed) {
    if (llvm::is_sorted(mixed.channels))
      return nullptr;
    Value &result = channelsOf[&mixed];
    if (!result) {
      OpBuilder builder = OpBuilder::atBlockBegin(&getOperation().getBody().front());
      auto type = RankedTensorType::get({int64_t(mixed.channels.size())}, builder.getI32Type());
      result = arith::ConstantOp::create(builder, getOperation().getLoc(),
                                         DenseElementsAttr::get(type, ArrayRef(mixed.channels)));
    }
    return result;
  }

  /// Gives a linear another factor, which is made once for all linears that have it, and erases what it had if nothing
  /// else reads that.
  void replace(OpOperand &operand, Value source, Value channels, nn::BlockFormatAttr format, IntegerAttr wideBlocks,
               Type element) {
    Value &factor = made[{source, channels, wideBlocks}];
    if (!factor) {
      OpBuilder builder(&getContext());
      // Both factors come behind their source and the constant of channels, which begins the function.
      Operation *order = channels ? channels.getDefiningOp() : nullptr, *made = source.getDefiningOp();
      bool isBehind = !order || source.getParentBlock() != order->getBlock() || (made && order->isBeforeInBlock(made));
      builder.setInsertionPointAfterValue(isBehind ? source : channels);
      factor = requantize(builder, operand.getOwner()->getLoc(), source, channels, format, wideBlocks, element);
    }
    Operation *before = operand.get().getDefiningOp();
    operand.set(factor);
    if (nn::QuantizeOp quantize = before && before->use_empty() ? quantizeOf(before->getResult(0)) : nullptr) {
      before->erase();
      if (quantize->use_empty())
        quantize->erase();
    }
  }

  DenseMap<const MixedInput *, Value> channelsOf;
  DenseMap<std::tuple<Value, Value, Attribute>, Value> made; // (source, channels, wide blocks) → dequantized
};
} // namespace
} // namespace intarsia::quantize
