//===- MatrixSums.cpp - Sums of matrix multiplications on their way to memory -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/MatrixEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

/// Floats between the rows of sums in shared memory more than they have: rows begin in different banks.
static constexpr int64_t sumsPadding = 4;

/// Stores a lane's sums of a fragment to rows of floats.
void MatrixEmitter::storeFragment(ArrayRef<Value> sums, Value pointer, int64_t stride) {
  Type f32 = b.getF32Type();
  if (hasScalarSums()) {
    Value row = div(function.lane, constant(4)), column = mul(rem(function.lane, constant(4)), constant(2));
    Value ofLane = add(mul(row, constant(stride)), column);
    for (int64_t i = 0; i != 8; i += 2) {
      Value pair = make<vector::FromElementsOp>(VectorType::get({2}, f32), sums.slice(i, 2));
      Value at = add(ofLane, constant((i % 4 / 2) * 8 * stride + (i / 4) * 8));
      make<LLVM::StoreOp>(pair, memory.at(pointer, at, f32), 8);
    }
    return;
  }
  int64_t ofLane = cast<VectorType>(sums[0].getType()).getDimSize(0);
  Value group = div(function.lane, constant(fragmentRows)), column = rem(function.lane, constant(fragmentRows));
  bool alternates = instruction.family == MatrixFamily::WmmaRdna3;
  Value firstRow = alternates ? group : mul(group, constant(ofLane));
  Value begin = add(mul(firstRow, constant(stride)), column);
  for (int64_t i = 0; i != ofLane; ++i)
    make<LLVM::StoreOp>(make<vector::ExtractOp>(sums[0], i),
                        memory.at(pointer, add(begin, constant(i * (alternates ? 2 : 1) * stride)), f32), 4);
}

int64_t MatrixEmitter::windowBytes(int64_t rows, int64_t columns) { return rows * (columns + sumsPadding) * 4; }

LogicalResult MatrixEmitter::storeSums(const MatrixTiles &tiles, ArrayRef<Value> sums, Value firstRow,
                                       Value firstColumn, Value rows, Value columns, StoreFn store,
                                       std::optional<SumsWindow> window) {
  if (!window) {
    // As many rows at a time as the memory of the tiles has space for.
    int64_t slab = isWarpgroup() ? fragmentRows : tiles.warpRows;
    auto bytes = [&] { return windowBytes(slab, tiles.warpColumns); };
    while (slab > fragmentRows && bytes() * tiles.warps() > sharedBytesOf(tiles))
      slab /= 2;
    assert(bytes() * tiles.warps() <= sharedBytesOf(tiles) && "tiles are at least as large as rows of sums");
    function.emitBlockBarrier();
    window = {memory.at(shared, mul(function.warp, constant(bytes())), b.getI8Type()), slab, tiles.warpColumns};
  }
  int64_t stride = window->columns + sumsPadding, fragments = tiles.warpColumns / fragmentRows;
  Type f32 = b.getF32Type();
  Value columnOfWarp = add(firstColumn, columnOfFragment(tiles, 0));
  int64_t width = isMultipleOf(columns, 4) ? 4 : isMultipleOf(columns, 2) ? 2 : 1;
  int64_t vectorsOfRow = window->columns / width;
  for (int64_t begin = 0; begin != tiles.warpRows; begin += window->rows)
    for (int64_t left = 0; left != tiles.warpColumns; left += window->columns) {
      if (begin != 0 || left != 0)
        function.emitWarpBarrier();
      for (int64_t i = 0; i != window->rows / fragmentRows; ++i)
        for (int64_t j = 0; j != window->columns / fragmentRows; ++j) {
          int64_t tile = (begin / fragmentRows + i) * fragments + left / fragmentRows + j;
          storeFragment(sums.slice(tile * valuesOfTile(), valuesOfTile()),
                        memory.at(window->pointer, constant((i * stride + j) * fragmentRows), f32), stride);
        }
      function.emitWarpBarrier();
      Value firstOfRows = add(columnOfWarp, constant(left));
      LogicalResult stored = forLoop(
          function.lane, constant(window->rows * vectorsOfRow), constant(architecture.warpSize), [&](Value number) {
            Value rowOfSlab = div(number, constant(vectorsOfRow));
            Value columnOfSlab = mul(rem(number, constant(vectorsOfRow)), constant(width));
            Value row = add(add(firstRow, rowOfFragment(tiles, begin / fragmentRows)), rowOfSlab),
                  column = add(firstOfRows, columnOfSlab);
            Value isInside = make<arith::AndIOp>(less(row, rows), less(column, columns));
            return ifThen(isInside, [&] {
              Value first = add(mul(rowOfSlab, constant(stride)), columnOfSlab);
              SumsFn read = [&](Value at, int64_t count) -> Value {
                Value pointer = memory.at(window->pointer, at == column ? first : add(first, sub(at, column)), f32);
                return make<LLVM::LoadOp>(vectorOf(f32, count), pointer, count == width ? 4 * width : 4);
              };
              return store(row, column, width, read);
            });
          });
      if (failed(stored))
        return failure();
    }
  return success();
}

} // namespace intarsia::gpu
