//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/TmTensor/TmTensor.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace intarsia::tm_tensor;

#include "dialects/TmTensor/TmTensorDialect.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/TmTensor/TmTensorOps.cpp.inc"

void TmTensorDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/TmTensor/TmTensorOps.cpp.inc"
      >();
}

/// Verifies what all ops have in common: results are the outputs, and the region takes `arguments` elements and yields
/// one value.
template <typename Op> static LogicalResult verifyCommon(Op op, TypeRange arguments, Type yielded) {
  if (op.getOutputs().empty() || op.getResultTypes() != op.getOutputs().getTypes())
    return op.emitOpError() << "has results of other types than its outputs";
  if (!op.getRegion().hasOneBlock())
    return op.emitOpError() << "has a region of " << op.getRegion().getBlocks().size() << " blocks, must be one";
  Block &body = op.getRegion().front();
  if (TypeRange(body.getArgumentTypes()) != arguments)
    return op.emitOpError() << "has a region with other arguments than elements: " << arguments;
  auto yield = dyn_cast_or_null<YieldOp>(body.empty() ? nullptr : &body.back());
  if (!yield || yield.getOperandTypes() != TypeRange(yielded))
    return op.emitOpError() << "has a region that does not yield " << yielded;
  return success();
}

static LogicalResult verifyDimension(Operation *op, int64_t dimension, int64_t rank) {
  if (dimension >= 0 && dimension < rank)
    return success();
  return op->emitOpError() << "is along dimension " << dimension << " of " << rank;
}

LogicalResult ScanOp::verify() {
  if (getInputs().size() != 1 || getOutputs().size() != 2)
    return emitOpError() << "has " << getInputs().size() << " inputs and " << getOutputs().size()
                         << " outputs, must have one and two";
  auto input = cast<RankedTensorType>(getInputs()[0].getType()),
       last = cast<RankedTensorType>(getOutputs()[1].getType());
  if (failed(verifyDimension(*this, getDimension(), input.getRank())))
    return failure();
  SmallVector<int64_t> shape(input.getShape());
  shape.erase(shape.begin() + getDimension());
  if (getOutputs()[0].getType() != input || last.getShape() != ArrayRef(shape))
    return emitOpError() << "has outputs that are not of the input's shape, and of that without its dimension";
  Type element = input.getElementType();
  return verifyCommon(*this, {element, element}, element);
}

LogicalResult ScatterOp::verify() {
  if (getInputs().size() != 2 || getOutputs().size() != 1)
    return emitOpError() << "has " << getInputs().size() << " inputs and " << getOutputs().size()
                         << " outputs, must have two and one";
  auto updates = cast<RankedTensorType>(getInputs()[0].getType()),
       indices = cast<RankedTensorType>(getInputs()[1].getType());
  auto original = cast<RankedTensorType>(getOutputs()[0].getType());
  int64_t depth = getDimensionMap().size();
  if (indices.getRank() != 2 || indices.getDimSize(1) != depth || !indices.getElementType().isIntOrIndex())
    return emitOpError() << "has indices " << indices << ", must be [count, " << depth
                         << "] integers as dimension_map says";
  if (updates.getRank() < 1 || updates.getRank() - 1 > original.getRank() ||
      original.getRank() - (updates.getRank() - 1) > depth || updates.getElementType() != original.getElementType())
    return emitOpError() << "has updates " << updates << " that do not fit into " << original;
  auto areDifferent = [](int64_t a, int64_t b) { return ShapedType::isStatic(a) && ShapedType::isStatic(b) && a != b; };
  if (areDifferent(updates.getDimSize(0), indices.getDimSize(0)))
    return emitOpError() << "has " << updates.getDimSize(0) << " updates and " << indices.getDimSize(0) << " indices";
  for (auto [column, dimension] : llvm::enumerate(getDimensionMap())) {
    if (failed(verifyDimension(*this, dimension, original.getRank())))
      return failure();
    if (llvm::is_contained(getDimensionMap().take_front(column), dimension))
      return emitOpError() << "has dimension " << dimension << " in dimension_map twice";
  }
  ArrayRef<int64_t> slice = updates.getShape().drop_front(), whole = original.getShape().take_back(slice.size());
  for (auto [size, limit] : llvm::zip_equal(slice, whole))
    if (areDifferent(size, limit) && size > limit)
      return emitOpError() << "has updates " << updates << " of slices that are larger than " << original;
  Type element = original.getElementType();
  return verifyCommon(*this, {element, element}, element);
}

LogicalResult SortOp::verify() {
  if (!getInputs().empty() || getOutputs().empty())
    return emitOpError() << "has " << getInputs().size() << " inputs and " << getOutputs().size()
                         << " outputs, must have none and some";
  auto first = cast<RankedTensorType>(getOutputs()[0].getType());
  if (failed(verifyDimension(*this, getDimension(), first.getRank())))
    return failure();
  SmallVector<Type> elements;
  for (Type type : getOutputs().getTypes()) {
    auto output = cast<RankedTensorType>(type);
    if (output.getShape() != first.getShape())
      return emitOpError() << "has outputs " << first << " and " << output << " of different shapes";
    elements.append(2, output.getElementType());
  }
  return verifyCommon(*this, elements, IntegerType::get(getContext(), 1));
}
