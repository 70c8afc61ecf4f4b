//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

#define INTARSIA_UNARY(Op, flops, transcendentals)                                                                     \
  INTARSIA_RESULT_LIKE_FIRST(Op)                                                                                       \
  INTARSIA_NO_EQUAL_SIZES(Op)                                                                                          \
  Work Op::getWork(SizesRange operandSizes, SizesRange) {                                                              \
    return workOfElements(*this, operandSizes[0], flops, transcendentals);                                             \
  }
INTARSIA_UNARY(GeluOp, 4, 1)
INTARSIA_UNARY(SiluOp, 3, 1)
INTARSIA_UNARY(ReluOp, 1, 0)
INTARSIA_UNARY(TanhOp, 0, 1)
INTARSIA_UNARY(SigmoidOp, 2, 1)
#undef INTARSIA_UNARY

OpFoldResult ReluOp::fold(FoldAdaptor adaptor) {
  // Values that cannot be negative stay as they are, NaN included.
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
