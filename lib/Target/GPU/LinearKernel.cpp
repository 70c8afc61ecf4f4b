//===- LinearKernel.cpp - Matmuls in f32 by threads of GPUs -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/LinearResults.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
// The tile of a block, and of each of its threads: 16 x 16 threads compute 4 x 4 sums each.
constexpr int64_t tileRows = 64, tileColumns = 64, tileDepth = 16;
constexpr int64_t threadRows = 4, threadColumns = 4;
constexpr int64_t threadsInRow = tileColumns / threadColumns;
constexpr int64_t threadsOfBlock = (tileRows / threadRows) * threadsInRow;
/// Elements between the rows of a tile in shared memory: threads that store a column of it use different banks.
constexpr int64_t sharedRow = tileRows + 4;

/// A linear in f32, and the elementwise ops behind it. A block multiplies a tile of rows by a tile of features through
/// shared memory; sums are in registers, in the order of k.
class LinearKernel final : public LinearResults<FunctionEmitter> {
public:
  LinearKernel(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture, bool leavesFewRows)
      : LinearResults(root, kernel, architecture), leavesFewRows(leavesFewRows) {}

private:
  LogicalResult run() override;
  /// Copies a tile of a matrix, whose element [m, k] is `element(m, k)`, to shared memory, transposed.
  LogicalResult copyTile(Value shared, Value firstRow, Value rows, Value firstK, Value depth,
                         function_ref<Element(Value row, Value k)> element);
  FailureOr<SmallVector<Value>> multiply(Value firstRow, Value firstColumn);
  LogicalResult storeSums(ArrayRef<Value> sums, Value firstRow, Value firstColumn);

  bool leavesFewRows; ///< another function computes them
  Value left, right;  ///< tiles in shared memory, [k, row]
};
} // namespace

Emitter makeLinearKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture, bool leavesFewRows) {
  return std::make_unique<LinearKernel>(kernel, cast<nn::LinearOp>(root), architecture, leavesFewRows);
}

LogicalResult LinearKernel::run() {
  ArrayRef<AffineExpr> extents = sizes.of(root.getResult());
  AffineExpr rowTiles = productExpression(extents.drop_back()).ceilDiv(tileRows);
  AffineExpr columnTiles = extents.back().ceilDiv(tileColumns);
  AffineExpr one = getAffineConstantExpr(1, b.getContext());
  AffineExpr isUsed = leavesFewRows ? one - isAtMost(rowsOfLinear(), mostOfFewRows) : one;
  beginLaunch(threadsOfBlock, rowTiles * columnTiles * isUsed);
  AffineExpr tileBytes = getAffineConstantExpr(tileDepth * sharedRow * 4, b.getContext());
  left = sharedMemory(tileBytes);
  right = sharedMemory(tileBytes);
  Value firstRow = mul(div(block, size(columnTiles)), constant(tileRows));
  Value firstColumn = mul(rem(block, size(columnTiles)), constant(tileColumns));
  FailureOr<SmallVector<Value>> sums = alone([&] { return multiply(firstRow, firstColumn); });
  if (failed(sums) || failed(alone([&] { return storeSums(*sums, firstRow, firstColumn); })))
    return failure();
  endLaunch();
  return success();
}

LogicalResult LinearKernel::copyTile(Value shared, Value firstRow, Value rows, Value firstK, Value depth,
                                     function_ref<Element(Value row, Value k)> element) {
  Type f32 = b.getF32Type();
  for (int64_t part = 0; part != tileRows * tileDepth / threadsOfBlock; ++part) {
    Value number = add(thread, constant(part * threadsOfBlock));
    Value m = div(number, constant(tileDepth)), step = rem(number, constant(tileDepth));
    Value row = add(firstRow, m), k = add(firstK, step);
    Value isInside = arith::AndIOp::create(b, loc, less(row, rows), less(k, depth));
    Element value =
        choose(isInside, f32, [&] { return element(row, k); }, [&] { return Element(floatConstant(0.0, f32, 1)); });
    if (failed(value))
      return failure();
    storeAt(*value, shared, add(mul(step, constant(sharedRow)), m), f32, 1);
  }
  return success();
}

FailureOr<SmallVector<Value>> LinearKernel::multiply(Value firstRow, Value firstColumn) {
  Type f32 = b.getF32Type();
  ArrayRef<AffineExpr> extents = sizes.of(root.getResult());
  Value rows = product(extents.drop_back()), columns = size(extents.back());
  Value depth = size(sizes.of(root.getInput()).back());
  Value threadRow = mul(div(thread, constant(threadsInRow)), constant(threadRows));
  Value threadColumn = mul(rem(thread, constant(threadsInRow)), constant(threadColumns));
  SmallVector<Value> zeros(threadRows * threadColumns, floatConstant(0.0, f32, 1));
  using Next = FailureOr<SmallVector<Value>>;
  return forLoop(constant(0), depth, constant(tileDepth), zeros, [&](Value k, ValueRange running) -> Next {
    emitBlockBarrier();
    auto input = [&](Value row, Value at) { return evaluate(root.getInput(), indicesAt(root.getInput(), row, at), 1); };
    auto weight = [&](Value feature, Value at) { return evaluate(root.getWeight(), {Index{feature}, {at, true}}, 1); };
    if (failed(copyTile(left, firstRow, rows, k, depth, input)) ||
        failed(copyTile(right, firstColumn, columns, k, depth, weight)))
      return failure();
    emitBlockBarrier();
    SmallVector<Value> sums(running);
    for (int64_t step = 0; step != tileDepth; ++step) {
      SmallVector<Value> a, c;
      for (int64_t i = 0; i != threadRows; ++i)
        a.push_back(loadAt(left, add(threadRow, constant(step * sharedRow + i)), f32, 1));
      for (int64_t j = 0; j != threadColumns; ++j)
        c.push_back(loadAt(right, add(threadColumn, constant(step * sharedRow + j)), f32, 1));
      for (int64_t i = 0; i != threadRows; ++i)
        for (int64_t j = 0; j != threadColumns; ++j) {
          Value &sum = sums[i * threadColumns + j];
          sum = math::FmaOp::create(b, loc, a[i], c[j], sum);
        }
    }
    return sums;
  });
}

LogicalResult LinearKernel::storeSums(ArrayRef<Value> sums, Value firstRow, Value firstColumn) {
  ArrayRef<AffineExpr> extents = sizes.of(root.getResult());
  Value rows = product(extents.drop_back()), columns = size(extents.back());
  Value threadRow = add(firstRow, mul(div(thread, constant(threadsInRow)), constant(threadRows)));
  Value threadColumn = add(firstColumn, mul(rem(thread, constant(threadsInRow)), constant(threadColumns)));
  for (int64_t i = 0; i != threadRows; ++i)
    for (int64_t j = 0; j != threadColumns; ++j) {
      Value row = add(threadRow, constant(i)), column = add(threadColumn, constant(j));
      Value isInside = arith::AndIOp::create(b, loc, less(row, rows), less(column, columns));
      LogicalResult stored = ifThen(isInside, [&] {
        Value sum = sums[i * threadColumns + j];
        return storeResults(row, column, 1, [sum](Value, int64_t) { return sum; });
      });
      if (failed(stored))
        return failure();
    }
  return success();
}

} // namespace intarsia::gpu
