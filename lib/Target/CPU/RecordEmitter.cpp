//===- RecordEmitter.cpp - Rows of activations quantized to 8 bits ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Activations beside quantized weights are quantized by blocks of 32 or 256 features and written as records.
//
//   record  of a row's step, 32 features: for each block of the weight in the step minus the sum of the values times
//           the weight's offset (i32), where a sum of products begins, or the sum of the values (f32) where the weight
//           has minima; the scale (f32), with what elements are multiplied by; 32 quantized values (i8)
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/RecordEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "dialects/Nn/MixedBlocks.h"
#include "dialects/Nn/RowScales.h"
#include "lib/Target/CPU/QuantizedPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

static constexpr int64_t kStep = BlockPanels::stepDepth;

int64_t RecordEmitter::stepsOfScale(nn::QuantizeOp activations) { return activations.getFormat().getBlock() / kStep; }

//===-- Activations -------------------------------------------------------------------------------------------===//

/// Returns magnitudes as integers. NaN is larger than infinity, which is larger than all others: the scale gets it.
Value RecordEmitter::magnitudes(Value value) {
  auto integers = VectorType::get({config.lanes}, b.getI32Type());
  Value mask = splat(word(0x7FFFFFFF), config.lanes);
  return make<arith::AndIOp>(make<vector::BitCastOp>(integers, value), mask);
}

/// Returns the scale of a block from its largest magnitudes.
RecordScale RecordEmitter::scaleOfLargest(Value largest, Value highest) {
  Type f32 = b.getF32Type();
  Value pattern = make<vector::ReductionOp>(vector::CombiningKind::MAXSI, largest);
  Value magnitude = make<arith::BitcastOp>(f32, pattern);
  // Below 1e-35 the quotient would overflow: such a block is zero.
  Value isTiny = make<arith::CmpFOp>(arith::CmpFPredicate::OLT, magnitude, floatConstant(1e-35, f32, 1));
  Value zero = floatConstant(0.0, f32, 1);
  if (!highest)
    highest = floatConstant(nn::largestOfWideBlock, f32, 1);
  Value inverse = select(isTiny, zero, make<arith::DivFOp>(highest, magnitude));
  Value scale = select(isTiny, zero, make<arith::DivFOp>(magnitude, highest));
  return {inverse, scale};
}

RecordScale RecordEmitter::scaleOfRecord(const BlockPanels &panels, Value largest, Value highest) {
  RecordScale found = scaleOfLargest(largest, highest);
  found.scale = make<arith::MulFOp>(found.scale, factorOfRecord(panels));
  return found;
}

Value RecordEmitter::factorOfRecord(const BlockPanels &panels) {
  return floatConstant(scaleFactor(panels) / encodingOf(panels, config.byteDot).multiplier, b.getF32Type(), 1);
}

Value RecordEmitter::roundToIntegers(Value values, Value inverse) {
  // 1.5 * 2^23 has units in its last bit: what is added is rounded to an integer, ties to even, in the low bits.
  constexpr int64_t rounderBits = 0x4B400000;
  int64_t lanes = config.lanes;
  Value rounded = make<vector::FMAOp>(values, inverse, floatConstant(12582912.0, b.getF32Type(), lanes));
  Value bits = make<vector::BitCastOp>(VectorType::get({lanes}, b.getI32Type()), rounded);
  Value low = splat(word(rounderBits), lanes);
  return make<arith::SubIOp>(bits, low);
}

Value RecordEmitter::saturated(Value values) {
  Value highest = floatConstant(nn::highestKnown, b.getF32Type(), config.lanes),
        lowest = floatConstant(nn::lowestKnown, b.getF32Type(), config.lanes);
  auto isLarger = [&](Value x, Value y) -> Value { return make<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, y); };
  Value above = select(isLarger(values, lowest), values, lowest);
  return select(isLarger(highest, above), above, highest);
}

