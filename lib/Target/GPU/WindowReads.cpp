//===- WindowReads.cpp - Windows of images as rows of a matrix --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/WindowReads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

Element WindowReads::elements(Value row, Value k, int64_t width) {
  int64_t channels = root.getInputChannels();
  if (width != 1 && channels % width != 0) {
    // They are of several positions.
    SmallVector<Value> single;
    for (int64_t lane = 0; lane < width; ++lane) {
      Element element = elements(row, add(k, constant(lane)), 1);
      if (failed(element))
        return failure();
      single.push_back(*element);
    }
    return make<vector::FromElementsOp>(VectorType::get({width}, single.front().getType()), single).getResult();
  }
  ArrayRef<AffineExpr> resultSizes = function.sizes.of(root.getResult());
  SmallVector<Value> at = function.delinearize(row, resultSizes.drop_back());
  Value position = div(k, constant(channels)), isInside;
  for (unsigned d = root.getSpatialRank(); d-- > 0;) {
    nn::WindowDimension window = root.getWindowDimension(d);
    Value tap = d == 0 ? position : rem(position, constant(window.window));
    position = div(position, constant(window.window));
    Value &index = at[d + 1];
    index = sub(add(mul(index, constant(window.stride)), mul(tap, constant(window.dilation))), constant(window.padLow));
    if (window.padLow == 0 && window.padHigh == 0)
      continue;
    Value size = function.sizeOf(root.getInput(), d + 1);
    Value isHere = make<arith::AndIOp>(less(constant(-1), index), less(index, size));
    isInside = isInside ? make<arith::AndIOp>(isInside, isHere).getResult() : isHere;
  }
  auto read = [&] {
    return tensors.evaluate(root.getInput(), kernel::indicesOf(at, rem(k, constant(channels))), width);
  };
  if (!isInside)
    return read();
  Type type = kernel::MemoryEmitter::computeType(getElementTypeOrSelf(root.getInput()));
  return tensors.choose(isInside, vectorOf(type, width), read,
                        [&]() -> Element { return floatConstant(0.0, type, width); });
}

} // namespace intarsia::gpu
