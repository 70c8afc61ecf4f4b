//===- StateVersions.cpp - States of a function, and the tensors that are their versions -------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/StateVersions.h"

#include "intarsia/Analysis/ControlFlow.h"
#include "lib/Lower/HostProgram.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::lower {

//===-- Names and groups --------------------------------------------------------------------------------------===//

std::string nameOf(BlockArgument argument) {
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto name = function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.name") : StringAttr();
  return name ? name.str() : "arg" + std::to_string(argument.getArgNumber());
}

/// Returns the op of a group that computes one of its results as an update of an operand; null if it is no update.
static OpResult updateOf(nn::GroupOp group, unsigned result) {
  auto value = dyn_cast<OpResult>(group.getBodyBlock().getTerminator()->getOperand(result));
  return value && isa<InPlaceOpInterface>(value.getOwner()) ? value : OpResult();
}

std::optional<unsigned> updatedArgument(nn::GroupOp group, unsigned result) {
  OpResult update = updateOf(group, result);
  if (!update)
    return std::nullopt;
  Value operand = cast<InPlaceOpInterface>(update.getOwner()).getUpdatedOperand(update.getResultNumber()).get();
  auto argument = dyn_cast<BlockArgument>(operand);
  return argument ? std::optional(argument.getArgNumber()) : std::nullopt;
}

/// Returns the name of an op in quotes, for messages.
static std::string quoted(Operation *op) { return "'" + op->getName().getStringRef().str() + "'"; }

/// Describes what control flow passes on, for messages.
static std::string describe(BlockArgument state) {
  return state ? "the state '" + nameOf(state) + "'" : "a tensor that is no state";
}

//===-- Uses --------------------------------------------------------------------------------------------------===//

/// Emits an error at an op that uses a version of a state which is not the current one.
InFlightDiagnostic StateVersions::staleError(Operation *op, Value version, const Current &current) {
  BlockArgument state = stateOf(version);
  Operation *updater = updaters.lookup(version);
  if (updater && isa<InPlaceOpInterface>(updater)) {
    InFlightDiagnostic error = updater->emitOpError() << "updates a tensor in place that something else reads";
    error.attachNote(op->getLoc()) << quoted(op) << " uses the state '" << nameOf(state) << "' as it was before";
    return error;
  }
  if (updater && !current.lookup(state))
    return op->emitError() << quoted(op) << " uses the state '" << nameOf(state) << "', which " << quoted(updater)
                           << " updates and does not pass on; let " << quoted(updater) << " yield its last version";
  return op->emitError() << quoted(op) << " uses an older version of the state '" << nameOf(state) << "'"
                         << (updater ? ": " + quoted(updater) + " carries it on, so use the version that it gives"
                                     : std::string());
}

/// Checks that an op, which reads a tensor, reads the current version if it is one of a state.
LogicalResult StateVersions::use(Operation *op, Value value, const Current &current) {
  Value root = viewRoot(value);
  BlockArgument state = stateOf(root);
  if (!state || current.lookup(state) == root)
    return success();
  return staleError(op, root, current);
}

/// Returns the state that control flow passes on with a value; null if the value is no version of a state.
FailureOr<BlockArgument> StateVersions::pass(Operation *op, Value value, const Current &current) {
  Value root = viewRoot(value);
  BlockArgument state = stateOf(root);
  if (!state)
    return BlockArgument();
  if (root != value)
    return op->emitError() << quoted(op) << " passes on a view of the state '" << nameOf(state)
                           << "'; pass on the state itself";
  if (current.lookup(state) == value)
    return state;
  InFlightDiagnostic error = op->emitError() << quoted(op) << " passes on an older version of the state '"
                                             << nameOf(state) << "'; pass on its last version";
  if (Operation *updater = updaters.lookup(value))
    error.attachNote(updater->getLoc()) << quoted(updater) << " updates it in place";
  return error;
}

