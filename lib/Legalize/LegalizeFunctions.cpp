//===- LegalizeFunctions.cpp - What functions of a file may be compiled ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"

#include "mlir/Conversion/ControlFlowToSCF/ControlFlowToSCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZEFUNCTIONS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

static LogicalResult refuseModules(ModuleOp module) {
  auto inner = module.getOps<ModuleOp>();
  if (inner.empty())
    return success();
  return (*inner.begin())->emitError("a module inside of a module is not compiled: move its functions out of it");
}

static LogicalResult refuseCallsOfValues(ModuleOp module) {
  WalkResult result = module.walk([](func::CallIndirectOp call) -> WalkResult {
    return call.emitError() << "'" << call->getName() << "' calls a function that is a value: call it by its name";
  });
  return failure(result.wasInterrupted());
}

/// Drops declarations of functions that nothing refers to, and refuses the first of the others.
static LogicalResult takeDeclarations(ModuleOp module) {
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    if (!function.isExternal())
      continue;
    std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(function, module);
    if (uses && uses->empty()) {
      function.erase();
      continue;
    }
    Operation *user = uses ? uses->begin()->getUser() : function.getOperation();
    InFlightDiagnostic error = user->emitError()
                               << "function '" << function.getName()
                               << "' has no body here: artifacts have no code but their own, so define it in this file";
    error.attachNote(function.getLoc()) << "it is declared here";
    return error;
  }
  return success();
}

/// Gives ops in the regions of named ops, such as linalg.round, the location of the named op.
static void locateRegions(ModuleOp module) {
  module.walk<WalkOrder::PreOrder>([](linalg::LinalgOp named) {
    named->walk([&](Operation *op) {
      if (isa<UnknownLoc>(op->getLoc()))
        op->setLoc(named.getLoc());
    });
  });
}

/// Turns branches between blocks, also those of scf.execute_region, into scf.if and scf.while.
static LogicalResult liftBlocks(ModuleOp module,
                                function_ref<LogicalResult(OpPassManager &, Operation *)> runPipeline) {
  WalkResult found = module.walk([](Operation *op) {
    return WalkResult(failure(
        llvm::any_of(op->getRegions(), [](Region &region) { return !region.empty() && !region.hasOneBlock(); })));
  });
  if (!found.wasInterrupted())
    return success();
  OpPassManager manager(ModuleOp::getOperationName());
  manager.addNestedPass<func::FuncOp>(createLiftControlFlowToSCFPass());
  return runPipeline(manager, module);
}

/// Refuses the first function that calls itself, and says by way of which others.
static LogicalResult refuseRecursion(ModuleOp module) {
  SymbolTable symbols(module);
  DenseMap<Operation *, SmallVector<func::CallOp>> calls;
  module.walk([&](func::CallOp call) { calls[call->getParentOfType<func::FuncOp>()].push_back(call); });
  DenseSet<Operation *> done;
  for (auto function : module.getOps<func::FuncOp>()) {
    // The functions that are being looked at, each with the number of its next call.
    SmallVector<std::pair<Operation *, unsigned>> path;
    if (done.insert(function).second)
      path.push_back({function, 0});
    while (!path.empty()) {
      auto &[caller, next] = path.back();
      ArrayRef<func::CallOp> own = calls[caller];
      if (next == own.size()) {
        path.pop_back();
        continue;
      }
      func::CallOp call = own[next++];
      Operation *callee = symbols.lookup(call.getCallee());
      auto *cycle = llvm::find_if(path, [&](const auto &step) { return step.first == callee; });
      if (cycle == path.end()) {
        if (callee && done.insert(callee).second)
          path.push_back({callee, 0});
        continue;
      }
      InFlightDiagnostic error = call.emitError()
                                 << "the call of '" << call.getCallee()
                                 << "' cannot be inlined: functions that call themselves are not compiled";
      for (const auto &[between, after] : ArrayRef(cycle, path.end()).drop_back())
        error.attachNote(calls[between][after - 1].getLoc())
            << "'" << calls[between][after - 1].getCallee() << "' is called here";
      return error;
    }
  }
  return success();
}

namespace {
struct LegalizeFunctions : intarsia::legalize::impl::LegalizeFunctionsBase<LegalizeFunctions> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    locateRegions(module);
    if (failed(refuseModules(module)) || failed(refuseCallsOfValues(module)) || failed(takeDeclarations(module)) ||
        failed(liftBlocks(module, [&](OpPassManager &manager, Operation *op) { return runPipeline(manager, op); })) ||
        failed(inlineCalls(module)))
      signalPassFailure();
  }

  /// Inlines all calls of functions. A private function that was called is dropped then.
  LogicalResult inlineCalls(ModuleOp module) {
    llvm::SetVector<StringAttr> called;
    module.walk([&](func::CallOp call) { called.insert(call.getCalleeAttr().getAttr()); });
    if (called.empty())
      return success();
    if (failed(refuseRecursion(module)))
      return failure();
    OpPassManager manager(ModuleOp::getOperationName());
    // The inliner gets no pipeline that simplifies: ops stay as the user wrote them.
    manager.addPass(createInlinerPass(/*opPipelines=*/{}, /*defaultPipelineBuilder=*/[](OpPassManager &) {}));
    if (failed(runPipeline(manager, module)))
      return failure();
    SymbolTable symbols(module);
    for (StringAttr name : called)
      if (auto function = symbols.lookup<func::FuncOp>(name);
          function && function.isPrivate() && SymbolTable::symbolKnownUseEmpty(function, module))
        function.erase();
    return success();
  }
};
} // namespace
