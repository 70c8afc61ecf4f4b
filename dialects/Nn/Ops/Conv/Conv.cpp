//===- Conv.cpp - Convolutions --------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"
#include "dialects/Nn/Ops/Windows.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

template <typename Op> static WindowAttributes attributesOf(Op op) {
  return {op.getWindow(), op.getStrides(), op.getDilations(), op.getPadsLow(), op.getPadsHigh(), op.getOutputPads()};
}

WindowDimension ConvOp::getWindowDimension(unsigned dimension) { return attributesOf(*this)[dimension]; }

//===-- Verifier --------------------------------------------------------------------------------------------------===//

static LogicalResult verifyChannels(ConvOp op) {
  int64_t groups = op.getGroups(), in = op.getInputChannels(), out = op.getOutputChannels();
  if (groups < 1)
    return op.emitOpError() << "has " << groups << " groups, the least is 1";
  if (ShapedType::isDynamic(in) || !op.getWeight().getType().hasStaticShape())
    return op.emitOpError() << "needs numbers of channels that are known: its input is " << op.getInput().getType()
                            << ", its weight " << op.getWeight().getType();
  if (in % groups != 0 || out % groups != 0)
    return op.emitOpError() << "has " << groups << " groups, which do not divide " << in << " input channels and "
                            << out << " output channels";
  int64_t columns = in / groups;
  for (int64_t size : op.getWindow())
    if (llvm::MulOverflow(columns, size, columns))
      return op.emitOpError("has a window whose elements cannot be counted with 64 bits");
  return verifyCount(op, "weight", lastSize(op.getWeight()), "columns, a window of channels", "a window of its input",
                     columns);
}

LogicalResult ConvOp::verify() {
  if (failed(verifyPrecision(*this, getPrecision())) ||
      failed(verifyWindows(*this, getInput(), attributesOf(*this), "output pads")) ||
      failed(verifyRank(*this, "weight", getWeight(), 2)) ||
      failed(verifyStoredElement(*this, "weight", getWeight(), "input", getInput())) || failed(verifyChannels(*this)))
    return failure();
  if (getOutputPads() && !getTransposed())
    return emitOpError() << "has output pads, which are for transposed convolutions";
  for (unsigned d = 0; d < getSpatialRank(); ++d) {
    WindowDimension window = getWindowDimension(d);
    if (window.beyond != 0 && window.beyond >= std::max(window.stride, window.dilation))
      return emitOpError() << "has an output pad of " << window.beyond << ", which must be below the stride "
                           << window.stride << " or the dilation " << window.dilation;
    int64_t size = typeOf(getInput()).getDimSize(d + 1);
    if (!ShapedType::isDynamic(size) && failed(verifyResultSize(*this, d, window, size, resultSize(d, size))))
      return failure();
  }
  return verifyBias(*this, getBias(), getInput(), "output channels", getOutputChannels());
}

//===-- Sizes and work --------------------------------------------------------------------------------------------===//

LogicalResult ConvOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                       DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                       SmallVectorImpl<Type> &results) {
  ConvOp::Adaptor op(operands, attributes, properties, regions);
  auto input = dyn_cast<RankedTensorType>(op.getInput().getType());
  auto weight = dyn_cast<RankedTensorType>(op.getWeight().getType());
  WindowAttributes attributesOfWindows = attributesOf(op);
  size_t spatial = op.getWindow().size();
  if (!input || !weight || weight.getRank() != 2 || input.getRank() != int64_t(spatial) + 2 ||
      !attributesOfWindows.areComplete())
    return emitOptionalError(location, "'nn.conv' op needs an input of [batch, spatial…, channels], a weight of rank 2 "
                                       "and an entry of each attribute for each spatial dimension");
  SmallVector<int64_t> shape(input.getShape());
  shape.back() = weight.getDimSize(0);
  for (size_t d = 0; d < spatial; ++d) {
    WindowDimension window = attributesOfWindows[d];
    window.stride = std::max<int64_t>(window.stride, 1); // the verifier refuses others
    int64_t &size = shape[d + 1];
    if (!ShapedType::isDynamic(size))
      size = std::max<int64_t>(op.getTransposed() ? window.madeBy(size) : window.windowsOf(size), 0);
  }
  results.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SmallVector<Sizes> ConvOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  result.back() = sizes[1][0];
  for (unsigned d = 0; d < getSpatialRank(); ++d)
    result[d + 1] = resultSize(d, sizes[0][d + 1]);
  return {result};
}

SizePairs ConvOp::getEqualSizes(SizesRange sizes) {
  return getBias() ? SizePairs{{sizes[1][0], sizes[2][0]}} : SizePairs();
}