/// Returns the state that control flow passes on with each of several values. A state is passed on once at most.
FailureOr<SmallVector<BlockArgument>> StateVersions::passAll(Operation *op, ValueRange values, const Current &current) {
  SmallVector<BlockArgument> passed;
  for (Value value : values) {
    FailureOr<BlockArgument> state = pass(op, value, current);
    if (failed(state))
      return failure();
    if (*state && llvm::is_contained(passed, *state))
      return op->emitError() << quoted(op) << " passes on the state '" << nameOf(*state) << "' twice";
    passed.push_back(*state);
  }
  return passed;
}

/// Makes a value the current version of a state. An op has replaced the version before.
void StateVersions::replace(Operation *op, BlockArgument state, Value version, Current &current) {
  Value &now = current[state];
  if (now)
    updaters[now] = op;
  now = version;
  if (version)
    states[version] = state;
}

//===-- Ops ---------------------------------------------------------------------------------------------------===//

LogicalResult StateVersions::visit(nn::GroupOp group, Current &current) {
  for (Value input : group.getInputs()) {
    if (failed(use(group, input, current)))
      return failure();
    if (BlockArgument state = stateOf(viewRoot(input)))
      if (SmallVector<nn::GroupOp> &list = users[state]; list.empty() || list.back() != group)
        list.push_back(group);
  }
  for (OpResult result : group->getResults()) {
    std::optional<unsigned> operand = updatedArgument(group, result.getResultNumber());
    BlockArgument state = operand ? stateOf(group.getInputs()[*operand]) : BlockArgument();
    if (!state)
      continue;
    Operation *updater = updateOf(group, result.getResultNumber()).getOwner();
    auto isSame = [&](Value input) { return viewRoot(input) == group.getInputs()[*operand]; };
    if (!group.getBodyBlock().getArgument(*operand).hasOneUse() || llvm::count_if(group.getInputs(), isSame) != 1)
      return updater->emitOpError() << "updates a tensor in place that something else reads";
    replace(updater, state, result, current);
  }
  return success();
}

LogicalResult StateVersions::visit(scf::IfOp op, Current &current) {
  Current ends[] = {current, current};
  SmallVector<BlockArgument> passed[2];
  for (unsigned branch = 0; branch < 2; ++branch) {
    Block *block = branch ? op.elseBlock() : op.thenBlock();
    if (!block)
      continue;
    if (failed(visit(*block, ends[branch])))
      return failure();
    auto states = passAll(block->getTerminator(), block->getTerminator()->getOperands(), ends[branch]);
    if (failed(states))
      return failure();
    passed[branch] = std::move(*states);
  }
  Current before = current;
  for (auto [result, first, second] : llvm::zip(op.getResults(), passed[0], passed[1])) {
    if (first != second)
      return op.emitError() << quoted(op) << " yields " << describe(first) << " in one branch and " << describe(second)
                            << " in the other: a state stays in its own memory, so yield its last version in both";
    if (first)
      replace(op, first, result, current);
  }
  for (auto [state, version] : before)
    if (current.lookup(state) == version && (ends[0].lookup(state) != version || ends[1].lookup(state) != version))
      replace(op, state, Value(), current);
  return success();
}

/// Checks that a loop goes on with the states that it begins with, each at its index.
static LogicalResult checkCarried(Operation *loop, ArrayRef<BlockArgument> first, ArrayRef<BlockArgument> next) {
  for (auto [number, begun, yielded] : llvm::enumerate(first, next))
    if (begun != yielded)
      return loop->emitError() << quoted(loop) << " begins with " << describe(begun) << " and goes on with "
                               << describe(yielded) << " as value " << number
                               << ": a state stays in its own memory, so yield the last version of the same state";
  return success();
}

/// Checks that a loop updates no other states than those that it carries.
static LogicalResult checkOthers(Operation *loop, ArrayRef<BlockArgument> carried,
                                 const llvm::MapVector<BlockArgument, Value> &before,
                                 const llvm::MapVector<BlockArgument, Value> &after) {
  for (auto [state, version] : before)
    if (!llvm::is_contained(carried, state) && after.lookup(state) != version)
      return loop->emitError() << quoted(loop) << " updates the state '" << nameOf(state)
                               << "' and does not carry it: let it begin with the state and yield its last version";
  return success();
}

