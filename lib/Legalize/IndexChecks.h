//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LEGALIZE_INDEXCHECKS_H
#define INTARSIA_LEGALIZE_INDEXCHECKS_H

#include "dialects/Interfaces/Interfaces.h"
#include "intarsia/Analysis/SymbolicSizes.h"

namespace intarsia::legalize {

/// Emits what the host asserts of a number that a kernel has computed, an i64 in a tensor of rank 0: without a sign it
/// is below `limit`, an i64, or it is zero if there is no limit.
void assertNumber(mlir::OpBuilder &builder, mlir::Location location, mlir::Value computed, mlir::Value limit,
                  const llvm::Twine &message);

/// Lets the host check the integers of operands that are indices, at the end of the op's block. Those that kernels
/// guard are checked here, unless they are proven to be inside; those that inputs hold are left to the start of the
/// call (InputRanges.cpp) where the op has a kernel: other ops are loops then.
void checkIndexOperands(IndexOperandOpInterface op, const SymbolicSizes &sizes);

} // namespace intarsia::legalize

#endif
