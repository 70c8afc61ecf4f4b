//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Attention over caches that stay in the memory of the cores: tokens are split along y, the features of each key head
// over some columns. Caches do not move but for one token of a row of cores; what travels is scores and sums. Source of
// the shift: WaferLLM (arXiv 2502.04563, §4.3).
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/ProgramBuilder.h"

using namespace mlir;

namespace intarsia::wafer {

static MemRefType coreType(Value buffer) { return cast<MemRefType>(buffer.getType()); }

/// Turns rows by their positions, if there are frequencies.
static LogicalResult rotate(ProgramBuilder &b, Value rows, Value positions, Value frequencies, double factor) {
  if (!frequencies)
    return success();
  FailureOr<ProgramBuilder::Elements> of = b.elements(positions, b.tiles(Axis::None, Axis::None));
  FailureOr<ProgramBuilder::Elements> by = b.elements(frequencies, b.tiles(Axis::None, Axis::X));
  if (failed(of) || failed(by))
    return failure();
  b.compute(Arithmetic::Rotate, {rows, of->buffer, by->buffer}, factor);
  return success();
}

LogicalResult lowerAttention(ProgramBuilder &b, DistAttentionOp op) {
  FailureOr<Value> query = b.load(op.getQuery(), "query", b.tiles(Axis::None, Axis::X));
  FailureOr<Value> keys = b.load(op.getKeys(), "keys", b.tiles(Axis::Y, Axis::X));
  FailureOr<Value> values = b.load(op.getValues(), "values", b.tiles(Axis::Y, Axis::X));
  FailureOr<ProgramBuilder::Elements> positions = b.elements(op.getPositions(), b.tiles(Axis::None, Axis::None));
  if (failed(query) || failed(keys) || failed(values) || failed(positions))
    return failure();
  int64_t rows = coreType(*query).getDimSize(0), slots = coreType(*keys).getDimSize(0);
  Type f32 = b.builder.getF32Type();
  if (failed(rotate(b, *query, op.getPositions(), op.getFrequencies(), 1)))
    return failure();
  Value scores = b.buffer("scores", rows, slots, f32);
  b.compute(Arithmetic::Zero, {scores});
  b.compute(Arithmetic::GemmTransposed, {scores, *query, *keys});
  addInGroups(b, Axis::X, scores, int64_t(op.getHeads()), int64_t(op.getColumns()));
  double scale = op.getScale().convertToDouble();
  if (auto cap = op.getSoftCap()) {
    b.compute(Arithmetic::Affine, {scores, scores}, scale / cap->convertToDouble(), 0);
    b.compute(Arithmetic::Tanh, {scores, scores});
    scale = cap->convertToDouble();
  }
  b.compute(Arithmetic::Affine, {scores, scores}, scale, 0);
  b.compute(Arithmetic::Mask, {scores, positions->buffer}, double(op.getWindow().value_or(0)));
  // The largest score is subtracted, so that no power overflows.
  Value largest = b.buffer("largest", rows, 1, f32), sum = b.buffer("sum", rows, 1, f32);
  b.compute(Arithmetic::Largest, {largest, scores});
  combineOverTree(b, Axis::Y, largest, Combine::Maximum);
  b.compute(Arithmetic::Affine, {largest, largest}, -1, 0);
  b.compute(Arithmetic::Shift, {scores, largest});
  b.compute(Arithmetic::Exp, {scores, scores});
  b.compute(Arithmetic::Sum, {sum, scores});
  combineOverTree(b, Axis::Y, sum);
  Value result = b.buffer("attention", rows, coreType(*values).getDimSize(1), f32);
  b.compute(Arithmetic::Zero, {result});
  b.compute(Arithmetic::Gemm, {result, scores, *values});
  combineOverTree(b, Axis::Y, result);
  b.compute(Arithmetic::Reciprocal, {sum, sum});
  b.compute(Arithmetic::Scale, {result, sum});
  b.define(op.getResult(), ProgramBuilder::Elements{result, b.tiles(Axis::None, Axis::X)});
  return success();
}

LogicalResult lowerAppend(ProgramBuilder &b, DistAppendOp op) {
  FailureOr<Value> cache = b.load(op.getCache(), "cache", b.tiles(Axis::Y, Axis::X));
  FailureOr<Value> row = b.load(op.getRow(), "row", b.tiles(Axis::None, Axis::X));
  if (failed(cache) || failed(row) ||
      failed(rotate(b, *row, op.getPositions(), op.getFrequencies(), op.getFactor().convertToDouble())))
    return failure();
  int64_t n = b.grid, features = coreType(*cache).getDimSize(1);
  Type element = coreType(*cache).getElementType();
  Value oldest = b.buffer("oldest", 1, features, element), arrived = b.buffer("arrived", 1, features, element);
  FlatSymbolRefAttr route = b.route("shift", Axis::Y, [&] {
    return SmallVector<ProgramBuilder::PathSpec>{{b.range(1, n), -1, 0, /*alternate=*/true}};
  });
  b.repeat(
      n, {},
      [&](ValueRange) -> SmallVector<Value> {
        // Iteration i: the last i rows of cores have one token more than the others.
        CoresAttr longer = b.cores(Axis::Y, b.range(n, n, 1, 1, -1, 0));
        CoresAttr before = b.cores(Axis::Y, b.range(n - 1, n - 1, 1, 1, -1, 0));
        b.compute(Arithmetic::Take, {oldest, *cache}, longer);
        b.send(oldest, route, longer);
        b.receive(arrived, route, before);
        b.await();
        b.compute(Arithmetic::Put, {*cache, arrived}, before);
        b.compute(Arithmetic::Put, {*cache, *row}, b.cores(Axis::Y, b.range(n - 1, n)));
        return {};
      },
      /*launches=*/true);
  b.define(op.getResult(), *cache, b.tiles(Axis::Y, Axis::X));
  return success();
}

} // namespace intarsia::wafer
