//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"

#include <cmath>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

/// Checks that an attribute, if there is one, has an entry for each axis.
static LogicalResult verifyEntries(ResizeOp op, StringRef name, std::optional<size_t> entries) {
  size_t axes = op.getAxes().size();
  if (!entries || *entries == axes)
    return success();
  return op.emitOpError() << "has " << *entries << " " << name << " for " << axes << " axes";
}

static LogicalResult verifyAxes(ResizeOp op) {
  int64_t rank = typeOf(op.getInput()).getRank();
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t axis : op.getAxes()) {
    if (axis < 0 || axis >= rank)
      return op.emitOpError() << "has the axis " << axis << ", input has rank " << rank;
    if (!seen.insert(axis).second)
      return op.emitOpError() << "has the axis " << axis << " twice";
  }
  if (op.getSizes().has_value() == static_cast<bool>(op.getLike()))
    return op.emitOpError() << (op.getLike() ? "has sizes and a tensor like which its result is"
                                             : "has neither sizes nor a tensor like which its result is");
  if (op.getLike() && failed(verifyRank(op, "like", op.getLike(), op.getAxes().size())))
    return failure();
  auto lengthOf = [](const auto &entries) {
    return entries ? std::optional<size_t>(entries->size()) : std::optional<size_t>();
  };
  if (failed(verifyEntries(op, "sizes", lengthOf(op.getSizes()))) ||
      failed(verifyEntries(op, "scales", lengthOf(op.getScales()))) ||
      failed(verifyEntries(op, "shifts", lengthOf(op.getShifts()))) ||
      failed(verifyEntries(op, "offsets", lengthOf(op.getOffsets()))))
    return failure();
  return success();
}

LogicalResult ResizeOp::verify() {
  if (failed(verifyAxes(*this)))
    return failure();
  for (int64_t size : getSizes().value_or(ArrayRef<int64_t>()))
    if (size < 0)
      return emitOpError() << "has the size " << size << ", the least is 0";
  for (float scale : getScales().value_or(ArrayRef<float>()))
    if (!std::isfinite(scale) || scale <= 0)
      return emitOpError() << "has the scale " << scale << ", scales are positive and finite";
  for (auto numbers : {getShifts(), getOffsets()})
    for (float number : numbers.value_or(ArrayRef<float>()))
      if (!std::isfinite(number))
        return emitOpError() << "has the shift or offset " << number << ", which is not finite";
  if (getScales() && getCorners())
    return emitOpError("has scales and corners, which say the same");
  bool isNearest = getKind() == Interpolation::Nearest;
  Type element = typeOf(getInput()).getElementType();
  if (!isNearest && !isa<FloatType>(element))
    return emitOpError() << "has elements of " << element << ", only 'nearest' takes others than floats";
  for (auto [name, isSet] : {std::pair("exclude_outside", getExcludeOutside()), std::pair("antialias", getAntialias()),
                             std::pair("outside", getOutside().has_value())})
    if (isNearest && isSet)
      return emitOpError() << "has '" << name << "', which is not for 'nearest'";
  RankedTensorType result = typeOf(getResult());
  for (auto [number, axis] : llvm::enumerate(getAxes())) {
    int64_t size = typeOf(getInput()).getDimSize(axis);
    if (size == 0 && result.getDimSize(axis) != 0)
      return emitOpError() << "input has no elements along axis " << axis << ", from which others could be made";
    if (getAntialias() && !getStep(number))
      return emitOpError() << "has 'antialias' without scales along axis " << axis << ", whose size is dynamic";
  }
  return success();
}

std::optional<float> ResizeOp::getStep(unsigned number) {
  if (getScales())
    return (*getScales())[number];
  int64_t axis = getAxes()[number];
  int64_t size = typeOf(getInput()).getDimSize(axis), made = typeOf(getResult()).getDimSize(axis);
  if (ShapedType::isDynamic(size) || ShapedType::isDynamic(made))
    return std::nullopt;
  if (getCorners())
    return made <= 1 ? 0.0f : static_cast<float>(size - 1) / static_cast<float>(made - 1);
  return made == 0 ? 1.0f : static_cast<float>(size) / static_cast<float>(made);
}

LogicalResult ResizeOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                         DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                         SmallVectorImpl<Type> &results) {
  ResizeOp::Adaptor op(operands, attributes, properties, regions);
  auto input = dyn_cast<RankedTensorType>(op.getInput().getType());
  auto like = op.getLike() ? dyn_cast<RankedTensorType>(op.getLike().getType()) : RankedTensorType();
  ArrayRef<int64_t> axes = op.getAxes(), sizes;
  if (op.getSizes())
    sizes = *op.getSizes();
  else if (like)
    sizes = like.getShape();
  if (!input || sizes.size() != axes.size() ||
      llvm::any_of(axes, [&](int64_t axis) { return axis < 0 || axis >= input.getRank(); }))
    return emitOptionalError(location, "'nn.resize' op needs a ranked input, axes of it, and a size for each of them");
  SmallVector<int64_t> shape(input.getShape());
  for (auto [axis, size] : llvm::zip_equal(axes, sizes))
    shape[axis] = size < 0 && !ShapedType::isDynamic(size) ? 0 : size; // the verifier refuses it
  results.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SmallVector<Sizes> ResizeOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  for (auto [number, axis] : llvm::enumerate(getAxes()))
    result[axis] = getSizes() ? getAffineConstantExpr((*getSizes())[number], getContext()) : sizes[1][number];
  return {result};
}

INTARSIA_NO_EQUAL_SIZES(ResizeOp)

/// There is an element to read, even if the result has none.
SizePairs ResizeOp::getLeastSizes(SizesRange sizes) {
  SizePairs pairs;
  for (int64_t axis : getAxes())
    if (typeOf(getResult()).getDimSize(axis) != 0)
      pairs.push_back({getAffineConstantExpr(1, getContext()), sizes[0][axis]});
  return pairs;
}

Work ResizeOp::getWork(SizesRange, SizesRange resultSizes) {
  if (getKind() == Interpolation::Nearest)
    return {};
  int64_t flops = 0;
  for (unsigned number = 0; number < getAxes().size(); ++number) {
    double width = getAntialias() ? std::max(1.0f, getStep(number).value_or(1.0f)) : 1.0f;
    flops += 2 * static_cast<int64_t>(std::ceil(width * (getKind() == Interpolation::Linear ? 2 : 4)));
  }
  return workOfElements(*this, resultSizes[0], flops, 0);
}

/// Where each position reads the one of its own number, the input is the result.
OpFoldResult ResizeOp::fold(FoldAdaptor) {
  if (getInput().getType() != getType() || !getSizes())
    return {};
  for (unsigned number = 0; number < getAxes().size(); ++number) {
    std::optional<float> step = getStep(number);
    float shift = getShifts() ? (*getShifts())[number] : 0, offset = getOffsets() ? (*getOffsets())[number] : 0;
    if (!step || *step != 1 || shift != -offset)
      return {};
  }
  return getInput();
}
