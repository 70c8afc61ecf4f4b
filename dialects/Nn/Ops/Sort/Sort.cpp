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

static LogicalResult verifyAxis(Operation *op, Value input, int64_t axis) {
  if (failed(verifyLeastRank(op, "input", input, 1)))
    return failure();
  if (axis >= 0 && axis < typeOf(input).getRank())
    return success();
  return op->emitOpError() << "has the axis " << axis << ", input has rank " << typeOf(input).getRank();
}

LogicalResult TopKOp::verify() {
  int64_t axis = getAxis(), k = getK();
  if (failed(verifyAxis(*this, getInput(), axis)))
    return failure();
  int64_t size = typeOf(getInput()).getDimSize(axis);
  if (k < 0)
    return emitOpError() << "has a k of " << k << ", the least is 0";
  if (!ShapedType::isDynamic(size) && k > size)
    return emitOpError() << "has a k of " << k << ", axis " << axis << " has " << size << " elements";
  return success();
}

LogicalResult SortOp::verify() { return verifyAxis(*this, getInput(), getAxis()); }

/// Adds the types of values and indices of this shape.
static void addTypes(ArrayRef<int64_t> shape, Type element, SmallVectorImpl<Type> &results) {
  results.push_back(RankedTensorType::get(shape, element));
  results.push_back(RankedTensorType::get(shape, IntegerType::get(element.getContext(), 64)));
}

LogicalResult TopKOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                       DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                       SmallVectorImpl<Type> &results) {
  TopKOp::Adaptor op(operands, attributes, properties, regions);
  auto input = dyn_cast<RankedTensorType>(op.getInput().getType());
  int64_t axis = op.getAxis();
  if (!input || axis < 0 || axis >= input.getRank())
    return emitOptionalError(location, "'nn.top_k' op needs a ranked input and one of its dimensions as axis");
  SmallVector<int64_t> shape(input.getShape());
  shape[axis] = std::max<int64_t>(op.getK(), 0); // the verifier refuses less
  addTypes(shape, input.getElementType(), results);
  return success();
}

LogicalResult SortOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                       DictionaryAttr, OpaqueProperties, RegionRange, SmallVectorImpl<Type> &results) {
  auto input = dyn_cast<RankedTensorType>(operands[0].getType());
  if (!input)
    return emitOptionalError(location, "'nn.sort' op needs a ranked input");
  addTypes(input.getShape(), input.getElementType(), results);
  return success();
}

SmallVector<Sizes> TopKOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  result[getAxis()] = getAffineConstantExpr(getK(), getContext());
  return {result, result};
}

SmallVector<Sizes> SortOp::inferResultSizes(SizesRange sizes) { return {sizes[0], sizes[0]}; }

INTARSIA_NO_EQUAL_SIZES(TopKOp)
INTARSIA_NO_EQUAL_SIZES(SortOp)

SizePairs TopKOp::getLeastSizes(SizesRange sizes) {
  return {{getAffineConstantExpr(getK(), getContext()), sizes[0][getAxis()]}};
}

/// Comparisons of a merge sort of runs of at most `longest` elements; of a dynamic size each with each other.
static Work workOfSort(Operation *op, const Sizes &sizes, int64_t size, int64_t longest) {
  if (ShapedType::isDynamic(size))
    return {elementCount(op->getContext(), sizes) * 1024, getAffineConstantExpr(0, op->getContext())};
  int64_t steps = llvm::Log2_64_Ceil(std::max<int64_t>(std::min(size, longest), 2));
  return workOfElements(op, sizes, 2 * steps * steps, 0);
}

Work TopKOp::getWork(SizesRange operandSizes, SizesRange) {
  return workOfSort(*this, operandSizes[0], typeOf(getInput()).getDimSize(getAxis()), getK());
}

Work SortOp::getWork(SizesRange operandSizes, SizesRange) {
  int64_t size = typeOf(getInput()).getDimSize(getAxis());
  return workOfSort(*this, operandSizes[0], size, size);
}
