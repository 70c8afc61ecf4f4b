//===- QuantizedProducts.cpp - Products of bytes with weights of the file -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The product of an input (q - z) * s and a weight w * t is (sum(q * w) - z * sum(w)) * s * t. Kernels of bytes compute
// the first sum, the second is a constant of each output feature. For uint8, q and z are both 128 less than in the
// file, which leaves q - z as it is.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/QuantizedProducts.h"

#include "dialects/Nn/RowScales.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// A tensor of int8 in the file.
struct Weight {
  const Tensor &values;
  int64_t axis; ///< of output features
  int64_t outputs, depth;

  /// Returns the sum of the integers of each output feature.
  std::vector<int64_t> sums() const {
    int64_t inner = 1;
    for (size_t number = axis + 1; number < values.dims.size(); ++number)
      inner *= values.dims[number];
    std::vector<int64_t> result(outputs);
    const auto *next = reinterpret_cast<const int8_t *>(values.data);
    for (int64_t outer = 0, count = depth / inner; outer < count; ++outer)
      for (int64_t &sum : result)
        for (const int8_t *end = next + inner; next != end; ++next)
          sum += *next;
    return result;
  }
};

/// Returns a tensor of the file as a weight, if kernels of bytes multiply it.
std::optional<Weight> weightOf(const Tensor &values, int64_t axis) {
  int64_t outputs = values.dims.size() < 2 ? 0 : values.dims[axis];
  if (values.type != DataType::Int8 || outputs < 1 || values.elements() < 1 ||
      values.bytes != uint64_t(values.elements()) || values.elements() / outputs > nn::mostFeaturesOfRowScale)
    return std::nullopt;
  return Weight{values, axis, outputs, values.elements() / outputs};
}

/// Returns the weight that DequantizeLinear reads for an input, if kernels of bytes multiply it and its scales are of
/// output features.
std::optional<Weight> dequantizedWeight(GraphValue &value, int64_t axis) {
  const StoredIntegers *stored = value.storedIntegers.get();
  std::optional<Weight> weight = stored ? weightOf(*stored->values, axis) : std::nullopt;
  if (!weight)
    return std::nullopt;
  const Tensor &scales = *stored->scales;
  int64_t rank = weight->values.dims.size();
  bool areOfOutputs = scales.elements() == weight->outputs && (stored->axis == axis || stored->axis + rank == axis);
  bool fits = (scales.elements() == 1 || areOfOutputs) && scales.bytes == uint64_t(4 * scales.elements());
  return fits ? weight : std::nullopt;
}

/// Returns the integers of a weight as they lie in the file; null if the archive does not have them.
Value storedIntegers(NodeContext &node, const Weight &weight) {
  auto found = node.graph.archive().find(weight.values.key);
  if (!found)
    return {};
  llvm::SmallVector<int64_t> dims(weight.values.dims.begin(), weight.values.dims.end());
  return node.ir().rawWeight(node.at, *found, RankedTensorType::get(dims, node.ops().getI8Type()));
}

