//===- ByteRowEmitter.cpp - Rows of an input in integers of 8 bits with few scales ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/ByteRowEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Target/CPU/QuantizedPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

static constexpr int64_t kStep = BlockPanels::stepDepth;

bool isByteFormat(nn::BlockFormatAttr format) {
  return format && format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
         (format.getBlock() == 0 || format.getBlock() == BlockPanels::superBlock);
}

bool areBytePanels(const BlockPanels &panels) {
  return panels.elementBits == 8 && !panels.isE4M3 && !panels.block && !panels.hasMinima;
}

bool ByteRowEmitter::hasUnitScale() {
  nn::QuantizeOp here = quantize();
  return here ? here.getUnitScale() : activations.getUnitScale();
}

bool ByteRowEmitter::canCopy(const ByteRowLayout &layout) {
  std::optional<bool> values = tensors.densityOf(activations.getQuantized()),
                      scales = tensors.densityOf(activations.getScales());
  return values && *values && scales && *scales && layout.panels.depth % kStep == 0;
}

Value ByteRowEmitter::valuesOf(const ByteRowLayout &layout, Value record, Value step) {
  Value offset =
      add(constant(layout.groups() * ByteRowLayout::groupHead), mul(step, constant(kStep * layout.valueBytes)));
  return memory.at(record, offset, b.getI8Type());
}

LogicalResult ByteRowEmitter::writeRow(const ByteRowLayout &layout, const RowScope &row, Value record) {
  if (quantize())
    return quantizeRow(layout, row, record);
  copyRow(layout, row.flat, record);
  return success();
}

void ByteRowEmitter::clearRow(const ByteRowLayout &layout, Value record) {
  int64_t width = layout.bytes() % (4 * config.lanes) == 0 ? 4 * config.lanes : ByteRowLayout::groupHead;
  Value zeros = make<arith::ConstantOp>(b.getZeroAttr(vectorOf(b.getI8Type(), width)));
  forLoop(constant(0), constant(layout.bytes()), constant(width),
          [&](Value at) { memory.store(zeros, record, at, b.getI8Type(), width); });
}

LogicalResult ByteRowEmitter::quantizeRow(const ByteRowLayout &layout, const RowScope &row, Value record) {
  Value buffer = function.scratch(layout.groupSteps * kStep * 4);
  Value input = quantize().getInput();
  RowGuard inRow(tensors, row);
  if (failed(rowEmitter.prepareRow(row, {input})))
    return failure();
  QuantizedRow quantized{input, row.prefix, &layout.panels, record, layout.groupSteps, {}, {}, quantize().getFactors()};
  return forLoop(constant(0), constant(layout.groups()), constant(1),
                 [&](Value group) { return quantizeGroup(layout, quantized, buffer, group); });
}

/// Copies steps [begin, end) of a row in vectors of bytes; returns vectors of their sum.
Value ByteRowEmitter::copyWholeVectors(const ByteRowLayout &layout, Value from, Value begin, Value end, Value record) {
  int64_t width = 4 * config.lanes;
  Type i8 = b.getI8Type();
  auto integers = VectorType::get({config.lanes}, b.getI32Type());
  Value zeros = make<arith::ConstantOp>(b.getZeroAttr(integers));
  Value ones = splat(make<arith::ConstantOp>(b.getI8IntegerAttr(1)), width);
  Value to = valuesOf(layout, record, constant(0));
  return forLoop(mul(begin, constant(kStep)), mul(end, constant(kStep)), constant(width), zeros,
                 [&](Value at, ValueRange running) {
                   Value bytes = memory.load(from, at, i8, width);
                   memory.store(bytes, to, at, i8, width);
                   Value words = make<vector::BitCastOp>(integers, bytes);
                   return SmallVector<Value>{
                       quantizedWeights.addByteProducts(running[0], ones, words, /*elementsAre8Bits=*/false)};
                 })[0];
}

