//===- ControlFlow.h - Values that branches and loops pass on ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_ANALYSIS_CONTROLFLOW_H
#define INTARSIA_ANALYSIS_CONTROLFLOW_H

#include "mlir/IR/Operation.h"

namespace intarsia {

struct SizeConstraint;

/// Returns true for an op with regions that the host runs: scf.if, scf.for, scf.while.
bool isControlFlow(mlir::Operation *op);

/// Returns the values that a value of control flow may be: what the branches yield for a result of scf.if; what a loop
/// begins with and yields, or what its condition passes on, for its results and the arguments of its regions. Returns
/// nothing for other values and for a loop's counter.
llvm::SmallVector<mlir::Value> sourcesOf(mlir::Value value);

/// Returns the results and arguments of control flow that may be the value of a use. Returns nothing for other uses.
llvm::SmallVector<mlir::Value> targetsOf(mlir::OpOperand &use);

/// Returns the innermost branch of an scf.if that a condition on sizes stands in: only calls that take the branch must
/// meet it. Returns null if all calls must.
mlir::Block *branchOf(const SizeConstraint &constraint);

} // namespace intarsia

#endif
