//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

#define GET_OP_CLASSES
#include "dialects/Nn/NnOps.cpp.inc"

bool nn::areCompatible(TypeRange a, TypeRange b) {
  if (a.size() != b.size())
    return false;
  for (auto [left, right] : llvm::zip_equal(a, b))
    if (getElementTypeOrSelf(left) != getElementTypeOrSelf(right) || failed(verifyCompatibleShape(left, right)))
      return false;
  return true;
}
