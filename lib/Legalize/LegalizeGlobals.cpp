//===- LegalizeGlobals.cpp - Globals become constants, and states of sessions ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"

#include "dialects/Nn/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZEGLOBALS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;
using namespace intarsia;

namespace {
/// The value of each state at a point of a function.
using Current = llvm::MapVector<StringAttr, Value>;

StringAttr nameOf(SymbolRefAttr symbol) { return symbol.getRootReference(); }

/// Makes the states of one function arguments and results.
class FunctionStates {
public:
  FunctionStates(func::FuncOp function, const llvm::SetVector<StringAttr> &states)
      : function(function), states(states), builder(function.getContext()) {}

  LogicalResult run(SymbolTable &symbols) {
    llvm::SetVector<StringAttr> used, written;
    collect(function, used, written);
    if (used.empty())
      return success();
    Current current;
    for (StringAttr state : used) {
      auto global = symbols.lookup<ml_program::GlobalOp>(state);
      unsigned number = function.getNumArguments();
      if (failed(function.insertArgument(number, global.getType(), attributesOf(state), global.getLoc())))
        return failure();
      current[state] = function.getArgument(number);
    }
    Block &body = function.getBody().front();
    if (failed(visit(body, current)))
      return failure();
    Operation *end = body.getTerminator();
    for (StringAttr state : written) {
      end->insertOperands(end->getNumOperands(), current[state]);
      if (failed(function.insertResult(function.getNumResults(), current[state].getType(), attributesOf(state))))
        return failure();
    }
    return success();
  }

private:
  DictionaryAttr attributesOf(StringAttr state) {
    return builder.getDictionaryAttr({builder.getNamedAttr("nn.global", state),
                                      builder.getNamedAttr("nn.name", builder.getStringAttr("@" + state.getValue()))});
  }

  /// Finds the states that are used, and those that are written, in an op and its regions.
  void collect(Operation *op, llvm::SetVector<StringAttr> &used, llvm::SetVector<StringAttr> &written) const {
    op->walk([&](Operation *inner) {
      if (auto load = dyn_cast<ml_program::GlobalLoadOp>(inner); load && states.contains(nameOf(load.getGlobal())))
        used.insert(nameOf(load.getGlobal()));
      if (auto store = dyn_cast<ml_program::GlobalStoreOp>(inner)) {
        used.insert(nameOf(store.getGlobal()));
        written.insert(nameOf(store.getGlobal()));
      }
    });
  }