/// Returns integers [outputs, depth] of a weight as a matrix of f32, which is stored as bytes.
Value matrixOf(NodeContext &node, const Weight &weight, Value integers) {
  auto kept = nn::BlockFormatAttr::get(node.graph.context(), nn::BlockElement::I8, nn::BlockScale::F32, /*block=*/0,
                                       /*axis=*/1);
  auto format = nn::ArchiveFormatAttr::get(node.graph.context(), nn::ArchiveOrder::Rows, nn::BlockElement::I8,
                                           /*group=*/0, /*rows=*/1, /*zero=*/0, /*inverse=*/false, FloatAttr(),
                                           FloatAttr(), kept);
  auto type = RankedTensorType::get({weight.outputs, weight.depth}, node.ops().getF32Type());
  return node.ir().dequantize(node.at, {integers}, type, format);
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
Value multiplied(NodeContext &node, Value numbers, const Weight &weight) {
  Shape shape = node.graph.shapeOf(node.at, numbers);
  if (weight.values.dims.size() != 2 || shape.empty() || shape.back().isDynamic() || shape.back().value != weight.depth)
    return {};
  Value integers = storedIntegers(node, weight);
  if (!integers)
    return {};
  Value matrix = matrixOf(node, weight, weight.axis == 0 ? integers : node.ir().permute(node.at, integers, {1, 0}));
  Value sums = node.ir().linear(node.at, asBytes(node, numbers), matrix, /*bias=*/{});
  shape.back() = weight.outputs;
  node.graph.setShape(sums, shape);
  return sums;
}

/// Returns the convolution of images [batch, channels, spatial…] of whole numbers from -128 to 127, around which there
/// is `zero`, with its channels last; null if there is none.
Value convolved(NodeContext &node, Value images, const Weight &weight, const importer::Windows &windows, int64_t zero) {
  // The padded image is a tensor of its own. Convolutions of floats do not make one, however wide the pads are.
  constexpr int64_t widest = 1024;
  auto isWide = [](int64_t pad) { return pad > widest; };
  if (windows.groups != 1 || windows.isTransposed || llvm::any_of(windows.padsLow, isWide) ||
      llvm::any_of(windows.padsHigh, isWide))
    return {};
  Value integers = storedIntegers(node, weight);
  if (!integers)
    return {};
  Value matrix = matrixOf(node, weight, node.ir().convWeight(node.at, integers));
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

/// Returns (sums - z * sum(w)) * s * t, where features are the last dimension. Both terms are rounded to f32 alike
/// where they are above 2^24, so that their difference is 0 where all of q are z.
Value scaled(NodeContext &node, const Weight &weight, const Tensor &scales, const QuantizedIntegers &input,
             Value sums) {
  if (!sums)
    return {};
  std::vector<float> factors;
  for (uint64_t at = 0; at < scales.bytes; at += 4)
    factors.push_back(input.scale * llvm::bit_cast<float>(llvm::support::endian::read32le(scales.data + at)));
  Value factor =
      factors.size() == 1 ? node.filled({}, node.ops().getF32FloatAttr(factors[0])) : ofOutputs(node, factors);
  auto multiply = [](Scalars &s, Value sum, Value by) -> Value {
    return arith::MulFOp::create(s.builder, s.at, sum, by);
  };
  if (input.zero == 0)
    return combine(node, {sums, factor}, DataType::Float, multiply);
  std::vector<float> terms;
  for (int64_t sum : weight.sums())
    terms.push_back(float(input.zero * sum));
  return combine(node, {sums, ofOutputs(node, terms), factor}, DataType::Float,
                 [&](Scalars &s, Value sum, Value ofZero, Value by) -> Value {
                   return multiply(s, arith::SubFOp::create(s.builder, s.at, sum, ofZero), by);
                 });
}

} // namespace

Value quantizedProduct(NodeContext &node, size_t left, size_t right, bool isTurned) {
  std::shared_ptr<const QuantizedIntegers> input = node.input(left).quantizedIntegers;
  std::optional<Weight> weight = dequantizedWeight(node.input(right), isTurned ? 0 : 1);
  if (!input || !weight)
    return {};
  return scaled(node, *weight, *node.input(right).storedIntegers->scales, *input,
                multiplied(node, input->integers, *weight));
}

Value quantizedConv(NodeContext &node, size_t images, size_t weight, const importer::Windows &windows) {
  std::shared_ptr<const QuantizedIntegers> input = node.input(images).quantizedIntegers;
  std::optional<Weight> stored = dequantizedWeight(node.input(weight), /*axis=*/0);
  if (!input || !stored)
    return {};
  // What is beyond the images is 0, which the zero point means.
  return scaled(node, *stored, *node.input(weight).storedIntegers->scales, *input,
                convolved(node, input->integers, *stored, windows, input->zero));
}

/// Returns sums with those of the weight; nullopt if there are none.
static std::optional<ByteSums> withSumsOf(NodeContext &node, const Weight &weight, Value sums) {
  if (!sums)
    return std::nullopt;
  std::vector<int64_t> ofWeight = weight.sums();
  return ByteSums{sums, ofOutputs(node, std::vector<float>(ofWeight.begin(), ofWeight.end()))};
}

std::optional<ByteSums> byteSums(NodeContext &node, Value numbers, const Tensor &weight, bool isTurned) {
  std::optional<Weight> matrix = weightOf(weight, isTurned ? 0 : 1);
  return matrix ? withSumsOf(node, *matrix, multiplied(node, numbers, *matrix)) : std::nullopt;
}

std::optional<ByteSums> byteConvSums(NodeContext &node, Value images, const Tensor &weight,
                                     const importer::Windows &windows, int64_t zero) {
  std::optional<Weight> stored = weightOf(weight, /*axis=*/0);
  return stored ? withSumsOf(node, *stored, convolved(node, images, *stored, windows, zero)) : std::nullopt;
}

} // namespace intarsia::onnx
