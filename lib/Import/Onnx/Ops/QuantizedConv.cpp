//===- QuantizedConv.cpp - Convolutions of quantized images -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Images and weights are integers of 8 bits minus zero points; what pads an image is its zero point. Sums have 32 bits,
// and are rounded once.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/ExactProducts.h"
#include "lib/Import/Onnx/Ops/Part.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Numbers of the inputs of a convolution.
struct Inputs {
  size_t images, imageZero, weight, weightZero;
};

/// Returns the sums as kernels of bytes compute them. Returns null if they do not, or if the node is refused.
Value sumsOfBytes(NodeContext &node, const ByteOperand &images, const ByteOperand &weight, int64_t depth) {
  Shape sizes = node.graph.shapeOf(node.at, images.tensor), shape = node.graph.shapeOf(node.at, weight.tensor);
  Shape spatial(sizes.begin() + 2, sizes.end());
  llvm::SmallVector<int64_t> window;
  for (const Size &size : llvm::ArrayRef(shape).drop_front(2))
    window.push_back(size.value);
  bool fits = sizes.size() <= 5 && !sizes[1].isDynamic() && sizes[1].value == shape[1].value &&
              node.integer("group", 1) == 1 && node.integers("kernel_shape").value_or(window) == window;
  auto windows = fits && !node.isRefused() ? windowsOf(node, window, spatial) : std::nullopt;
  if (!windows)
    return {};
  for (auto [number, size] : llvm::enumerate(spatial))
    if (!size.isDynamic() && size.value + windows->padsLow[number] + windows->padsHigh[number] <
                                 (window[number] - 1) * windows->dilations[number] + 1)
      return {};
  return exactConv(node, images, weight, depth, *windows);
}

/// Returns the sums of a convolution, [batch, channels, spatial…]; null if it is refused.
Value sumsOf(NodeContext &node, const Inputs &inputs, bool isChannelsLast) {
  ByteOperand images = byteOperand(node, inputs.images, inputs.imageZero);
  ByteOperand weight = byteOperand(node, inputs.weight, inputs.weightZero);
  if (node.isRefused())
    return {};
  Shape shape = node.graph.shapeOf(node.at, weight.tensor);
  if (shape.size() < 3 || tensorType(images.tensor).getRank() != int64_t(shape.size())) {
    node.refuse("images have " + llvm::Twine(tensorType(images.tensor).getRank()) + " dimensions and the weight " +
                llvm::Twine(shape.size()) + "; both need as many, 3 to 5");
    return {};
  }
  if (!isStatic(shape)) {
    node.refuse("the weight has sizes that the call decides, and they must be known to the compiler");
    return {};
  }
  if (images.zero)
    images.zero = oneNumber(node, inputs.imageZero, "x_zero_point");
  if (weight.zero)
    weight.zero = onePerIndex(node, inputs.weightZero, shape[0], shape.size() - 1, "w_zero_point");
  int64_t depth = 1;
  for (const Size &size : llvm::ArrayRef(shape).drop_front())
    if (llvm::MulOverflow(depth, size.value, depth))
      depth = std::numeric_limits<int64_t>::max();
  if (isChannelsLast)
    images.tensor = node.ir().channelsFirst(node.at, images.tensor);
  Value sums = sumsOfBytes(node, images, weight, depth);
  if (sums || node.isRefused())
    return sums;
  return exactSums(node, images, weight, SumOf::Rows, depth, [&](Value one, Value other) {
    return Part(node, "Conv")
        .with(one, DataType::Float)
        .with(other, DataType::Float)
        .keep({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"})
        .build();
  });
}

void convInteger(NodeContext &node) {
  if (Value sums = sumsOf(node, {0, 2, 1, 3}, /*isChannelsLast=*/false))
    node.result(0, sums, DataType::Int32);
}

/// Inputs: images, their scale and zero point, the weight and its, those of the result, and a bias of 32 bits.
void qLinearConv(NodeContext &node) {
  bool isChannelsLast = node.integer("channels_last", 0) != 0;
  DataType to = node.typeOf(7);
  if (!node.isOf(7, isByte, "int8 or uint8"))
    return;
  Value sums = sumsOf(node, {0, 2, 3, 5}, isChannelsLast);
  if (!sums)
    return;
  Shape shape = node.graph.shapeOf(node.at, sums);
  size_t behind = shape.size() - 2;
  for (size_t scale : {1, 4, 6})
    node.isOf(scale, isSingle, "float");
  Value ofImages = oneNumber(node, 1, "x_scale"), ofResult = oneNumber(node, 6, "y_scale");
  Value ofWeight = onePerIndex(node, 4, shape[1], behind, "w_scale"), zero = oneNumber(node, 7, "y_zero_point");
  Value bias;
  if (node.has(8)) {
    node.isOf(8, isInt32, "int32");
    bias = onePerIndex(node, 8, shape[1], behind, "B");
  }
  if (node.isRefused())
    return;
  Value result = requantized(node, sums, bias, factorOf(node, ofImages, ofWeight, ofResult), zero, to);
  if (node.isRefused())
    return;
  node.result(0, isChannelsLast ? node.ir().channelsLast(node.at, result) : result, to);
}

} // namespace

llvm::ArrayRef<OpRow> quantizedConvOps() {
  static const OpRow rows[] = {
      {"", "ConvInteger", 10, convInteger},
      {"", "QLinearConv", 10, qLinearConv},
      {"com.microsoft", "QLinearConv", 1, qLinearConv},
  };
  return rows;
}

} // namespace intarsia::onnx
