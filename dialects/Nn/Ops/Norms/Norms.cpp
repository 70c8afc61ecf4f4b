//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Verifiers, sizes and work of all norms, and the statistics of each norm.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

//===-- What norms share ----------------------------------------------------------------------------------------===//

static LogicalResult verifyRowParameter(Operation *op, StringRef name, Value parameter, Value input) {
  if (failed(verifyRank(op, name, parameter, 1)) || failed(verifyStoredElement(op, name, parameter, "input", input)))
    return failure();
  return verifyCount(op, name, lastSize(parameter), "features", "input", lastSize(input));
}

static LogicalResult verifyNorm(NormOpInterface norm, const APFloat &epsilon) {
  if (failed(verifyLeastRank(norm, "input", norm.getInput(), 1)))
    return failure();
  if (!epsilon.isFinite() || epsilon.isNegative())
    return norm->emitOpError() << "epsilon is " << epsilon.convertToFloat() << ", must be finite and not negative";
  if (failed(verifyRowParameter(norm, "scale", norm.getScale(), norm.getInput())))
    return failure();
  return norm.getBias() ? verifyRowParameter(norm, "bias", norm.getBias(), norm.getInput()) : success();
}

static SizePairs featuresOfParameters(SizesRange sizes) {
  SizePairs pairs;
  for (const Sizes &parameter : sizes.drop_front())
    pairs.emplace_back(sizes[0].back(), parameter.back());
  return pairs;
}

/// Counts, for each element: its square, the sum of squares, the quotient and the scale; with a mean also the sum, the
/// difference in both passes and the bias.
static Work workOfNorm(NormOpInterface norm, SizesRange operandSizes) {
  int64_t flops = norm.getStatistics().isCentred ? 8 : 4;
  return {elementCount(norm.getContext(), operandSizes[0]) * flops, nullptr};
}

template <typename Op> static LogicalResult dropZeroBias(Op op, PatternRewriter &rewriter) {
  if (!op.getBias() || !matchPattern(op.getBias(), m_AnyZeroFloat()))
    return rewriter.notifyMatchFailure(op, "bias is not constant zero");
  rewriter.modifyOpInPlace(op, [&] { op.getBiasMutable().clear(); });
  return success();
}

#define INTARSIA_NORM(Op)                                                                                              \
  INTARSIA_RESULT_LIKE_FIRST(Op)                                                                                       \
  SizePairs Op::getEqualSizes(SizesRange sizes) { return featuresOfParameters(sizes); }                                \
  Work Op::getWork(SizesRange operandSizes, SizesRange) { return workOfNorm(*this, operandSizes); }                    \
  StoredOperand Op::getStoredOperand(unsigned operand) {                                                               \
    return operand == 0 ? StoredOperand::None : StoredOperand::Vector;                                                 \
  }
INTARSIA_NORM(LayerNormOp)
INTARSIA_NORM(RmsNormOp)
INTARSIA_NORM(GroupNormOp)
#undef INTARSIA_NORM

//===-- Layer norm ----------------------------------------------------------------------------------------------===//

NormStatistics LayerNormOp::getStatistics() { return {.epsilon = getEpsilon().convertToFloat()}; }

LogicalResult LayerNormOp::verify() { return verifyNorm(*this, getEpsilon()); }

LogicalResult LayerNormOp::canonicalize(LayerNormOp op, PatternRewriter &rewriter) {
  return dropZeroBias(op, rewriter);
}

//===-- RMS norm ------------------------------------------------------------------------------------------------===//

NormStatistics RmsNormOp::getStatistics() { return {.isCentred = false, .epsilon = getEpsilon().convertToFloat()}; }

LogicalResult RmsNormOp::verify() { return verifyNorm(*this, getEpsilon()); }

//===-- Group norm ----------------------------------------------------------------------------------------------===//

NormStatistics GroupNormOp::getStatistics() {
  return {.groups = static_cast<int64_t>(getGroups()), .epsilon = getEpsilon().convertToFloat()};
}

LogicalResult GroupNormOp::verify() {
  if (failed(verifyNorm(*this, getEpsilon())))
    return failure();
  int64_t features = lastSize(getInput()), groups = getGroups();
  if (ShapedType::isDynamic(features))
    return emitOpError("number of input features is dynamic, must be static");
  if (features % groups != 0)
    return emitOpError() << "input has " << features << " features, no multiple of the " << groups << " groups";
  return success();
}

LogicalResult GroupNormOp::canonicalize(GroupNormOp op, PatternRewriter &rewriter) {
  if (op.getGroups() != 1)
    return dropZeroBias(op, rewriter);
  rewriter.replaceOpWithNewOp<LayerNormOp>(op, op.getType(), op.getInput(), op.getScale(), op.getBias(),
                                           op.getEpsilonAttr());
  return success();
}