  LogicalResult visit(Block &block, Current &current) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto load = dyn_cast<ml_program::GlobalLoadOp>(op)) {
        load.replaceAllUsesWith(current[nameOf(load.getGlobal())]);
        load.erase();
      } else if (auto store = dyn_cast<ml_program::GlobalStoreOp>(op)) {
        current[nameOf(store.getGlobal())] = store.getValue();
        store.erase();
      } else if (op.getNumRegions() != 0 && failed(visitRegions(&op, current))) {
        return failure();
      }
    }
    return success();
  }

  LogicalResult visitRegions(Operation *op, Current &current) {
    llvm::SetVector<StringAttr> used, written;
    collect(op, used, written);
    if (used.empty())
      return success();
    builder.setInsertionPoint(op);
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<scf::IfOp, scf::ForOp, scf::WhileOp>([&](auto one) { return carry(one, written.getArrayRef(), current); })
        .Default([&](Operation *other) {
          return other->emitError() << "'" << other->getName() << "' reads or writes the global '@"
                                    << used.front().getValue()
                                    << "' inside: of ops with regions, scf.if, scf.for and scf.while pass states on";
        });
  }

  SmallVector<Value> valuesOf(ArrayRef<StringAttr> written, Current &current) {
    return llvm::map_to_vector(written, [&](StringAttr state) { return current[state]; });
  }

  /// Replaces an op by one with more results, which are the states that it has written.
  void replace(Operation *op, Operation *by, ArrayRef<StringAttr> written, Current &current) {
    by->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    for (auto [state, result] : llvm::zip_equal(written, by->getResults().drop_front(op->getNumResults())))
      current[state] = result;
    op->replaceAllUsesWith(by->getResults().take_front(op->getNumResults()));
    op->erase();
  }

  LogicalResult carry(scf::IfOp op, ArrayRef<StringAttr> written, Current &current) {
    SmallVector<Type> types(op.getResultTypes());
    for (Value value : valuesOf(written, current))
      types.push_back(value.getType());
    auto branch = scf::IfOp::create(builder, op.getLoc(), types, op.getCondition(), /*addThenBlock=*/false,
                                    /*addElseBlock=*/false);
    for (auto [from, to] : llvm::zip_equal(op->getRegions(), branch->getRegions())) {
      to.takeBody(from);
      if (to.empty()) {
        OpBuilder inner(builder.getContext());
        inner.createBlock(&to);
        scf::YieldOp::create(inner, op.getLoc());
      }
      Current inside = current;
      if (failed(visit(to.front(), inside)))
        return failure();
      Operation *yield = to.front().getTerminator();
      yield->insertOperands(yield->getNumOperands(), valuesOf(written, inside));
    }
    replace(op, branch, written, current);
    return success();
  }

  LogicalResult carry(scf::ForOp op, ArrayRef<StringAttr> written, Current &current) {
    SmallVector<Value> inits(op.getInitArgs());
    llvm::append_range(inits, valuesOf(written, current));
    auto loop = scf::ForOp::create(
        builder, op.getLoc(), op.getLowerBound(), op.getUpperBound(), op.getStep(), inits,
        [](OpBuilder &, Location, Value, ValueRange) {}, op.getUnsignedCmp());
    Current inside = current;
    SmallVector<Type> added =
        llvm::map_to_vector(valuesOf(written, current), [](Value value) { return value.getType(); });
    loop.getRegion().takeBody(op.getRegion());
    Block &body = loop.getRegion().front();
    for (auto [state, type] : llvm::zip_equal(written, added))
      inside[state] = body.addArgument(type, op.getLoc());
    if (body.empty() || !body.back().hasTrait<OpTrait::IsTerminator>()) {
      OpBuilder inner = OpBuilder::atBlockEnd(&body);
      scf::YieldOp::create(inner, op.getLoc());
    }
    if (failed(visit(body, inside)))
      return failure();
    Operation *yield = body.getTerminator();
    yield->insertOperands(yield->getNumOperands(), valuesOf(written, inside));
    replace(op, loop, written, current);
    return success();
  }

  LogicalResult carry(scf::WhileOp op, ArrayRef<StringAttr> written, Current &current) {
    SmallVector<Value> inits(op.getInits());
    llvm::append_range(inits, valuesOf(written, current));
    SmallVector<Type> types(op.getResultTypes());
    SmallVector<Type> added =
        llvm::map_to_vector(valuesOf(written, current), [](Value value) { return value.getType(); });
    llvm::append_range(types, added);
    auto loop = scf::WhileOp::create(builder, op.getLoc(), types, inits);
    for (auto [from, to] : llvm::zip_equal(op->getRegions(), loop->getRegions())) {
      to.takeBody(from);
      Current inside = current;
      for (auto [state, type] : llvm::zip_equal(written, added))
        inside[state] = to.front().addArgument(type, op.getLoc());
      if (failed(visit(to.front(), inside)))
        return failure();
      Operation *yield = to.front().getTerminator();
      yield->insertOperands(yield->getNumOperands(), valuesOf(written, inside));
    }
    replace(op, loop, written, current);
    return success();
  }

  func::FuncOp function;
  const llvm::SetVector<StringAttr> &states;
  OpBuilder builder;
};

