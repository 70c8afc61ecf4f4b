//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// --test-agent-graph: prints what is extracted from each public agent.graph, for the tests.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Agent/Agent.h"
#include "intarsia/Plan/AgentGraph.h"
#include "intarsia/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "test/passes/TestPasses.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace intarsia;

namespace {
struct TestAgentGraph : PassWrapper<TestAgentGraph, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestAgentGraph)
  StringRef getArgument() const override { return "test-agent-graph"; }
  StringRef getDescription() const override { return "Prints the plain data that a planner sees of agent graphs"; }
  void runOnOperation() override {
    SymbolTableCollection tables;
    for (auto graph : getOperation().getOps<agent::GraphOp>()) {
      FailureOr<workflow::Graph> extracted = extractAgentGraph(graph, tables);
      if (failed(extracted))
        return signalPassFailure();
      extracted->print(llvm::outs());
    }
  }
};
} // namespace

void intarsia::testing::registerAgentGraph() { PassRegistration<TestAgentGraph>(); }
