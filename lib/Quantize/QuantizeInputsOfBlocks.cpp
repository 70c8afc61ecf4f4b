//===- QuantizeInputsOfBlocks.cpp - Rounds what is multiplied by weights in blocks -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/BlockPanels.h"
#include "lib/Quantize/Rounded.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DEF_QUANTIZEINPUTSOFBLOCKS
#include "lib/Quantize/Passes.h.inc"

Value rounded(OpBuilder &builder, Location location, Value input, nn::BlockFormatAttr format, Type element) {
  auto type = cast<RankedTensorType>(input.getType());
  SmallVector<int64_t> scaleShape(type.getShape());
  scaleShape[format.getAxis()] = format.getBlockCount(scaleShape[format.getAxis()]);
  Type codes = type.clone(format.getCodeType()), scales = RankedTensorType::get(scaleShape, format.getScaleType());
  Type tensorScale = format.hasTensorScale() ? RankedTensorType::get({}, builder.getF32Type()) : Type();
  auto quantize =
      nn::QuantizeOp::create(builder, location, codes, scales, /*zero_points=*/Type(), tensorScale, input, format);
  return nn::DequantizeOp::create(builder, location, type.clone(element), quantize.getCodes(), quantize.getScales(),
                                  quantize.getZeroPoints(), quantize.getTensorScale(), format);
}

void RoundedInputs::round(nn::LinearOp linear, int64_t block) {
  Value input = linear.getInput();
  auto type = cast<RankedTensorType>(input.getType());
  if (type.getRank() == 0 || input.getDefiningOp<nn::DequantizeOp>())
    return;
  Value &result = inputs[{input, block}];
  if (!result) {
    OpBuilder builder(linear.getContext());
    builder.setInsertionPointAfterValue(input);
    auto format = nn::BlockFormatAttr::get(linear.getContext(), nn::BlockElement::I8, nn::BlockScale::F32, block,
                                           type.getRank() - 1);
    result = rounded(builder, linear.getLoc(), input, format, type.getElementType());
  }
  linear.getInputMutable().assign(result);
}

namespace {
struct QuantizeInputsOfBlocks : impl::QuantizeInputsOfBlocksBase<QuantizeInputsOfBlocks> {
  void runOnOperation() override {
    RoundedInputs inputs;
    getOperation().walk([&](nn::LinearOp linear) {
      auto blocks = linear.getWeight().getDefiningOp<nn::DequantizeBlocksOp>();
      // Blocks of the input are as long as those of the weight, as in ggml (block_q8_0, block_q8_K).
      if (blocks && blocks.getBlocks().getDefiningOp<nn::WeightOp>() &&
          BlockPanels::of(blocks.getFormat(), cast<RankedTensorType>(blocks.getType()).getShape().back()))
        inputs.round(linear, blocks.getFormat().getType().elements);
    });
  }
};
} // namespace
} // namespace intarsia::quantize
