//===- ConvInCall.cpp - Convolutions by weights whose shapes the call decides -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn.conv needs to know the windows and channels. Models whose weights are inputs of the call and have sizes of it are
// rare, and sums over all that a window reads are enough for them.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/Positions.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {

Value convInCall(NodeContext &node, Value images, Value weight, const Size &groups, const importer::Windows &windows,
                 const Shape &positions) {
  DataType type = node.typeOf(0);
  images = node.cast(images, type, DataType::Float);
  weight = node.cast(weight, type, DataType::Float);
  Shape ofImages = node.graph.shapeOf(node.at, images), ofWeight = node.graph.shapeOf(node.at, weight);
  size_t rank = positions.size();
  bool isTransposed = windows.isTransposed;
  // Channels of a group: [batch, groups, channels, spatial…], and a weight [groups, outputs, channels, window…], or of
  // a transposed convolution [groups, channels, outputs, window…]. The reshapes hold a call to them.
  Size divided = node.compute(SizeOp::Divide, ofWeight[0], groups);
  Size channels = isTransposed ? divided : ofWeight[1], outputs = isTransposed ? ofWeight[1] : divided;
  Shape split{ofImages[0], groups, channels}, splitWeight{groups, divided, ofWeight[1]};
  split.append(ofImages.begin() + 2, ofImages.end());
  splitWeight.append(ofWeight.begin() + 2, ofWeight.end());
  images = node.reshaped(images, split);
  weight = node.reshaped(weight, splitWeight);
  // Loops: batch, groups, outputs, positions…, channels, window….
  Shape result{ofImages[0], groups, outputs}, loops;
  result.append(positions);
  loops = result;
  loops.push_back(channels);
  loops.append(ofWeight.begin() + 2, ofWeight.end());
  auto kept = llvm::to_vector<4>(llvm::seq<unsigned>(0, 3 + rank));
  unsigned channel = 3 + rank;
  importer::Operand taps{weight, {1, isTransposed ? channel : 2, isTransposed ? 2 : channel}};
  for (unsigned dimension = 0; dimension < rank; ++dimension)
    taps.dims.push_back(channel + 1 + dimension);
  llvm::SmallVector<OpFoldResult> sizes;
  for (const Size &size : llvm::ArrayRef(ofImages).drop_front(2))
    sizes.push_back(node.ir().size(size));
  Value sums = node.ir().reduce(
      node.at, node.ops().getF32FloatAttr(0), loops, kept, {taps},
      [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        auto dim = [&](unsigned dimension) -> Value { return linalg::IndexOp::create(b, at, dimension); };
        auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, at, value); };
        llvm::SmallVector<Value> position{dim(0), dim(1), dim(channel)};
        Value isRead;
        auto need = [&](Value condition) {
          isRead = isRead ? Value(arith::AndIOp::create(b, at, isRead, condition)) : condition;
        };
        for (size_t dimension = 0; dimension < rank; ++dimension) {
          Value stride = constant(windows.strides[dimension]), low = constant(windows.padsLow[dimension]);
          Value reach =
              arith::MulIOp::create(b, at, dim(channel + 1 + dimension), constant(windows.dilations[dimension]));
          Value place = dim(3 + dimension);
          if (isTransposed) {
            // An element of the image is spread over the positions from its stride on.
            place = arith::SubIOp::create(b, at, arith::AddIOp::create(b, at, place, low), reach);
            Value rest = arith::RemSIOp::create(b, at, place, stride);
            need(arith::CmpIOp::create(b, at, arith::CmpIPredicate::eq, rest, constant(0)));
            need(arith::CmpIOp::create(b, at, arith::CmpIPredicate::sge, place, constant(0)));
            place = arith::DivSIOp::create(b, at, place, stride);
          } else {
            place = arith::AddIOp::create(b, at, arith::MulIOp::create(b, at, place, stride), reach);
            place = arith::SubIOp::create(b, at, place, low);
          }
          need(isIn(b, at, place, sizes[dimension]));
          position.push_back(clampedTo(b, at, place, sizes[dimension]));
        }
        Value element = tensor::ExtractOp::create(b, at, images, position);
        Value product = arith::MulFOp::create(b, at, element, v[0]);
        product = arith::SelectOp::create(b, at, isRead, product, importer::floatConstant(b, at, b.getF32Type(), 0));
        return arith::AddFOp::create(b, at, v[1], product);
      });
  node.graph.setShape(sums, result);
  Shape whole{ofImages[0], isTransposed ? node.product({groups, outputs}) : ofWeight[0]};
  whole.append(positions);
  return node.cast(node.reshaped(sums, whole), DataType::Float, type);
}

} // namespace intarsia::onnx
