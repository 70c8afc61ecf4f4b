//===- ControlFlow.cpp - Values that branches and loops pass on -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/ControlFlow.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia {

bool isControlFlow(Operation *op) { return isa<scf::IfOp, scf::ForOp, scf::WhileOp>(op); }

// Upstream's RegionBranchOpInterface leaves out the branches that constants rule out; the host program has them all.
SmallVector<Value> sourcesOf(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  Operation *op = argument ? argument.getOwner()->getParentOp() : value.getDefiningOp();
  unsigned number = argument ? argument.getArgNumber() : cast<OpResult>(value).getResultNumber();
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return {branch.thenYield().getOperand(number), branch.elseYield().getOperand(number)};
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    if (argument && number == 0)
      return {}; // the counter
    number -= argument ? loop.getNumInductionVars() : 0;
    return {loop.getInitArgs()[number], loop.getYieldedValues()[number]};
  }
  if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    if (argument && argument.getOwner() == loop.getBeforeBody())
      return {loop.getInits()[number], loop.getYieldOp().getOperand(number)};
    return {loop.getConditionOp().getArgs()[number]};
  }
  return {};
}

SmallVector<Value> targetsOf(OpOperand &use) {
  unsigned number = use.getOperandNumber();
  return llvm::TypeSwitch<Operation *, SmallVector<Value>>(use.getOwner())
      .Case([&](scf::ForOp loop) -> SmallVector<Value> {
        if (number < loop.getNumControlOperands())
          return {};
        number -= loop.getNumControlOperands();
        return {loop.getRegionIterArgs()[number], loop.getResult(number)};
      })
      .Case([&](scf::WhileOp loop) -> SmallVector<Value> { return {loop.getBeforeArguments()[number]}; })
      .Case([&](scf::ConditionOp condition) -> SmallVector<Value> {
        auto loop = cast<scf::WhileOp>(condition->getParentOp());
        if (number == 0)
          return {};
        return {loop.getAfterArguments()[number - 1], loop.getResult(number - 1)};
      })
      .Case([&](scf::YieldOp yield) -> SmallVector<Value> {
        if (auto loop = dyn_cast<scf::ForOp>(yield->getParentOp()))
          return {loop.getRegionIterArgs()[number], loop.getResult(number)};
        if (auto loop = dyn_cast<scf::WhileOp>(yield->getParentOp()))
          return {loop.getBeforeArguments()[number]};
        return {yield->getParentOp()->getResult(number)};
      })
      .Default([](Operation *) { return SmallVector<Value>(); });
}

} // namespace intarsia