LogicalResult StateVersions::visit(scf::ForOp op, Current &current) {
  auto carried = passAll(op, op.getInitArgs(), current);
  if (failed(carried))
    return failure();
  Current inside = current;
  for (auto [argument, state] : llvm::zip_equal(op.getRegionIterArgs(), *carried))
    if (state)
      replace(op, state, argument, inside);
  if (failed(visit(*op.getBody(), inside)))
    return failure();
  auto yielded = passAll(op.getBody()->getTerminator(), op.getYieldedValues(), inside);
  if (failed(yielded) || failed(checkCarried(op, *carried, *yielded)) ||
      failed(checkOthers(op, *carried, current, inside)))
    return failure();
  for (auto [result, state] : llvm::zip_equal(op.getResults(), *carried))
    if (state)
      replace(op, state, result, current);
  return success();
}

LogicalResult StateVersions::visit(scf::WhileOp op, Current &current) {
  auto carried = passAll(op, op.getInits(), current);
  if (failed(carried))
    return failure();
  Current inside = current;
  for (auto [argument, state] : llvm::zip_equal(op.getBeforeArguments(), *carried))
    if (state)
      replace(op, state, argument, inside);
  if (failed(visit(*op.getBeforeBody(), inside)))
    return failure();
  scf::ConditionOp condition = op.getConditionOp();
  auto passed = passAll(condition, condition.getArgs(), inside);
  if (failed(passed) || failed(checkOthers(op, *carried, current, inside)))
    return failure();
  for (BlockArgument state : *passed)
    if (state && !llvm::is_contained(*carried, state))
      return condition.emitError() << quoted(condition) << " passes on the state '" << nameOf(state)
                                   << "', which the loop does not carry: let it begin with the state and yield its "
                                      "last version";
  for (BlockArgument state : *carried)
    if (state) {
      replace(condition, state, Value(), inside);
      replace(op, state, Value(), current);
    }
  for (auto [argument, result, state] : llvm::zip_equal(op.getAfterArguments(), op.getResults(), *passed))
    if (state) {
      replace(condition, state, argument, inside);
      replace(op, state, result, current);
    }
  Current before = inside;
  if (failed(visit(*op.getAfterBody(), inside)))
    return failure();
  auto yielded = passAll(op.getYieldOp(), op.getYieldOp().getOperands(), inside);
  if (failed(yielded) || failed(checkCarried(op, *carried, *yielded)))
    return failure();
  return checkOthers(op, *carried, before, inside);
}

LogicalResult StateVersions::visit(func::ReturnOp op, Current &current) {
  for (auto [number, operand] : llvm::enumerate(op.getOperands())) {
    if (failed(use(op, operand, current)))
      return failure();
    auto argument = function.getResultAttrOfType<IntegerAttr>(number, "nn.state");
    if (argument && stateOf(viewRoot(operand)) != function.getArgument(argument.getInt()))
      return op.emitOpError() << "result " << number << " is not argument " << argument.getInt()
                              << " in its last state, as its nn.state says";
  }
  return success();
}

LogicalResult StateVersions::visit(Block &block, Current &current) {
  for (Operation &op : block) {
    LogicalResult visited = llvm::TypeSwitch<Operation *, LogicalResult>(&op)
                                .Case<nn::GroupOp, scf::IfOp, scf::ForOp, scf::WhileOp, func::ReturnOp>(
                                    [&](auto one) { return visit(one, current); })
                                .Case<scf::YieldOp, scf::ConditionOp, tensor::DimOp>([](auto) { return success(); })
                                .Default([&](Operation *other) {
                                  // A view reads nothing; what uses it does.
                                  auto isGood = [&](Value value) { return succeeded(use(other, value, current)); };
                                  return success(isView(*other) || llvm::all_of(other->getOperands(), isGood));
                                });
    if (failed(visited))
      return failure();
  }
  return success();
}

LogicalResult StateVersions::find(func::FuncOp source) {
  function = source;
  Current current;
  for (BlockArgument argument : function.getArguments())
    if (function.getArgAttr(argument.getArgNumber(), "nn.state"))
      replace(function, argument, argument, current);
  return visit(function.getBody().front(), current);
}

} // namespace intarsia::lower
