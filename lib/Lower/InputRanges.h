//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_INPUTRANGES_H
#define INTARSIA_LIB_LOWER_INPUTRANGES_H

#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace intarsia::lower {

/// Arguments whose elements are all indices of an `nn.embedding` get its rows as their `nn.range`, unless they have a
/// narrower one. Fails with an error at the op if a given range or default is not inside the table.
mlir::LogicalResult inferInputRanges(mlir::func::FuncOp function, const SymbolicSizes &sizes);

} // namespace intarsia::lower

#endif
