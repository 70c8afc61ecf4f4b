//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

/// Bounds each table of factors: 64 MiB, 128 MiB of a prime (Bluestein).
static constexpr int64_t mostElements = int64_t(1) << 22;

int64_t FftOp::getNumber() {
  int64_t size = typeOf(getInput()).getDimSize(getAxis());
  if (!hasRealResult())
    return size;
  if (std::optional<int64_t> length = getLength())
    return *length;
  return ShapedType::isDynamic(size) ? size : 2 * (size - 1);
}

LogicalResult FftOp::verify() {
  if (failed(verifyLeastRank(*this, "input", getInput(), 2)))
    return failure();
  RankedTensorType input = typeOf(getInput());
  int64_t axis = getAxis(), parts = input.getShape().back();
  if (axis < 0 || axis + 1 >= input.getRank())
    return emitOpError() << "has the axis " << axis << ", dimensions before the last of input are 0 to "
                         << input.getRank() - 2;
  if (parts != 1 && parts != 2)
    return emitOpError() << "input is " << input << ", its last dimension must be 1 or 2: real and imaginary parts";
  if (getOnesided() && parts != (getInverse() ? 2 : 1))
    return emitOpError() << (getInverse() ? "is inverse and onesided, its input must be complex"
                                          : "is onesided, its input must be real");
  if (getLength() && !hasRealResult())
    return emitOpError("has a length, which only inverse onesided transforms have");
  int64_t size = input.getDimSize(axis), number = getNumber();
  if (getLength() && number >= 1 && !agree(size, number / 2 + 1))
    return emitOpError() << "has the length " << number << ", for which axis " << axis << " must have "
                         << number / 2 + 1 << " elements and has " << size;
  if (!ShapedType::isDynamic(number) && (number < 1 || number > mostElements))
    return emitOpError() << "transforms " << number << " elements, possible are 1 to " << mostElements;
  return success();
}

LogicalResult FftOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                      DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                      SmallVectorImpl<Type> &results) {
  FftOp::Adaptor op(operands, attributes, properties, regions);
  auto input = dyn_cast<RankedTensorType>(op.getInput().getType());
  int64_t axis = op.getAxis();
  if (!input || axis < 0 || axis + 1 >= input.getRank())
    return emitOptionalError(location, "'nn.fft' op needs a ranked input and one of its dimensions before the last");
  SmallVector<int64_t> shape(input.getShape());
  bool isReal = op.getOnesided() && op.getInverse();
  if (isReal && op.getLength())
    shape[axis] = std::max<int64_t>(*op.getLength(), 0); // the verifier refuses less than 1
  else if (op.getOnesided() && !ShapedType::isDynamic(shape[axis]))
    shape[axis] = isReal ? std::max<int64_t>(2 * (shape[axis] - 1), 0) : shape[axis] / 2 + 1;
  shape.back() = isReal ? 1 : 2;
  results.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SmallVector<Sizes> FftOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  bool isReal = hasRealResult();
  auto constant = [&](int64_t number) { return getAffineConstantExpr(number, getContext()); };
  AffineExpr &number = result[getAxis()];
  if (isReal)
    number = getLength() ? constant(*getLength()) : (number - 1) * 2;
  else if (getOnesided())
    number = number.floorDiv(2) + 1;
  result.back() = constant(isReal ? 1 : 2);
  return {result};
}

SizePairs FftOp::getEqualSizes(SizesRange sizes) {
  if (!getLength())
    return {};
  return {{getAffineConstantExpr(*getLength() / 2 + 1, getContext()), sizes[0][getAxis()]}};
}

SizePairs FftOp::getLeastSizes(SizesRange sizes) {
  int64_t least = hasRealResult() && !getLength() ? 2 : 1;
  return {{getAffineConstantExpr(least, getContext()), sizes[0][getAxis()]}};
}

Work FftOp::getWork(SizesRange, SizesRange resultSizes) {
  int64_t number = getNumber();
  // A dynamic number is taken to be 1024, with a sum for each element; a static one is a product with 64 factors for
  // each step.
  int64_t flops = ShapedType::isDynamic(number) ? 4 * 1024 : 4 * 64 * ((llvm::Log2_64_Ceil(number) + 5) / 6);
  return workOfElements(*this, resultSizes[0], flops, ShapedType::isDynamic(number) ? 2 * 1024 : 0);
}
