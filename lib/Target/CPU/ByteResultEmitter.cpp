//===- ByteResultEmitter.cpp - Results that are quantized where they are computed -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/ByteResultEmitter.h"

#include "dialects/Nn/MixedBlocks.h"
#include "dialects/Nn/RowScales.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::cpu {

LogicalResult ByteResultEmitter::find(Operation *root, int64_t block) {
  for (unsigned i = 0; i < function.kernel.getResultTypes().size(); ++i)
    if (auto found = function.yielded(i).getDefiningOp<nn::QuantizeOp>()) {
      if (quantize && quantize != found)
        return function.refuse(root, "two of its results are quantized");
      quantize = found;
    }
  if (!quantize)
    return success();
  nn::BlockFormatAttr format = quantize.getFormat();
  int64_t features = cast<RankedTensorType>(quantize.getInput().getType()).getShape().back();
  bool isUnit = quantize.getUnitScale();
  bool isKnown = format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
                 format.getBlock() == (isUnit ? 0 : block) && !quantize.getZeroPoints() && !quantize.getChannels() &&
                 !quantize.firstNarrowBlock() && (isUnit || (block && features % block == 0));
  if (isKnown)
    return success();
  if (block == 0)
    return function.refuse(root, "its result is quantized in another way than to integers of 8 bits with known scales");
  return function.refuse(root,
                         "its result is quantized in another way than to integers of 8 bits with a scale for each " +
                             Twine(block) + " features or with known scales, or has no whole blocks of them");
}

const Storage *ByteResultEmitter::outputOf(Value result) {
  for (unsigned i = 0; i < function.kernel.getResultTypes().size(); ++i)
    if (function.yielded(i) == result)
      return &function.outputs[i];
  return nullptr;
}

Element ByteResultEmitter::evaluate(ArrayRef<Index> at, int64_t width) {
  Element element = tensors.evaluate(quantize.getInput(), at, width);
  Value factors = quantize.getFactors();
  if (failed(element) || !factors)
    return element;
  Element factor = tensors.evaluate(factors, {at.back()}, width);
  if (failed(factor))
    return failure();
  return make<arith::MulFOp>(*element, *factor).getResult();
}

LogicalResult ByteResultEmitter::storeUnit(Value flat, ArrayRef<Index> at, int64_t width) {
  const Storage *output = outputOf(quantize.getQuantized());
  if (!output)
    return success();
  Element element = evaluate(at, width);
  if (failed(element))
    return failure();
  Type f32 = b.getF32Type(), i8 = b.getI8Type();
  Value highest = floatConstant(nn::highestKnown, f32, width), lowest = floatConstant(nn::lowestKnown, f32, width);
  auto isLarger = [&](Value x, Value y) -> Value { return make<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, y); };
  Value above = select(isLarger(*element, lowest), *element, lowest); // NaN becomes the lowest
  Value inside = select(isLarger(highest, above), above, highest);
  // 1.5 * 2^23 has units in its last bit: what is added is rounded to an integer, ties to even, in the low bits.
  Value rounded = make<arith::AddFOp>(inside, floatConstant(12582912.0, f32, width));
  Value bits = make<arith::BitcastOp>(vectorOf(b.getI32Type(), width), rounded);
  int64_t features = cast<RankedTensorType>(quantize.getInput().getType()).getShape().back();
  memory.store(make<arith::TruncIOp>(vectorOf(i8, width), bits), output->pointer,
               add(mul(flat, constant(features)), at.back().base), i8, width);
  return success();
}

void ByteResultEmitter::storeUnitScale(Value flat) {
  if (const Storage *output = hasUnitScale() ? outputOf(quantize.getScales()) : nullptr)
    memory.store(floatConstant(1.0, b.getF32Type(), 1), output->pointer, flat, b.getF32Type(), 1);
}

} // namespace intarsia::cpu
