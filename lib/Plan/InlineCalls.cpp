//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace intarsia::plan {
#define GEN_PASS_DEF_PLANINLINECALLS
#include "lib/Plan/Passes.h.inc"
} // namespace intarsia::plan

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

namespace {
struct PlanInlineCalls : plan::impl::PlanInlineCallsBase<PlanInlineCalls> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTableCollection tables;
    // The loop ends, as graphs do not call themselves: each round inlines calls one level down.
    llvm::SmallPtrSet<Operation *, 8> called;
    for (SmallVector<CallOp> calls = plan::collect<CallOp>(module); !calls.empty();
         calls = plan::collect<CallOp>(module))
      for (CallOp call : calls) {
        auto callee = tables.lookupNearestSymbolFrom<GraphOp>(call, call.getCalleeAttr());
        inlineCall(call, callee);
        called.insert(callee);
      }
    for (auto graph : llvm::make_early_inc_range(module.getOps<GraphOp>()))
      if (graph.isPrivate() && called.contains(graph))
        graph.erase();
  }

  static void inlineCall(CallOp call, GraphOp callee) {
    OpBuilder builder(call);
    std::string prefix = (call.getLabel() ? *call.getLabel() : callee.getSymName()).str() + "/";
    IRMapping mapping;
    mapping.map(callee.getBody().getArguments(), call.getInputs());
    Block &body = callee.getBody().front();
    for (Operation &op : body.without_terminator()) {
      Operation *copy = builder.clone(op, mapping);
      copy->walk([&](Operation *inner) {
        inner->setLoc(CallSiteLoc::get(inner->getLoc(), call.getLoc()));
        if (auto label = inner->getAttrOfType<StringAttr>("label"))
          inner->setAttr("label", builder.getStringAttr(prefix + label.getValue()));
      });
    }
    for (auto [result, value] : llvm::zip_equal(call.getResults(), body.getTerminator()->getOperands()))
      result.replaceAllUsesWith(mapping.lookup(value));
    call.erase();
  }
};
} // namespace
