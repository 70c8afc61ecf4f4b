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

LogicalResult SoftmaxOp::verify() { return verifyLeastRank(*this, "input", getInput(), 1); }

INTARSIA_RESULT_LIKE_FIRST(SoftmaxOp)
INTARSIA_NO_EQUAL_SIZES(SoftmaxOp)

Work SoftmaxOp::getWork(SizesRange operandSizes, SizesRange) { return workOfElements(*this, operandSizes[0], 4, 1); }
