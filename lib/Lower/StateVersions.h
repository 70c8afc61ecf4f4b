//===- StateVersions.h - States of a function, and the tensors that are their versions ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_STATEVERSIONS_H
#define INTARSIA_LIB_LOWER_STATEVERSIONS_H

#include "dialects/Nn/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"

namespace intarsia::lower {

using namespace mlir;

/// The states of a function: arguments with nn.state. Kernels update them in place, so that all versions of a state lie
/// in the memory of the argument: those that kernels compute, those that branches yield, those that loops carry. At
/// each op one version is the current one, and no op may use another.
class StateVersions {
public:
  /// Finds all versions of all states. Fails, with an error, where an op uses a version that is not the current one, or
  /// where control flow passes on something else than the current version of one state.
  LogicalResult find(func::FuncOp function);

  /// Returns the state that a tensor is a version of; null if it is none.
  BlockArgument stateOf(Value tensor) const { return states.lookup(tensor); }
  bool contains(Value tensor) const { return states.contains(tensor); }
  /// Calls a function with each version.
  void forEach(llvm::function_ref<void(Value, BlockArgument)> action) const {
    for (auto [version, state] : states)
      action(version, state);
  }
  /// Returns the groups that use a state, in their order.
  ArrayRef<nn::GroupOp> usersOf(BlockArgument state) const {
    auto found = users.find(state);
    return found == users.end() ? ArrayRef<nn::GroupOp>() : ArrayRef<nn::GroupOp>(found->second);
  }

private:
  /// The current version of each state; null if control flow has updated it and not passed it on.
  using Current = llvm::MapVector<BlockArgument, Value>;

  LogicalResult visit(Block &block, Current &current);
  LogicalResult visit(nn::GroupOp group, Current &current);
  LogicalResult visit(scf::IfOp op, Current &current);
  LogicalResult visit(scf::ForOp op, Current &current);
  LogicalResult visit(scf::WhileOp op, Current &current);
  LogicalResult visit(func::ReturnOp op, Current &current);
  LogicalResult use(Operation *op, Value value, const Current &current);
  FailureOr<BlockArgument> pass(Operation *op, Value value, const Current &current);
  FailureOr<SmallVector<BlockArgument>> passAll(Operation *op, ValueRange values, const Current &current);
  void replace(Operation *op, BlockArgument state, Value version, Current &current);
  InFlightDiagnostic staleError(Operation *op, Value version, const Current &current);

  func::FuncOp function;
  DenseMap<Value, BlockArgument> states;
  DenseMap<Value, Operation *> updaters; ///< of versions that are no longer current: what has replaced them
  DenseMap<BlockArgument, SmallVector<nn::GroupOp>> users;
};

/// Returns the operand of a group that one of its results is an update of; nullopt for results with memory of their
/// own.
std::optional<unsigned> updatedArgument(nn::GroupOp group, unsigned result);

/// Returns the name of an argument of an entry point, for messages.
std::string nameOf(BlockArgument argument);

} // namespace intarsia::lower

#endif
