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

LogicalResult CumulateOp::verify() {
  if (failed(verifyLeastRank(*this, "input", getInput(), 1)))
    return failure();
  using Kind = vector::CombiningKind;
  Kind kind = getKind();
  bool isAny = kind == Kind::ADD || kind == Kind::MUL;
  bool isOfFloats = kind == Kind::MINIMUMF || kind == Kind::MAXIMUMF || kind == Kind::MINNUMF || kind == Kind::MAXNUMF;
  Type element = typeOf(getInput()).getElementType();
  if (!isAny && isOfFloats != isa<FloatType>(element))
    return emitOpError() << "combines elements by '" << stringifyCombiningKind(kind) << "', which is not for "
                         << element;
  return success();
}

INTARSIA_RESULT_LIKE_FIRST(CumulateOp)
INTARSIA_NO_EQUAL_SIZES(CumulateOp)

Work CumulateOp::getWork(SizesRange operandSizes, SizesRange) { return workOfElements(*this, operandSizes[0], 1, 0); }
