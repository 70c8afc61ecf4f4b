//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Constants that are quantized and dequantized.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/BlockFormats.h"
#include "dialects/Nn/Ops/Shared.h"
#include "lib/Formats/DecodeBlocks.h"
#include <cmath>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

static float toFloat(APFloat value) {
  bool losesInfo;
  value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
  return value.convertToFloat();
}

static APFloat toType(float value, Type type) {
  APFloat result(value);
  bool losesInfo;
  result.convert(cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return result;
}

/// Reads element `index` of a tensor of scales as f32.
static float readScale(DenseElementsAttr scales, BlockScale scale, int64_t index) {
  if (scale == BlockScale::E8M0 || scale == BlockScale::E4M3)
    return decodeScale(scale, scales.getValues<APInt>()[index].getZExtValue());
  return toFloat(scales.getValues<APFloat>()[index]);
}

namespace {
/// The block that each element of a dense tensor is in.
struct Blocks {
  Blocks(BlockFormatAttr format, RankedTensorType type) : axisSize(type.getDimSize(format.getAxis())) {
    for (int64_t size : type.getShape().drop_front(format.getAxis() + 1))
      inner *= size;
    count = format.getBlockCount(axisSize);
    block = format.getBlock() == 0 ? std::max<int64_t>(axisSize, 1) : format.getBlock();
  }
  /// Row-major number of the scale of an element.
  int64_t scaleOf(int64_t element) const {
    int64_t outer = element / (inner * axisSize), position = element / inner % axisSize;
    return (outer * count + position / block) * inner + element % inner;
  }

  int64_t inner = 1, axisSize, count, block;
};

/// The content of a block that its scale is chosen from. A NaN in the block is in all of it.
struct BlockContent {
  float largestMagnitude = 0, low = 0, high = 0;

  void add(float value) {
    auto larger = [](float a, float b) { return std::isnan(a) || a > b ? a : b; };
    largestMagnitude = larger(std::fabs(value), largestMagnitude);
    high = larger(value, high);
    low = -larger(-value, -low);
  }
};
} // namespace

/// `value / scale`, zero where the scale is.
static float ratio(float value, float scale) { return scale == 0 ? 0.0f : value / scale; }

/// The multiple of `scale` that leaves the least error of the values in a block.
static float leastError(BlockElement element, BlockScale scaleType, float scale, ArrayRef<float> block,
                        llvm::function_ref<float(float)> asStored) {
  float best = scale, leastSum = 0;
  for (auto [index, factor] : llvm::enumerate(scaleFactors(element, scaleType))) {
    float candidate = scale * factor, stored = asStored(candidate), sum = 0;
    for (float value : block) {
      float number = stored * decodeElement(element, encodeElement(element, ratio(value, stored)));
      float difference = value - number;
      float square = difference * difference; // each rounded for itself
      sum += square;
    }
    if (index == 0 || sum < leastSum) {
      best = candidate;
      leastSum = sum;
    }
  }
  return best;
}

/// Computed in f32 by the formulas of the op's description, in the order of lower-nn-to-reference.
LogicalResult QuantizeOp::fold(FoldAdaptor adaptor, SmallVectorImpl<OpFoldResult> &results) {
  auto input = dyn_cast_if_present<DenseFPElementsAttr>(adaptor.getInput());
  if (!input || input.getNumElements() > largestFoldedTensor || hasRowScales() || getNumOperands() > 1 ||
      getWideBlocks() || getUnitScale() ||
      llvm::any_of(getResultTypes(), [](Type type) { return !cast<ShapedType>(type).hasStaticShape(); }))
    return failure();
  BlockFormatAttr format = getFormat();
  BlockElement element = format.getElement();
  Blocks blocks(format, cast<RankedTensorType>(input.getType()));
  auto scaleType = cast<RankedTensorType>(getScales().getType());
  SmallVector<float> values;
  for (const APFloat &value : input.getValues<APFloat>())
    values.push_back(toFloat(value));
  SmallVector<BlockContent> contents(scaleType.getNumElements());
  SmallVector<SmallVector<float>> members(scaleType.getNumElements());
  BlockContent whole;
  for (auto [index, value] : llvm::enumerate(values)) {
    contents[blocks.scaleOf(index)].add(value);
    members[blocks.scaleOf(index)].push_back(value);
    whole.add(value);
  }

  std::optional<IntegerElement> integer = getIntegerElement(element);
  float tensorScale = whole.largestMagnitude / (448.0f * 6.0f);
  SmallVector<APInt> quantized, scalePatterns, zeroPoints;
  SmallVector<APFloat> floatScales;
  SmallVector<float> scales, points;
  auto asStored = [&](float scale) {
    if (format.getScale() == BlockScale::E4M3)
      return decodeScale(BlockScale::E4M3, encodeScaleE4M3(ratio(scale, tensorScale))) * tensorScale;
    return toFloat(toType(scale, scaleType.getElementType()));
  };
  for (auto [content, block] : llvm::zip_equal(contents, members)) {
    if (format.getScale() == BlockScale::E8M0) {
      scalePatterns.emplace_back(8, encodeScaleE8M0(element, content.largestMagnitude));
      scales.push_back(decodeScale(BlockScale::E8M0, scalePatterns.back().getZExtValue()));
      continue;
    }
    float scale;
    if (getZeroPoints())
      scale = (content.high - content.low) / static_cast<float>(integer->highest - integer->lowest);
    else if (element == BlockElement::Ternary)
      scale = ternaryScale(block);
    else
      scale = leastError(element, format.getScale(), blockScale(element, content.largestMagnitude, content.low), block,
                         asStored);
    if (format.getScale() == BlockScale::E4M3) {
      scalePatterns.emplace_back(8, encodeScaleE4M3(ratio(scale, tensorScale)));
      scales.push_back(decodeScale(BlockScale::E4M3, scalePatterns.back().getZExtValue()) * tensorScale);
      continue;
    }
    floatScales.push_back(toType(scale, scaleType.getElementType()));
    scales.push_back(toFloat(floatScales.back()));
    if (!getZeroPoints())
      continue;
    float point = scales.back() == 0 ? 0.0f : static_cast<float>(integer->lowest) - content.low / scales.back();
    zeroPoints.emplace_back(format.getStorageBits(), encodeElement(element, point));
    points.push_back(decodeElement(element, zeroPoints.back().getZExtValue()));
  }
  for (auto [index, value] : llvm::enumerate(values)) {
    int64_t block = blocks.scaleOf(index);
    float number = ratio(value, scales[block]);
    if (getZeroPoints())
      number = std::nearbyint(number) + points[block];
    quantized.emplace_back(format.getStorageBits(), encodeElement(element, number));
  }

  results.push_back(DenseElementsAttr::get(cast<ShapedType>(getQuantized().getType()), quantized));
  results.push_back(scalePatterns.empty() ? DenseElementsAttr::get(scaleType, floatScales)
                                          : DenseElementsAttr::get(scaleType, scalePatterns));
  if (getZeroPoints())
    results.push_back(DenseElementsAttr::get(cast<ShapedType>(getZeroPoints().getType()), zeroPoints));
  if (getTensorScale())
    results.push_back(DenseElementsAttr::get(cast<ShapedType>(getTensorScale().getType()), tensorScale));
  return success();
}

/// Computed in f32 by the formula of the op's description.
DenseElementsAttr BlockFormatAttr::dequantize(RankedTensorType type, const QuantizedConstants &constants) const {
  Blocks blocks(*this, type);
  float global = constants.tensorScale ? constants.tensorScale.getSplatValue<APFloat>().convertToFloat() : 1.0f;
  SmallVector<APFloat> values;
  for (auto [index, pattern] : llvm::enumerate(constants.values.getValues<APInt>())) {
    int64_t scaleIndex = blocks.scaleOf(index);
    float element = decodeElement(getElement(), pattern.getZExtValue());
    if (constants.zeroPoints)
      element -= decodeElement(getElement(), constants.zeroPoints.getValues<APInt>()[scaleIndex].getZExtValue());
    float scale = readScale(constants.scales, getScale(), scaleIndex);
    if (constants.tensorScale)
      scale *= global;
    values.push_back(toType(scale * element, type.getElementType()));
  }
  return DenseElementsAttr::get(type, values);
}

DenseElementsAttr GgmlTypeAttr::dequantize(RankedTensorType type, const QuantizedConstants &constants) const {
  SmallVector<uint8_t> bytes;
  for (const APInt &byte : constants.values.getValues<APInt>())
    bytes.push_back(byte.getZExtValue());
  SmallVector<float> values(type.getNumElements());
  gguf::decodeBlocks(getType(), bytes.data(), bytes.size() / getType().bytes, values.data());
  return DenseElementsAttr::get(type, ArrayRef<float>(values));
}

OpFoldResult DequantizeOp::fold(FoldAdaptor adaptor) {
  auto type = cast<RankedTensorType>(getType());
  if (!type.hasStaticShape() || type.getNumElements() > largestFoldedTensor || hasRowScales())
    return {};
  QuantizedConstants constants;
  bool areConstants = true;
  auto take = [&](Value operand, Attribute constant, DenseElementsAttr &into) {
    into = dyn_cast_if_present<DenseElementsAttr>(constant);
    areConstants &= static_cast<bool>(operand) == static_cast<bool>(into);
  };
  take(getQuantized(), adaptor.getQuantized(), constants.values);
  take(getScales(), adaptor.getScales(), constants.scales);
  take(getZeroPoints(), adaptor.getZeroPoints(), constants.zeroPoints);
  take(getTensorScale(), adaptor.getTensorScale(), constants.tensorScale);
  return areConstants ? OpFoldResult(getFormat().dequantize(type, constants)) : OpFoldResult();
}
