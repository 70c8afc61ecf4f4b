//===- CalibratedInputs.cpp - Linears whose factors are quantized as a text has shown ----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/CalibratedInputs.h"

#include "dialects/Nn/Prepacking.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;

namespace intarsia::quantize {

nn::QuantizeOp quantizeOf(Value value) {
  auto dequantize = value.getDefiningOp<nn::DequantizeOp>();
  return dequantize ? dequantize.getQuantized().getDefiningOp<nn::QuantizeOp>() : nullptr;
}

nn::WeightOp weightOf(ContractionOpInterface linear) {
  Value matrix = linear.getRight();
  if (nn::QuantizeOp quantize = quantizeOf(matrix))
    matrix = quantize.getInput();
  matrix = nn::reshapeSource(matrix); // windows are rows of a matrix
  if (auto transpose = matrix.getDefiningOp<linalg::TransposeOp>())
    matrix = nn::reshapeSource(transpose.getInput());
  return nn::storedWeight(matrix);
}

/// Returns what `dequantize` gives of a source that is quantized in this way.
static Value requantize(OpBuilder &builder, Location location, Value source, const OperandQuantization &how,
                        Type element) {
  auto type = cast<RankedTensorType>(source.getType());
  nn::BlockFormatAttr format = how.format;
  SmallVector<int64_t> scaleShape(type.getShape());
  scaleShape.back() = format.getBlockCount(scaleShape.back());
  Type tensorScale = format.hasTensorScale() ? RankedTensorType::get({}, builder.getF32Type()) : Type();
  auto quantize = nn::QuantizeOp::create(
      builder, location, type.clone(format.getStorageType()), RankedTensorType::get(scaleShape, format.getScaleType()),
      /*zero_points=*/Type(), tensorScale, source, how.channels, how.factors, format, how.wideBlocks, how.unitScale);
  return nn::DequantizeOp::create(builder, location, type.clone(element), quantize.getQuantized(), quantize.getScales(),
                                  /*zero_points=*/Value(), quantize.getTensorScale(), /*group_indices=*/Value(),
                                  /*codebook=*/Value(), format);
}

void CalibratedOperands::replace(OpOperand &operand, Value source, const OperandQuantization &how, Type element) {
  Value &value = made[{source, how.channels, how.factors, how.wideBlocks}];
  if (!value) {
    OpBuilder builder(operand.getOwner());
    // Both operands come behind their source and the constants, which begin the function.
    Value last = source;
    for (Value constant : {how.channels, how.factors}) {
      Operation *order = constant ? constant.getDefiningOp() : nullptr, *lastOp = last.getDefiningOp();
      bool isBehind =
          !order || last.getParentBlock() != order->getBlock() || (lastOp && order->isBeforeInBlock(lastOp));
      last = isBehind ? last : constant;
    }
    builder.setInsertionPointAfterValue(last);
    value = requantize(builder, operand.getOwner()->getLoc(), source, how, element);
  }
  Operation *before = operand.get().getDefiningOp();
  operand.set(value);
  if (nn::QuantizeOp quantize = before && before->use_empty() ? quantizeOf(before->getResult(0)) : nullptr) {
    before->erase();
    if (quantize->use_empty())
      quantize->erase();
  }
}

Value CalibratedOperands::constant(Operation *linear, DenseElementsAttr data) {
  auto function = linear->getParentOfType<func::FuncOp>();
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  return arith::ConstantOp::create(builder, function.getLoc(), data);
}

} // namespace intarsia::quantize
