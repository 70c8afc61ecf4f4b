//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Norms of vectors: sums of a core's elements, added along the axis of the vector over a tree.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/ProgramBuilder.h"

using namespace mlir;

namespace intarsia::wafer {

LogicalResult lowerNorm(ProgramBuilder &b, DistNormOp op) {
  FailureOr<ProgramBuilder::Vector> x = b.vector(op.getX(), Axis::Y);
  if (failed(x))
    return failure();
  auto aligned = [&](Value value) -> FailureOr<Value> {
    FailureOr<ProgramBuilder::Vector> vector = b.vector(value, x->axis);
    if (failed(vector))
      return failure();
    if (vector->axis != x->axis)
      return op.emitOpError() << "has one input that is split along " << stringifyAxis(x->axis) << " and one along "
                              << stringifyAxis(vector->axis) << "; products exchange the axes";
    return vector->buffer;
  };
  FailureOr<Value> scale = aligned(op.getScale()),
                   bias = op.getBias() ? aligned(op.getBias()) : FailureOr<Value>(Value());
  if (failed(scale) || failed(bias))
    return failure();
  int64_t size = op.getResult().getType().getDimSize(1), tile = cast<MemRefType>(x->buffer.getType()).getDimSize(1);
  if (!x->hasZeros && tile * b.grid != size)
    return op.emitOpError()
           << "follows an exp of a vector that fills no whole tiles, so that sums would count what lies "
              "beyond it; take a size that the grid divides";
  Type f32 = b.builder.getF32Type();
  Value result = b.buffer("norm", 1, tile, f32), sum = b.buffer("sum", 1, 1, f32);
  b.compute(Arithmetic::Copy, {result, x->buffer});
  if (op.getNorm() == Norm::Layer) {
    Value mean = b.buffer("mean", 1, 1, f32);
    b.compute(Arithmetic::Sum, {sum, result});
    addOverTree(b, x->axis, sum);
    b.compute(Arithmetic::Affine, {mean, sum}, -1.0 / double(size), 0);
    b.compute(Arithmetic::Shift, {result, mean});
    b.compute(Arithmetic::SumSquares, {sum, result});
    addOverTree(b, x->axis, sum);
    // The elements beyond the vector were 0, and are minus the mean now: their squares do not count.
    if (int64_t padding = tile * b.grid - size; padding > 0) {
      Value squares = b.buffer("squares", 1, 1, f32);
      b.compute(Arithmetic::SumSquares, {squares, mean});
      b.compute(Arithmetic::Affine, {mean, squares}, -double(padding), 0);
      b.compute(Arithmetic::Add, {sum, mean});
    }
  } else {
    b.compute(Arithmetic::SumSquares, {sum, result});
    addOverTree(b, x->axis, sum);
  }
  Value factor = b.buffer("factor", 1, 1, f32);
  b.compute(Arithmetic::Rsqrt, {factor, sum}, 1.0 / double(size), op.getEpsilon().convertToDouble());
  b.compute(Arithmetic::Scale, {result, factor});
  b.compute(Arithmetic::Multiply, {result, *scale});
  if (*bias)
    b.compute(Arithmetic::Add, {result, *bias});
  b.define(op.getResult(), {result, x->axis});
  return success();
}

} // namespace intarsia::wafer