/// Writes the record of a step's values, vectors of f32.
void RecordEmitter::writeRecord(const BlockPanels &panels, ArrayRef<Value> values, RecordScale scale, Value record) {
  int64_t lanes = config.lanes, vectors = kStep / lanes;
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  UnpackedEncoding encoding = encodingOf(panels, config.byteDot);
  SmallVector<Value> quantized;
  for (Value value : values)
    quantized.push_back(roundToIntegers(value, splat(scale.inverse, lanes)));
  int64_t blocks = blocksOfStep(panels);
  for (int64_t block = 0; block < blocks; ++block) {
    Value sum;
    for (int64_t v = block * vectors / blocks; v < (block + 1) * vectors / blocks; ++v)
      sum = sum ? make<arith::AddIOp>(sum, quantized[v]).getResult() : quantized[v];
    Value start = make<vector::ReductionOp>(vector::CombiningKind::ADD, sum);
    if (panels.hasMinima)
      start = make<arith::SIToFPOp>(f32, start);
    else
      start = make<arith::MulIOp>(start, word(-encoding.offset));
    make<LLVM::StoreOp>(start, memory.at(record, constant(4 * block), i8), 4);
  }
  make<LLVM::StoreOp>(scale.scale, memory.at(record, constant(4 * blocks), i8), 4);
  for (int64_t v = 0; v < vectors; ++v) {
    Value narrow = make<arith::TruncIOp>(vectorOf(i8, lanes), quantized[v]);
    memory.store(narrow, record, constant(4 * blocks + 4 + v * lanes), i8, lanes);
  }
}

LogicalResult RecordEmitter::quantizeRow(nn::QuantizeOp activations, const BlockPanels &panels, const RowScope &row,
                                         Value records) {
  RowGuard inRow(tensors, row);
  if (failed(rowEmitter.prepareRow(row, {activations.getInput()})))
    return failure();
  int64_t group = stepsOfScale(activations);
  QuantizedRow quantized{activations.getInput(), row.prefix, &panels, records, group, {}, {}};
  if (std::optional<int64_t> block = activations.firstNarrowBlock())
    quantized.firstNarrow = *block * nn::mixedBlock;
  if (activations.getChannels() && failed(permute(quantized, activations.getChannels())))
    return failure();
  if (group == 1 && failed(writeWholeSteps(quantized)))
    return failure();
  // Steps that share a scale, or the last one if it is not whole, lie in a buffer first. What is beyond the last
  // feature is zero.
  int64_t firstBuffered = group == 1 ? panels.depth / kStep : 0;
  if (firstBuffered < panels.steps()) {
    Value buffer = function.scratch(group * kStep * 4);
    LogicalResult written = forLoop(constant(firstBuffered), constant(panels.steps()), constant(group),
                                    [&](Value begin) { return writeBufferedSteps(quantized, buffer, begin); });
    if (failed(written))
      return failure();
  }
  return success();
}

/// Writes the features of a row to a buffer, as they are computed, and from there in the order of their channels to
/// another: a row is computed by vectors, whatever the order.
LogicalResult RecordEmitter::permute(QuantizedRow &row, Value channels) {
  int64_t lanes = config.lanes, depth = row.panels->depth, whole = depth / lanes * lanes;
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Value computed = function.scratch((depth + lanes) * 4), permuted = function.scratch((depth + lanes) * 4);
  auto compute = [&](int64_t begin, int64_t end, int64_t width) {
    return forLoop(constant(begin), constant(end), constant(width), [&](Value k) -> LogicalResult {
      Element value = inputOf(row, k, width);
      if (succeeded(value))
        memory.store(*value, computed, k, f32, width);
      return value;
    });
  };
  if (failed(compute(0, whole, lanes)) || failed(compute(whole, depth, 1)))
    return failure();
  Value order = tensors.view(channels)->pointer;
  forLoop(constant(0), constant(depth), constant(1), [&](Value k) {
    Value channel = make<arith::ExtSIOp>(b.getI64Type(), memory.load(order, k, i32, 1));
    memory.store(memory.load(computed, channel, f32, 1), permuted, k, f32, 1);
  });
  row.permuted = permuted;
  return success();
}

Element RecordEmitter::inputOf(const QuantizedRow &row, Value k, int64_t width) {
  if (row.permuted)
    return memory.load(row.permuted, k, b.getF32Type(), width);
  Element value = tensors.evaluate(row.input, kernel::indicesOf(row.prefix, k), width);
  if (failed(value) || !row.factors)
    return value;
  Element factors = tensors.evaluate(row.factors, {{k, true}}, width);
  if (failed(factors))
    return failure();
  return make<arith::MulFOp>(*value, *factors).getResult();
}

void RecordEmitter::writeStep(const QuantizedRow &row, Value step, ArrayRef<Value> values, RecordScale scale) {
  Value offset = mul(step, constant(recordBytes(*row.panels)));
  writeRecord(*row.panels, values, scale, memory.at(row.records, offset, b.getI8Type()));
}

