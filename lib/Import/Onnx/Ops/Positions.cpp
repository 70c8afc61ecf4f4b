//===- Positions.cpp - Elements that ops read at positions which they compute -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/Positions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {

Value repeatedInCall(NodeContext &node, Value tensor, const Shape &wanted) {
  Shape own = node.graph.shapeOf(node.at, tensor), shape = wanted;
  size_t offset = shape.size() - own.size();
  shape.erase(shape.begin(), shape.begin() + offset);
  llvm::SmallVector<bool> isRead(own.size(), false);
  llvm::SmallVector<OpFoldResult> sizes;
  for (auto [dimension, size] : llvm::enumerate(own)) {
    isRead[dimension] = size.isDynamic() && !node.graph.areEqual(size, shape[dimension]);
    sizes.push_back(node.ir().size(size));
    if (!size.isDynamic() && size.value == 1)
      shape[dimension] = 1;
  }
  if (llvm::none_of(isRead, [](bool read) { return read; }))
    return tensor;
  Value result = node.ir().elementwise(node.at, tensorType(tensor).getElementType(), shape, {},
                                       [&](OpBuilder &b, Location at, ValueRange) -> Value {
                                         llvm::SmallVector<Value> position = positionOf(b, at, shape.size());
                                         for (auto [index, size, read] : llvm::zip_equal(position, sizes, isRead))
                                           index = read ? clampedTo(b, at, index, size) : index;
                                         return tensor::ExtractOp::create(b, at, tensor, position);
                                       });
  node.graph.setShape(result, shape);
  return result;
}

Value paddedInCall(NodeContext &node, Value tensor, llvm::ArrayRef<Size> low, llvm::ArrayRef<Size> high,
                   nn::PadKind kind, TypedAttr value) {
  Shape own = node.graph.shapeOf(node.at, tensor), shape;
  llvm::SmallVector<OpFoldResult> begins, sizes;
  llvm::SmallVector<bool> isPadded;
  auto isZero = [](const Size &pad) { return !pad.isDynamic() && pad.value == 0; };
  for (auto [size, before, after] : llvm::zip_equal(own, low, high)) {
    isPadded.push_back(!isZero(before) || !isZero(after));
    shape.push_back(node.compute(SizeOp::Add, node.compute(SizeOp::Add, size, before), after));
    begins.push_back(node.ir().size(before));
    sizes.push_back(node.ir().size(size));
  }
  Value result = node.ir().elementwise(
      node.at, tensorType(tensor).getElementType(), shape, {}, [&](OpBuilder &b, Location at, ValueRange) -> Value {
        llvm::SmallVector<Value> position = positionOf(b, at, shape.size());
        Value isInside;
        for (auto [index, begin, size, padded] : llvm::zip_equal(position, begins, sizes, isPadded)) {
          // Others are read as they are, so that a call is held to their sizes.
          if (!padded)
            continue;
          index = arith::SubIOp::create(b, at, index, getValueOrCreateConstantIndexOp(b, at, begin));
          Value isHere = isIn(b, at, index, size);
          isInside = isInside ? Value(arith::AndIOp::create(b, at, isInside, isHere)) : isHere;
          index = clampedTo(b, at, index, size);
        }
        auto read = [&](OpBuilder &inner, Location loc) -> Value {
          return tensor::ExtractOp::create(inner, loc, tensor, position);
        };
        if (kind != nn::PadKind::Constant || !isInside)
          return read(b, at);
        Value outside = arith::ConstantOp::create(b, at, value);
        auto chosen = scf::IfOp::create(
            b, at, isInside,
            [&](OpBuilder &inner, Location loc) { scf::YieldOp::create(inner, loc, read(inner, loc)); },
            [&](OpBuilder &inner, Location loc) { scf::YieldOp::create(inner, loc, outside); });
        return chosen.getResult(0);
      });
  node.graph.setShape(result, shape);
  return result;
}

} // namespace intarsia::onnx
