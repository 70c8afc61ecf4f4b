//===- QuantizedProducts.cpp - Products of bytes with weights of the file -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of an input (q - z) * s and a weight w * t the product is s * sum(q * w * t) - s * z * t * sum(w), where the last
// term is known for each column of the weight. Kernels of bytes sum q * w exactly: q has a sign, as uint8 minus 128.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/QuantizedProducts.h"

#include "dialects/Nn/RowScales.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// A tensor of int8 in the file, whose scales are of output features.
struct Weight {
  const Tensor &values;
  const Tensor *scales; ///< null: all are 1
  int64_t axis;         ///< of output features
  int64_t outputs, depth;

  bool hasOneScale() const { return scales && scales->elements() == 1; }
  float scale(int64_t output) const {
    return llvm::bit_cast<float>(llvm::support::endian::read32le(scales->data + (hasOneScale() ? 0 : 4 * output)));
  }
  /// Returns the sum of the integers of each output feature.
  std::vector<int64_t> sums() const {
    int64_t inner = 1;
    for (size_t number = axis + 1; number < values.dims.size(); ++number)
      inner *= values.dims[number];
    std::vector<int64_t> result(outputs);
    for (int64_t at = 0, count = values.elements(); at < count; ++at)
      result[at / inner % outputs] += int8_t(values.data[at]);
    return result;
  }
};

/// Returns a tensor of the file as a weight, if kernels of bytes multiply it.
std::optional<Weight> weightOf(const Tensor &values, int64_t axis) {
  int64_t outputs = values.dims.size() < 2 ? 0 : values.dims[axis];
  if (values.type != DataType::Int8 || outputs < 1 || values.elements() < 1 ||
      values.bytes != uint64_t(values.elements()) || values.elements() / outputs > nn::mostFeaturesOfRowScale)
    return std::nullopt;
  return Weight{values, nullptr, axis, outputs, values.elements() / outputs};
}

/// Returns the weight that DequantizeLinear reads for an input, if kernels of bytes multiply it.
std::optional<Weight> weightOf(GraphValue &value, int64_t axis) {
  const StoredIntegers *stored = value.storedIntegers.get();
  std::optional<Weight> weight = stored ? weightOf(*stored->values, axis) : std::nullopt;
  if (!weight)
    return std::nullopt;
  const Tensor &scales = *stored->scales;
  int64_t rank = weight->values.dims.size();
  bool areOfOutputs = scales.elements() == weight->outputs && (stored->axis == axis || stored->axis + rank == axis);
  if ((scales.elements() != 1 && !areOfOutputs) || scales.bytes != uint64_t(4 * scales.elements()))
    return std::nullopt;
  weight->scales = &scales;
  return weight;
}

/// Returns a tensor as it lies in the file; null if the archive does not have it.
Value storedTensor(NodeContext &node, const Tensor &tensor, Type element) {
  auto found = node.graph.archive().find(tensor.key);
  if (!found)
    return {};
  llvm::SmallVector<int64_t> dims(tensor.dims.begin(), tensor.dims.end());
  return node.ir().rawWeight(node.at, *found, RankedTensorType::get(dims, element));
}

/// Returns the matrix of f32 that integers [outputs, depth] of a weight mean.
Value matrixOf(NodeContext &node, const Weight &weight, Value values) {
  importer::QuantizedParts parts;
  parts.values = values;
  if (weight.scales) {
    Value scales = storedTensor(node, *weight.scales, node.ops().getF32Type());
    if (!scales)
      return {};
    parts.scales = node.ir().reshape(node.at, scales, {weight.hasOneScale() ? 1 : weight.outputs, 1});
  }
  auto kept = nn::BlockFormatAttr::get(node.graph.context(), nn::BlockElement::I8, nn::BlockScale::F32, /*block=*/0,
                                       /*axis=*/1);
  auto format = nn::ArchiveFormatAttr::get(node.graph.context(), nn::ArchiveOrder::Rows, nn::BlockElement::I8,
                                           /*group=*/0, /*rows=*/weight.hasOneScale() ? 0 : 1, /*zero=*/0,
                                           /*inverse=*/false, FloatAttr(), FloatAttr(), kept);
  auto type = RankedTensorType::get({weight.outputs, weight.depth}, node.ops().getF32Type());
  return node.ir().dequantize(node.at, parts, type, format);
}

/// Returns whole numbers from -128 to 127 as what kernels of bytes multiply.
Value asBytes(NodeContext &node, Value integers) {
  RankedTensorType type = tensorType(integers);
  int64_t axis = type.getRank() - 1;
  auto format =
      nn::BlockFormatAttr::get(node.graph.context(), nn::BlockElement::I8, nn::BlockScale::F32, /*block=*/0, axis);
  llvm::SmallVector<int64_t> ofRows(type.getShape());
  ofRows.back() = 1;
  UnitAttr unit = node.ops().getUnitAttr();
  auto quantize = nn::QuantizeOp::create(node.ops(), node.at, type.clone(node.ops().getI8Type()),
                                         RankedTensorType::get(ofRows, node.ops().getF32Type()), /*zero_points=*/Type(),
                                         /*tensor_scale=*/Type(), integers, /*channels=*/Value(), /*factors=*/Value(),
                                         format, /*wide_blocks=*/IntegerAttr(), unit);
  quantize->setAttr(nn::replacesInputAttr, unit);
  return nn::DequantizeOp::create(node.ops(), node.at, type, quantize.getQuantized(), quantize.getScales(),
                                  /*zero_points=*/Value(), /*tensor_scale=*/Value(), /*group_indices=*/Value(),
                                  /*codebook=*/Value(), format);
}