SizePairs ConvOp::getLeastSizes(SizesRange sizes) {
  SizePairs pairs;
  for (unsigned d = 0; d < getSpatialRank(); ++d) {
    WindowDimension window = getWindowDimension(d);
    int64_t least = getTransposed() ? window.leastToMake() : window.leastForWindow();
    pairs.push_back({getAffineConstantExpr(std::max<int64_t>(least, 1), getContext()), sizes[0][d + 1]});
  }
  return pairs;
}

Work ConvOp::getWork(SizesRange operandSizes, SizesRange resultSizes) {
  AffineExpr results = elementCount(getContext(), resultSizes[0]);
  // A transposed one multiplies each element of its input by all columns of its group that a window has.
  AffineExpr products = results * operandSizes[1][1];
  if (getTransposed()) {
    int64_t perElement = getOutputChannels() / getGroups();
    for (int64_t size : getWindow())
      perElement *= size;
    products = elementCount(getContext(), operandSizes[0]) * perElement;
  }
  return {getBias() ? products * 2 + results : products * 2, nullptr};
}

//===-- What it multiplies ----------------------------------------------------------------------------------------===//

OpOperand &ConvOp::getLeftOperand() { return getInputMutable(); }

SmallVector<OpOperand *> ConvOp::getRightOperands() { return {&getWeightMutable()}; }

MutableOperandRange ConvOp::getBiasOperand() { return getBiasMutable(); }

LeftRead ConvOp::getLeftRead() { return LeftRead::Window; }

/// The loops go over batch, positions, output channels and columns of the weight. A column is a position of the window
/// and an input channel. Positions are those of the result; of a transposed convolution they are those of the input.
ContractionMaps ConvOp::getMaps() {
  MLIRContext *context = getContext();
  unsigned spatial = getSpatialRank(), column = spatial + 1, depth = spatial + 2;
  int64_t channels = getInputChannels() / getGroups(), ofGroup = getOutputChannels() / getGroups();
  AffineExpr position = getAffineDimExpr(depth, context).floorDiv(channels);
  SmallVector<AffineExpr> moving{getAffineDimExpr(0, context)}, plain(moving);
  SmallVector<AffineExpr> windows(spatial);
  for (unsigned d = spatial; d-- > 0;) {
    windows[d] = d == 0 ? position : position % getWindow()[d];
    position = position.floorDiv(getWindow()[d]);
  }
  for (unsigned d = 0; d < spatial; ++d) {
    WindowDimension w = getWindowDimension(d);
    plain.push_back(getAffineDimExpr(d + 1, context));
    moving.push_back(plain.back() * w.stride + windows[d] * w.dilation - w.padLow);
  }
  AffineExpr out = getAffineDimExpr(column, context);
  AffineExpr in = getAffineDimExpr(depth, context) % channels;
  if (getGroups() != 1)
    in = out.floorDiv(ofGroup) * channels + in;
  SmallVector<AffineExpr> &left = getTransposed() ? plain : moving, &result = getTransposed() ? moving : plain;
  left.push_back(in);
  result.push_back(out);
  return {AffineMap::get(depth + 1, 0, left, context), mapTo({column, depth}, depth + 1, context),
          AffineMap::get(depth + 1, 0, result, context)};
}

StoredOperand ConvOp::getStoredOperand(unsigned operand) {
  if (operand == 0)
    return StoredOperand::None;
  return operand == 1 ? StoredOperand::Matrix : StoredOperand::Vector;
}

/// The channels of a position are a row where they are quantized. Others are read by windows, where they lie.
RowInput ConvOp::getRowInput() {
  RowInput rows = rowInputOf(getInput());
  return rows.quantization.empty() ? RowInput() : rows;
}

//===-- Canonicalization ------------------------------------------------------------------------------------------===//

namespace {
/// A window of one position at each position of the input is a row of channels.
struct PointwiseToLinear : OpRewritePattern<ConvOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConvOp op, PatternRewriter &rewriter) const override {
    for (unsigned d = 0; d < op.getSpatialRank(); ++d) {
      WindowDimension w = op.getWindowDimension(d);
      if (w.window != 1 || w.stride != 1 || w.padLow != 0 || w.padHigh != 0 || w.beyond != 0)
        return rewriter.notifyMatchFailure(op, "windows are not single positions");
    }
    if (op.getGroups() != 1)
      return rewriter.notifyMatchFailure(op, "channels are in groups");
    auto linear = LinearOp::create(rewriter, op.getLoc(), op.getType(), op.getInput(), op.getWeight(), op.getBias(),
                                   op.getPrecisionAttr());
    linear->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rewriter.replaceOp(op, linear);
    return success();
  }
};
} // namespace

void ConvOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropZeroBias<ConvOp>, PointwiseToLinear>(context);
}