/// Writes the steps that are whole, each with a scale of its own.
LogicalResult RecordEmitter::writeWholeSteps(const QuantizedRow &row) {
  int64_t lanes = config.lanes;
  Value steps = constant(row.panels->depth / kStep);
  return forLoop(constant(0), steps, constant(1), [&](Value step) -> LogicalResult {
    SmallVector<Value> values;
    for (int64_t v = 0; v < kStep / lanes; ++v) {
      Element value = inputOf(row, add(mul(step, constant(kStep)), constant(v * lanes)), lanes);
      if (failed(value))
        return failure();
      values.push_back(*value);
    }
    Value largest = magnitudes(values.front());
    for (Value value : ArrayRef(values).drop_front())
      largest = make<arith::MaxSIOp>(largest, magnitudes(value));
    writeStep(row, step, values, scaleOfRecord(*row.panels, largest));
    return success();
  });
}

/// Writes the steps of a group that share a scale, from step `begin` on, by way of a buffer.
LogicalResult RecordEmitter::writeBufferedSteps(const QuantizedRow &row, Value buffer, Value begin) {
  int64_t lanes = config.lanes, bufferDepth = row.group * kStep;
  Type f32 = b.getF32Type();
  const BlockPanels &panels = *row.panels;
  Value k = mul(begin, constant(kStep));
  Value count = max(min(sub(constant(panels.depth), k), constant(bufferDepth)), constant(0));
  FailureOr<Value> largest = fillBuffer(row, buffer, k, count);
  if (failed(largest))
    return failure();
  Value highest;
  if (row.firstNarrow)
    highest = select(less(k, constant(*row.firstNarrow)), floatConstant(nn::highestKnown, f32, 1),
                     floatConstant(nn::largestOfNarrowBlock, f32, 1));
  RecordScale scale = scaleOfRecord(panels, *largest, highest);
  Value steps = min(constant(row.group), sub(constant(panels.steps()), begin));
  forLoop(constant(0), steps, constant(1), [&](Value step) {
    SmallVector<Value> values;
    for (int64_t v = 0; v < kStep / lanes; ++v)
      values.push_back(memory.load(buffer, add(mul(step, constant(kStep)), constant(v * lanes)), f32, lanes));
    writeStep(row, add(begin, step), values, scale);
  });
  return success();
}

/// Writes `count` values from feature `k` on to a buffer, and zeros behind them; returns their largest magnitudes.
FailureOr<Value> RecordEmitter::fillBuffer(const QuantizedRow &row, Value buffer, Value k, Value count) {
  int64_t lanes = config.lanes, bufferDepth = row.group * kStep;
  Type f32 = b.getF32Type();
  Value width = constant(lanes), vectorCount = mul(div(count, width), width);
  Value zeros = make<arith::ConstantOp>(b.getZeroAttr(VectorType::get({lanes}, b.getI32Type())));
  using Next = FailureOr<SmallVector<Value>>;
  auto larger = [&](Value a, Value other) -> Value { return make<arith::MaxSIOp>(a, other); };
  Next largest = forLoop(constant(0), vectorCount, width, zeros, [&](Value at, ValueRange running) -> Next {
    Element value = inputOf(row, add(k, at), lanes);
    if (failed(value))
      return failure();
    memory.store(*value, buffer, at, f32, lanes);
    return SmallVector<Value>{larger(running[0], magnitudes(*value))};
  });
  if (failed(largest))
    return failure();
  if (row.panels->depth % bufferDepth == 0)
    return (*largest)[0];
  // The last vector of values may be a part of one.
  forLoop(vectorCount, constant(bufferDepth), width,
          [&](Value at) { memory.store(floatConstant(0.0, f32, lanes), buffer, at, f32, lanes); });
  LogicalResult stored = forLoop(vectorCount, count, constant(1), [&](Value at) -> LogicalResult {
    Element value = inputOf(row, add(k, at), 1);
    if (succeeded(value))
      memory.store(*value, buffer, at, f32, 1);
    return value;
  });
  if (failed(stored))
    return failure();
  return forLoop(vectorCount, constant(bufferDepth), width, *largest, [&](Value at, ValueRange running) {
    return SmallVector<Value>{larger(running[0], magnitudes(memory.load(buffer, at, f32, lanes)))};
  })[0];
}

} // namespace intarsia::cpu
