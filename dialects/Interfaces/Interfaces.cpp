//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/Interfaces.h"

using namespace mlir;

AffineExpr intarsia::elementCount(MLIRContext *context, llvm::ArrayRef<AffineExpr> sizes) {
  AffineExpr count = getAffineConstantExpr(1, context);
  for (AffineExpr size : sizes)
    count = count * size;
  return count;
}

#include "dialects/Interfaces/BlockFormatInterface.cpp.inc"
#include "dialects/Interfaces/CostOpInterface.cpp.inc"
#include "dialects/Interfaces/KernelOpInterfaces.cpp.inc"
#include "dialects/Interfaces/KernelRoot.cpp.inc"
#include "dialects/Interfaces/ReferenceOpInterface.cpp.inc"
#include "dialects/Interfaces/SizeOpInterface.cpp.inc"
