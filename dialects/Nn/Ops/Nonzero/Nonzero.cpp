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

LogicalResult NonzeroOp::verify() { return verifyLeastRank(*this, "input", getInput(), 1); }

LogicalResult NonzeroOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, ValueRange operands,
                                          DictionaryAttr, OpaqueProperties, RegionRange,
                                          SmallVectorImpl<Type> &results) {
  auto input = dyn_cast<RankedTensorType>(operands[0].getType());
  if (!input)
    return emitOptionalError(location, "'nn.nonzero' op needs a ranked input");
  int64_t elements = input.hasStaticShape() ? input.getNumElements() : ShapedType::kDynamic;
  Type i64 = IntegerType::get(context, 64);
  results.push_back(RankedTensorType::get({elements, input.getRank()}, i64));
  results.push_back(RankedTensorType::get({}, i64));
  return success();
}

SmallVector<Sizes> NonzeroOp::inferResultSizes(SizesRange sizes) {
  AffineExpr rank = getAffineConstantExpr(sizes[0].size(), getContext());
  return {{elementCount(getContext(), sizes[0]), rank}, {}};
}

INTARSIA_NO_EQUAL_SIZES(NonzeroOp)

/// A search among the counts before each element.
Work NonzeroOp::getWork(SizesRange operandSizes, SizesRange) { return workOfElements(*this, operandSizes[0], 32, 0); }
