//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// Folders and canonicalizations: local, always worth it.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/BlockFormats.h"
#include "dialects/Nn/Nn.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

/// Larger constants than this are weights in all but name; folding them would only make the IR bigger.
static constexpr int64_t largestFoldedTensor = 4096;

static bool isSplatZero(Attribute attribute) {
  auto elements = dyn_cast_if_present<DenseFPElementsAttr>(attribute);
  return elements && elements.isSplat() && elements.getSplatValue<APFloat>().isZero();
}

static bool isZero(Value value) {
  Attribute constant;
  return value && matchPattern(value, m_Constant(&constant)) && isSplatZero(constant);
}

//===-- Elementwise -------------------------------------------------------------------------------------------===//

OpFoldResult ReluOp::fold(FoldAdaptor adaptor) {
  // What cannot be negative stays as it is, NaN included.
  if (getInput().getDefiningOp<ReluOp>() || getInput().getDefiningOp<SigmoidOp>() ||
      getInput().getDefiningOp<SoftmaxOp>())
    return getInput();
  auto elements = dyn_cast_if_present<DenseFPElementsAttr>(adaptor.getInput());
  if (!elements || (!elements.isSplat() && elements.getNumElements() > largestFoldedTensor))
    return {};
  return elements.mapValues(elements.getElementType(), [](const APFloat &value) {
    bool isKept = value.isNaN() || !value.isNegative();
    return (isKept ? value : APFloat::getZero(value.getSemantics())).bitcastToAPInt();
  });
}

// f(0) = 0, sign included.
OpFoldResult GeluOp::fold(FoldAdaptor adaptor) {
  return isSplatZero(adaptor.getInput()) ? adaptor.getInput() : Attribute();
}
OpFoldResult SiluOp::fold(FoldAdaptor adaptor) {
  return isSplatZero(adaptor.getInput()) ? adaptor.getInput() : Attribute();
}
OpFoldResult TanhOp::fold(FoldAdaptor adaptor) {
  return isSplatZero(adaptor.getInput()) ? adaptor.getInput() : Attribute();
}

OpFoldResult SigmoidOp::fold(FoldAdaptor adaptor) {
  if (!isSplatZero(adaptor.getInput()))
    return {};
  auto type = cast<ShapedType>(getType());
  return DenseElementsAttr::get(type, FloatAttr::get(type.getElementType(), 0.5).getValue());
}

//===-- Terms that add nothing --------------------------------------------------------------------------------===//

namespace {
template <typename Op> struct DropZeroBias : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!isZero(op.getBias()))
      return rewriter.notifyMatchFailure(op, "bias is not constant zero");
    rewriter.modifyOpInPlace(op, [&] { op.getBiasMutable().clear(); });
    return success();
  }
};

/// An additive mask of zeros and a boolean mask of ones hide nothing.
struct DropOpenMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    DenseElementsAttr mask;
    if (!op.getMask() || !matchPattern(op.getMask(), m_Constant(&mask)) || !mask.isSplat())
      return rewriter.notifyMatchFailure(op, "mask is no splat constant");
    bool isOpen = mask.getElementType().isInteger(1) ? mask.getSplatValue<bool>() : isSplatZero(mask);
    if (!isOpen)
      return rewriter.notifyMatchFailure(op, "mask hides keys or shifts scores");
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
    return success();
  }
};
} // namespace

void LinearOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropZeroBias<LinearOp>>(context);
}

void LayerNormOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropZeroBias<LayerNormOp>>(context);
}

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropOpenMask>(context);
}

//===-- Block formats -----------------------------------------------------------------------------------------===//

/// Reads element `index` of a tensor of scales as f32.
static float readScale(DenseElementsAttr scales, BlockScale scale, int64_t index) {
  if (scale == BlockScale::E8M0 || scale == BlockScale::E4M3)
    return decodeScale(scale, scales.getValues<APInt>()[index].getZExtValue());
  APFloat value = scales.getValues<APFloat>()[index];
  bool losesInfo;
  value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
  return value.convertToFloat();
}

OpFoldResult DequantizeOp::fold(FoldAdaptor adaptor) {
  auto codes = dyn_cast_if_present<DenseIntElementsAttr>(adaptor.getCodes());
  auto scales = dyn_cast_if_present<DenseElementsAttr>(adaptor.getScales());
  auto zeroPoints = dyn_cast_if_present<DenseIntElementsAttr>(adaptor.getZeroPoints());
  auto tensorScale = dyn_cast_if_present<DenseFPElementsAttr>(adaptor.getTensorScale());
  auto type = cast<RankedTensorType>(getType());
  if (!codes || !scales || static_cast<bool>(zeroPoints) != static_cast<bool>(getZeroPoints()) ||
      static_cast<bool>(tensorScale) != static_cast<bool>(getTensorScale()))
    return {};
  if (!type.hasStaticShape() || type.getNumElements() > largestFoldedTensor)
    return {};

  BlockFormatAttr format = getFormat();
  int64_t inner = 1, axisSize = type.getDimSize(format.getAxis());
  for (int64_t size : type.getShape().drop_front(format.getAxis() + 1))
    inner *= size;
  int64_t blocks = format.getBlockCount(axisSize);
  int64_t block = format.getBlock() == 0 ? std::max<int64_t>(axisSize, 1) : format.getBlock();
  float global = tensorScale ? tensorScale.getSplatValue<APFloat>().convertToFloat() : 1.0f;
  SmallVector<APFloat> values;
  for (auto [index, code] : llvm::enumerate(codes.getValues<APInt>())) {
    int64_t outer = index / (inner * axisSize), position = index / inner % axisSize;
    int64_t scaleIndex = (outer * blocks + position / block) * inner + index % inner;
    float element = decodeElement(format.getElement(), code.getZExtValue());
    if (zeroPoints)
      element -= decodeElement(format.getElement(), zeroPoints.getValues<APInt>()[scaleIndex].getZExtValue());
    float scale = readScale(scales, format.getScale(), scaleIndex);
    if (tensorScale)
      scale *= global;
    APFloat value(scale * element);
    bool losesInfo;
    value.convert(cast<FloatType>(type.getElementType()).getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    values.push_back(value);
  }
  return DenseElementsAttr::get(type, values);
}