/// Copies a row of quantized values and their scales.
void ByteRowEmitter::copyRow(const ByteRowLayout &layout, Value flat, Value record) {
  std::optional<Storage> values = tensors.view(activations.getQuantized()),
                         scales = tensors.view(activations.getScales());
  int64_t lanes = config.lanes;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  Value from = memory.at(values->pointer, mul(flat, constant(layout.panels.depth)), i8);
  Value zeros = make<arith::ConstantOp>(b.getZeroAttr(VectorType::get({lanes}, i32)));
  Value factor = quantizer.factorOfRecord(layout.panels);
  forLoop(constant(0), constant(layout.groups()), constant(1), [&](Value group) {
    Value begin = mul(group, constant(layout.groupSteps)),
          end = min(add(begin, constant(layout.groupSteps)), constant(layout.panels.steps()));
    // Groups are whole vectors where their features are.
    bool isWhole = layout.panels.depth % (4 * lanes) == 0 && (layout.groupSteps * kStep) % (4 * lanes) == 0;
    auto copyByLanes = [&](Value step, ValueRange running) {
      Value sum = running[0];
      for (int64_t v = 0; v < kStep; v += lanes) {
        Value bytes = memory.load(from, add(mul(step, constant(kStep)), constant(v)), i8, lanes);
        Value integers = make<arith::ExtSIOp>(vectorOf(i32, lanes), bytes);
        sum = make<arith::AddIOp>(sum, integers);
        Type type = valueType(layout);
        memory.store(make<arith::TruncIOp>(vectorOf(type, lanes), integers), valuesOf(layout, record, step),
                     constant(v), type, lanes);
      }
      return SmallVector<Value>{sum};
    };
    Value total = isWhole && !layout.widens() ? copyWholeVectors(layout, from, begin, end, record)
                                              : forLoop(begin, end, constant(1), zeros, copyByLanes)[0];
    Value scale = memory.load(scales->pointer, add(mul(flat, constant(layout.groups())), group), f32, 1);
    storeHead(layout, headOf(record, group), total, make<arith::MulFOp>(scale, factor));
  });
}

/// Quantizes the features of a row that share a scale, by way of a buffer.
LogicalResult ByteRowEmitter::quantizeGroup(const ByteRowLayout &layout, const QuantizedRow &row, Value buffer,
                                            Value group) {
  Value begin = mul(group, constant(layout.groupSteps)), k = mul(begin, constant(kStep));
  Value count = max(min(sub(constant(layout.panels.depth), k), constant(layout.groupSteps * kStep)), constant(0));
  FailureOr<Value> largest = quantizer.fillBuffer(row, buffer, k, count);
  if (failed(largest))
    return failure();
  Value steps = min(constant(layout.groupSteps), sub(constant(layout.panels.steps()), begin));
  RecordScale scale = hasUnitScale() ? RecordScale{{}, quantizer.factorOfRecord(layout.panels)}
                                     : quantizer.scaleOfRecord(layout.panels, *largest);
  quantizeBuffer(layout, buffer, steps, scale, headOf(row.records, group), valuesOf(layout, row.records, begin));
  return success();
}

Value ByteRowEmitter::integersOf(Value values, RecordScale scale) {
  return scale.inverse
             ? quantizer.roundToIntegers(values, splat(scale.inverse, config.lanes))
             : quantizer.roundToIntegers(quantizer.saturated(values), floatConstant(1.0, b.getF32Type(), config.lanes));
}

/// Writes the values of a buffer, and what their sums are made with.
void ByteRowEmitter::quantizeBuffer(const ByteRowLayout &layout, Value buffer, Value steps, RecordScale scale,
                                    Value head, Value values) {
  int64_t lanes = config.lanes;
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Value zeros = make<arith::ConstantOp>(b.getZeroAttr(VectorType::get({lanes}, i32)));
  SmallVector<Value> total =
      forLoop(constant(0), mul(steps, constant(kStep)), constant(kStep), zeros, [&](Value k, ValueRange running) {
        Value sum = running[0];
        for (int64_t v = 0; v < kStep / lanes; ++v) {
          Value at = add(k, constant(v * lanes));
          Value quantized = integersOf(memory.load(buffer, at, f32, lanes), scale);
          sum = make<arith::AddIOp>(sum, quantized);
          Type type = valueType(layout);
          memory.store(make<arith::TruncIOp>(vectorOf(type, lanes), quantized), values, at, type, lanes);
        }
        return SmallVector<Value>{sum};
      });
  storeHead(layout, head, total[0], scale.scale);
}

/// Writes what the sums of a group of features are made with: `total` are vectors of the sum of its quantized values.
void ByteRowEmitter::storeHead(const ByteRowLayout &layout, Value head, Value total, Value scale) {
  Value start = make<vector::ReductionOp>(vector::CombiningKind::ADD, total);
  int64_t offset = layout.widens() ? layout.panels.integerOffset : encodingOf(layout.panels, config.byteDot).offset;
  start = make<arith::MulIOp>(start, word(-offset));
  make<LLVM::StoreOp>(start, head, 4);
  make<LLVM::StoreOp>(scale, memory.at(head, constant(4), b.getI8Type()), 4);
}

} // namespace intarsia::cpu
