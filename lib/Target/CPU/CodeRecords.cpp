//===- CodeRecords.cpp - Rows of activations as 8-bit codes -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Activations beside quantized weights are rounded by blocks of 32 or 256 features and written as records.
//
//   record  of a row's step, 32 features: for each block of the weight in the step minus the sum of the codes times the
//           weight's offset (i32), where a sum of products begins, or the sum of the codes (f32) where the weight has
//           minima; the scale (f32), with what codes are multiplied by; 32 codes (i8)
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/CodeTileEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Target/CPU/CodeNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

static constexpr int64_t kStep = BlockPanels::stepDepth;

nn::QuantizeOp CodeTileEmitter::quantizedInput(Value input) {
  auto dequantize = input.getDefiningOp<nn::DequantizeOp>();
  auto quantize = dequantize ? dequantize.getCodes().getDefiningOp<nn::QuantizeOp>() : nullptr;
  if (!quantize || dequantize.getScales() != quantize.getScales() || dequantize.getFormat() != quantize.getFormat())
    return nullptr;
  nn::BlockFormatAttr format = quantize.getFormat();
  bool known = format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
               (format.getBlock() == kStep || format.getBlock() == kGroup * kStep) && !quantize.getZeroPoints() &&
               format.getAxis() == cast<RankedTensorType>(input.getType()).getRank() - 1;
  return known ? quantize : nullptr;
}

int64_t CodeTileEmitter::stepsOfScale(nn::QuantizeOp activations) { return activations.getFormat().getBlock() / kStep; }

//===-- Activations -------------------------------------------------------------------------------------------===//

/// Magnitudes as integers. NaN is larger than infinity, and that than all numbers: the scale gets it.
Value CodeTileEmitter::magnitudes(Value value) {
  auto integers = VectorType::get({config.lanes}, b.getI32Type());
  Value mask = splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0x7FFFFFFF)), config.lanes);
  return arith::AndIOp::create(b, loc, vector::BitCastOp::create(b, loc, integers, value), mask);
}

/// The scale of a block from its largest magnitudes.
CodeTileEmitter::RecordScale CodeTileEmitter::scaleOfRecord(const BlockPanels &panels, Value largest) {
  Type f32 = b.getF32Type();
  CodeNumbers numbers = numbersOf(panels, config.byteDot);
  Value pattern = vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXSI, largest);
  Value magnitude = arith::BitcastOp::create(b, loc, f32, pattern);
  // Below 1e-35 the quotient would overflow: such a block is zero.
  Value isTiny = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, magnitude, floatConstant(1e-35, f32, 1));
  Value highest = floatConstant(127.0, f32, 1), zero = floatConstant(0.0, f32, 1);
  Value inverse = arith::SelectOp::create(b, loc, isTiny, zero, arith::DivFOp::create(b, loc, highest, magnitude));
  Value scale = arith::SelectOp::create(b, loc, isTiny, zero, arith::DivFOp::create(b, loc, magnitude, highest));
  scale = arith::MulFOp::create(b, loc, scale, floatConstant(scaleFactor(panels) / numbers.multiplier, f32, 1));
  return {inverse, scale};
}

/// The record of a step's numbers, vectors of f32.
void CodeTileEmitter::writeRecord(const BlockPanels &panels, ArrayRef<Value> values, RecordScale scale, Value record) {
  int64_t lanes = config.lanes, vectors = kStep / lanes;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  auto sumType = VectorType::get({lanes}, i32);
  CodeNumbers numbers = numbersOf(panels, config.byteDot);
  auto integers = [&](int64_t value) {
    return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)), lanes);
  };
  // 1.5 * 2^23 has units in its last place: what is added is rounded to an integer, ties to even, in the low bits.
  constexpr int64_t rounderBits = 0x4B400000;
  SmallVector<Value> codes;
  for (Value value : values) {
    Value rounded =
        vector::FMAOp::create(b, loc, value, splat(scale.inverse, lanes), floatConstant(12582912.0, f32, lanes));
    codes.push_back(
        arith::SubIOp::create(b, loc, vector::BitCastOp::create(b, loc, sumType, rounded), integers(rounderBits)));
  }
  int64_t blocks = blocksOfStep(panels);
  for (int64_t block = 0; block < blocks; ++block) {
    Value sum;
    for (int64_t v = block * vectors / blocks; v < (block + 1) * vectors / blocks; ++v)
      sum = sum ? arith::AddIOp::create(b, loc, sum, codes[v]).getResult() : codes[v];
    Value start = vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, sum);
    if (panels.hasMinima)
      start = arith::SIToFPOp::create(b, loc, f32, start);
    else
      start =
          arith::MulIOp::create(b, loc, start, arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(-numbers.offset)));
    LLVM::StoreOp::create(b, loc, start, offsetPointer(record, constant(4 * block), i8), 4);
  }
  LLVM::StoreOp::create(b, loc, scale.scale, offsetPointer(record, constant(4 * blocks), i8), 4);
  for (int64_t v = 0; v < vectors; ++v) {
    Value narrow = arith::TruncIOp::create(b, loc, vectorOf(i8, lanes), codes[v]);
    storeAt(narrow, record, constant(4 * blocks + 4 + v * lanes), i8, lanes);
  }
}

