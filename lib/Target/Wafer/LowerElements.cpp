//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Functions of elements, and norms of rows: sums of a core's elements, added along the axis of a row over a tree.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/ProgramBuilder.h"

using namespace mlir;

namespace intarsia::wafer {
namespace {

using Elements = ProgramBuilder::Elements;

/// Returns where the inputs of an op lie, which must be alike. What no op gives is loaded as another input lies, or as
/// a matrix product or a product of a vector would give it.
FailureOr<SmallVector<Elements>> alignedInputs(ProgramBuilder &b, Operation *op) {
  bool isVector = cast<RankedTensorType>(op->getResult(0).getType()).getDimSize(0) == 1;
  TilesAttr tiles = isVector ? b.tiles(Axis::None, Axis::Y) : b.tiles(Axis::Y, Axis::X, /*ring=*/true);
  for (Value input : op->getOperands())
    if (input.getDefiningOp()) {
      FailureOr<Elements> known = b.elements(input, tiles);
      if (failed(known))
        return failure();
      tiles = known->tiles;
      break;
    }
  SmallVector<Elements> inputs;
  for (Value input : op->getOperands()) {
    FailureOr<Elements> elements = b.elements(input, tiles);
    if (failed(elements))
      return failure();
    if (!inputs.empty() && elements->tiles.getColumns() != inputs[0].tiles.getColumns())
      return op->emitOpError() << "has one input that is split along " << stringifyAxis(inputs[0].tiles.getColumns())
                               << " and one along " << stringifyAxis(elements->tiles.getColumns())
                               << "; products exchange the axes";
    if (!inputs.empty() && elements->tiles != inputs[0].tiles)
      return op->emitOpError() << "has inputs whose tiles lie on the cores in different orders: " << inputs[0].tiles
                               << " and " << elements->tiles << "; take the same algorithm for both products";
    inputs.push_back(*elements);
  }
  return inputs;
}

} // namespace

LogicalResult lowerMap(ProgramBuilder &b, DistMapOp op) {
  FailureOr<SmallVector<Elements>> inputs = alignedInputs(b, op);
  if (failed(inputs))
    return failure();
  const Elements &first = inputs->front();
  auto type = cast<MemRefType>(first.buffer.getType());
  Value result = b.buffer("z", type.getDimSize(0), type.getDimSize(1), type.getElementType());
  bool hasZeros = op.getFunction() != Arithmetic::Exp;
  for (const Elements &input : *inputs)
    hasZeros &= input.hasZeros;
  if (inputs->size() == 1) {
    b.compute(op.getFunction(), {result, first.buffer});
  } else {
    b.compute(Arithmetic::Copy, {result, first.buffer});
    b.compute(op.getFunction(), {result, inputs->back().buffer});
  }
  b.define(op.getResult(), Elements{result, first.tiles, hasZeros});
  return success();
}

LogicalResult lowerNorm(ProgramBuilder &b, DistNormOp op) {
  FailureOr<SmallVector<Elements>> inputs = alignedInputs(b, op);
  if (failed(inputs))
    return failure();
  const Elements &x = inputs->front();
  auto type = cast<MemRefType>(x.buffer.getType());
  int64_t size = op.getResult().getType().getDimSize(1), rows = type.getDimSize(0), tile = type.getDimSize(1);
  if (!x.hasZeros && tile * b.grid != size)
    return op.emitOpError()
           << "follows an exp of a vector that fills no whole tiles, so that sums would count what lies "
              "beyond it; take a size that the grid divides";
  Axis axis = x.tiles.getColumns();
  Type f32 = b.builder.getF32Type();
  Value result = b.buffer("norm", rows, tile, f32), sum = b.buffer("sum", rows, 1, f32);
  b.compute(Arithmetic::Copy, {result, x.buffer});
  if (op.getNorm() == Norm::Layer) {
    Value mean = b.buffer("mean", rows, 1, f32);
    b.compute(Arithmetic::Sum, {sum, result});
    combineOverTree(b, axis, sum);
    b.compute(Arithmetic::Affine, {mean, sum}, -1.0 / double(size), 0);
    b.compute(Arithmetic::Shift, {result, mean});
    b.compute(Arithmetic::SumSquares, {sum, result});
    combineOverTree(b, axis, sum);
    // The elements beyond the vector were 0, and are minus the mean now: their squares do not count.
    if (int64_t padding = tile * b.grid - size; padding > 0) {
      Value squares = b.buffer("squares", rows, 1, f32);
      b.compute(Arithmetic::SumSquares, {squares, mean});
      b.compute(Arithmetic::Affine, {mean, squares}, -double(padding), 0);
      b.compute(Arithmetic::Add, {sum, mean});
    }
  } else {
    b.compute(Arithmetic::SumSquares, {sum, result});
    combineOverTree(b, axis, sum);
  }
  Value factor = b.buffer("factor", rows, 1, f32);
  b.compute(Arithmetic::Rsqrt, {factor, sum}, 1.0 / double(size), op.getEpsilon().convertToDouble());
  b.compute(Arithmetic::Scale, {result, factor});
  b.compute(Arithmetic::Multiply, {result, (*inputs)[1].buffer});
  if (op.getBias())
    b.compute(Arithmetic::Add, {result, (*inputs)[2].buffer});
  b.define(op.getResult(), Elements{result, x.tiles});
  return success();
}

} // namespace intarsia::wafer