struct LegalizeGlobals : legalize::impl::LegalizeGlobalsBase<LegalizeGlobals> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(check(module)))
      return signalPassFailure();
    SymbolTable symbols(module);
    llvm::SetVector<StringAttr> states;
    module.walk([&](ml_program::GlobalStoreOp store) { states.insert(nameOf(store.getGlobal())); });
    if (failed(replaceConstants(symbols, states)))
      return signalPassFailure();
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && failed(FunctionStates(function, states).run(symbols)))
        return signalPassFailure();
    if (!states.empty() && failed(makeInitialStates(module, symbols, states)))
      return signalPassFailure();
    for (auto global : llvm::make_early_inc_range(module.getOps<ml_program::GlobalOp>()))
      global.erase();
  }

  /// Refuses ops of ml_program that are none of globals, and their names that are none.
  static LogicalResult check(ModuleOp module) {
    WalkResult result = module.walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
      if (!isa<ml_program::MLProgramDialect>(op->getDialect()))
        return WalkResult::advance();
      if (!isa<ml_program::GlobalOp, ml_program::GlobalLoadOp, ml_program::GlobalLoadConstOp,
               ml_program::GlobalStoreOp>(op))
        return op->emitError() << "'" << op->getName()
                               << "' is not compiled: of ml_program, globals and what loads and stores them are; write "
                                  "functions as func.func";
      if (auto global = dyn_cast<ml_program::GlobalOp>(op)) {
        auto type = dyn_cast<RankedTensorType>(global.getType());
        if (!type)
          return global.emitError() << "global '@" << global.getSymName() << "' is " << global.getType()
                                    << ", must be a ranked tensor";
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// Returns the value that a global begins with; null after an error if it has none.
  static TypedAttr initialValue(ml_program::GlobalOp global) {
    auto value = dyn_cast_if_present<ElementsAttr>(global.getValue().value_or(Attribute()));
    if (!value)
      global.emitError() << "global '@" << global.getSymName()
                         << "' has no initial value: give it one, such as (dense<0.0> : " << global.getType() << ")";
    else if (value.getType() != global.getType()) {
      global.emitError() << "global '@" << global.getSymName() << "' is " << global.getType() << ", its initial value "
                         << value.getType();
      return nullptr;
    }
    return value ? cast<TypedAttr>(Attribute(value)) : nullptr;
  }

  /// Replaces what reads a global that is no state.
  LogicalResult replaceConstants(SymbolTable &symbols, const llvm::SetVector<StringAttr> &states) {
    SmallVector<std::pair<Operation *, StringAttr>> loads;
    getOperation().walk([&](Operation *op) {
      if (auto load = dyn_cast<ml_program::GlobalLoadOp>(op))
        loads.emplace_back(op, nameOf(load.getGlobal()));
      if (auto load = dyn_cast<ml_program::GlobalLoadConstOp>(op))
        loads.emplace_back(op, nameOf(load.getGlobal()));
    });
    for (auto [load, name] : loads) {
      if (states.contains(name))
        continue;
      auto value = initialValue(symbols.lookup<ml_program::GlobalOp>(name));
      if (!value)
        return failure();
      OpBuilder builder(load);
      load->replaceAllUsesWith(arith::ConstantOp::create(builder, load->getLoc(), value));
      load->erase();
    }
    return success();
  }

  LogicalResult makeInitialStates(ModuleOp module, SymbolTable &symbols, const llvm::SetVector<StringAttr> &states) {
    SmallVector<Type> types;
    for (StringAttr state : states)
      types.push_back(symbols.lookup<ml_program::GlobalOp>(state).getType());
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto function =
        func::FuncOp::create(builder, module.getLoc(), "initial_states", builder.getFunctionType({}, types));
    symbols.insert(function);
    function->setAttr("nn.runs_at_load", builder.getUnitAttr());
    builder.setInsertionPointToStart(function.addEntryBlock());
    SmallVector<Value> values;
    for (auto [number, state] : llvm::enumerate(states)) {
      auto global = symbols.lookup<ml_program::GlobalOp>(state);
      auto value = initialValue(global);
      if (!value)
        return failure();
      values.push_back(arith::ConstantOp::create(builder, global.getLoc(), value));
      function.setResultAttr(number, "nn.global", state);
    }
    func::ReturnOp::create(builder, module.getLoc(), values);
    return success();
  }
};
} // namespace