void CodeTileEmitter::quantizeRow(nn::QuantizeOp activations, const BlockPanels &panels, const RowScope &row,
                                  Value records) {
  int64_t lanes = config.lanes, vectors = kStep / lanes, group = stepsOfScale(activations);
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  auto sumType = VectorType::get({lanes}, i32);

  currentRow = &row;
  auto savedBound = bound;
  prepareRow(row, {activations.getInput()});
  auto input = [&](Value k, int64_t width) {
    Indices at;
    for (Value prefix : row.prefix)
      at.push_back({prefix});
    at.push_back({k, true});
    return evaluate(activations.getInput(), at, width);
  };

  auto writeStep = [&](Value step, ArrayRef<Value> values, RecordScale scale) {
    writeRecord(panels, values, scale, offsetPointer(records, mul(step, constant(recordBytes(panels))), i8));
  };
  auto larger = [&](Value a, Value other) -> Value { return arith::MaxSIOp::create(b, loc, a, other); };

  if (group == 1) {
    forLoop(constant(0), constant(panels.depth / kStep), constant(1), [&](Value step) {
      SmallVector<Value> values;
      for (int64_t v = 0; v < vectors; ++v)
        values.push_back(input(add(mul(step, constant(kStep)), constant(v * lanes)), lanes));
      Value largest = magnitudes(values.front());
      for (Value value : ArrayRef(values).drop_front())
        largest = larger(largest, magnitudes(value));
      writeStep(step, values, scaleOfRecord(panels, largest));
    });
  }
  // Steps that share a scale, or the last one if it is not whole, lie in a buffer first. What is beyond the last
  // feature is zero.
  int64_t firstBuffered = group == 1 ? panels.depth / kStep : 0, bufferDepth = group * kStep;
  if (firstBuffered < panels.steps()) {
    Value buffer = scratch(bufferDepth * 4), depth = constant(panels.depth), width = constant(lanes);
    forLoop(constant(firstBuffered), constant(panels.steps()), constant(group), [&](Value begin) {
      Value k = mul(begin, constant(kStep)), count = max(min(sub(depth, k), constant(bufferDepth)), constant(0));
      Value vectorCount = mul(div(count, width), width);
      Value zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(sumType));
      SmallVector<Value> largest = forLoop(constant(0), vectorCount, width, zeros, [&](Value at, ValueRange running) {
        Value value = input(add(k, at), lanes);
        storeAt(value, buffer, at, f32, lanes);
        return SmallVector<Value>{larger(running[0], magnitudes(value))};
      });
      if (panels.depth % bufferDepth != 0) {
        // The last vector of numbers may be a part of one.
        forLoop(vectorCount, constant(bufferDepth), width,
                [&](Value at) { storeAt(floatConstant(0.0, f32, lanes), buffer, at, f32, lanes); });
        forLoop(vectorCount, count, constant(1), [&](Value at) { storeAt(input(add(k, at), 1), buffer, at, f32, 1); });
        largest = forLoop(vectorCount, constant(bufferDepth), width, largest, [&](Value at, ValueRange running) {
          return SmallVector<Value>{larger(running[0], magnitudes(loadAt(buffer, at, f32, lanes)))};
        });
      }
      RecordScale scale = scaleOfRecord(panels, largest[0]);
      forLoop(constant(0), min(constant(group), sub(constant(panels.steps()), begin)), constant(1), [&](Value step) {
        SmallVector<Value> values;
        for (int64_t v = 0; v < vectors; ++v)
          values.push_back(loadAt(buffer, add(mul(step, constant(kStep)), constant(v * lanes)), f32, lanes));
        writeStep(add(begin, step), values, scale);
      });
    });
  }
  bound = savedBound;
  currentRow = nullptr;
}

} // namespace intarsia::cpu