/// Returns the product of whole numbers [batch…, m, k] from -128 to 127 and a matrix; null if there is none.
Value multiplied(NodeContext &node, Value integers, const Weight &weight) {
  Shape shape = node.graph.shapeOf(node.at, integers);
  if (weight.values.dims.size() != 2 || shape.empty() || shape.back().isDynamic() || shape.back().value != weight.depth)
    return {};
  Value values = storedTensor(node, weight.values, node.ops().getI8Type());
  if (!values)
    return {};
  Value matrix = matrixOf(node, weight, weight.axis == 0 ? values : node.ir().permute(node.at, values, {1, 0}));
  if (!matrix)
    return {};
  Value sums = node.ir().linear(node.at, asBytes(node, integers), matrix, /*bias=*/{});
  shape.back() = weight.outputs;
  node.graph.setShape(sums, shape);
  return sums;
}

/// Returns the convolution of images [batch, channels, spatial…] of whole numbers from -128 to 127, around which there
/// is `zero`, with its channels last; null if there is none.
Value convolved(NodeContext &node, Value images, const Weight &weight, const importer::Windows &windows, int64_t zero) {
  if (windows.groups != 1 || windows.isTransposed)
    return {};
  Value values = storedTensor(node, weight.values, node.ops().getI8Type());
  Value matrix = values ? matrixOf(node, weight, node.ir().convWeight(node.at, values)) : Value();
  if (!matrix)
    return {};
  Value last = node.ir().channelsLast(node.at, images);
  importer::Windows inside = windows;
  auto isPad = [](int64_t pad) { return pad != 0; };
  if (zero != 0 && (llvm::any_of(windows.padsLow, isPad) || llvm::any_of(windows.padsHigh, isPad))) {
    Shape shape = node.graph.shapeOf(node.at, last);
    llvm::SmallVector<int64_t> low{0}, high{0};
    low.append(windows.padsLow.begin(), windows.padsLow.end());
    high.append(windows.padsHigh.begin(), windows.padsHigh.end());
    low.push_back(0);
    high.push_back(0);
    for (auto [number, size] : llvm::enumerate(shape))
      size = node.compute(importer::SizeOp::Add, size, low[number] + high[number]);
    if (isTooLarge(shape))
      return {};
    last = nn::PadOp::create(node.ops(), node.at, node.ir().tensorType(shape, node.ops().getF32Type()), last,
                             nn::PadKind::Constant, low, high, node.ops().getF32FloatAttr(float(zero)));
    node.graph.setShape(last, shape);
    inside.padsLow.assign(windows.padsLow.size(), 0);
    inside.padsHigh.assign(windows.padsHigh.size(), 0);
  }
  return node.ir().conv(node.at, asBytes(node, last), matrix, /*bias=*/{}, inside);
}

/// Returns numbers for output features as a constant.
Value ofOutputs(NodeContext &node, llvm::ArrayRef<float> numbers) {
  auto type = RankedTensorType::get({int64_t(numbers.size())}, node.ops().getF32Type());
  return arith::ConstantOp::create(node.ops(), node.at, DenseElementsAttr::get(type, numbers));
}

/// Returns s * sums - s * z * t * sum(w), where features are the last dimension.
Value scaled(NodeContext &node, const Weight &weight, const QuantizedIntegers &input, Value sums) {
  if (!sums)
    return {};
  std::vector<float> terms;
  for (auto [output, sum] : llvm::enumerate(weight.sums()))
    terms.push_back(float(-double(input.scale) * double(input.zero) * weight.scale(output) * double(sum)));
  return combine(node, {sums, ofOutputs(node, terms)}, DataType::Float,
                 [&](Scalars &s, Value sum, Value moved) -> Value {
                   Value product = arith::MulFOp::create(s.builder, s.at, sum, s.number(input.scale));
                   return input.zero == 0 ? product : Value(arith::AddFOp::create(s.builder, s.at, product, moved));
                 });
}

/// Returns sums and what a weight adds to them.
std::optional<ByteSums> withWeight(NodeContext &node, const Weight &weight, Value sums) {
  if (!sums)
    return std::nullopt;
  std::vector<int64_t> ofWeight = weight.sums();
  return ByteSums{sums, ofOutputs(node, std::vector<float>(ofWeight.begin(), ofWeight.end()))};
}

} // namespace

Value quantizedProduct(NodeContext &node, size_t left, size_t right, bool isTurned) {
  std::shared_ptr<const QuantizedIntegers> input = node.input(left).quantizedIntegers;
  std::optional<Weight> weight = weightOf(node.input(right), isTurned ? 0 : 1);
  return input && weight ? scaled(node, *weight, *input, multiplied(node, input->integers, *weight)) : Value();
}

Value quantizedConv(NodeContext &node, size_t images, size_t weight, const importer::Windows &windows) {
  std::shared_ptr<const QuantizedIntegers> input = node.input(images).quantizedIntegers;
  std::optional<Weight> stored = weightOf(node.input(weight), /*axis=*/0);
  if (!input || !stored)
    return {};
  // What is beyond the images is 0, which the zero point means.
  return scaled(node, *stored, *input, convolved(node, input->integers, *stored, windows, input->zero));
}

std::optional<ByteSums> byteSums(NodeContext &node, Value integers, const Tensor &weight, bool isTurned) {
  std::optional<Weight> matrix = weightOf(weight, isTurned ? 0 : 1);
  return matrix ? withWeight(node, *matrix, multiplied(node, integers, *matrix)) : std::nullopt;
}

std::optional<ByteSums> byteConvSums(NodeContext &node, Value images, const Tensor &weight,
                                     const importer::Windows &windows, int64_t zero) {
  std::optional<Weight> stored = weightOf(weight, /*axis=*/0);
  return stored ? withWeight(node, *stored, convolved(node, images, *stored, windows, zero)) : std::nullopt;
}

} // namespace intarsia::onnx
