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
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace intarsia;

namespace intarsia::workflow {
namespace {
llvm::raw_ostream &operator<<(llvm::raw_ostream &out, const Amount &amount) {
  out << llvm::format("%.6g", amount.mean());
  if (!amount.isConstant())
    out << llvm::format(" (p95 %.6g)", amount.p95());
  return out;
}

llvm::raw_ostream &operator<<(llvm::raw_ostream &out, const Quantity &quantity) {
  return out << quantity.amount << ' ' << nameOf(quantity.unit);
}

void printTask(llvm::raw_ostream &out, const Graph &graph, const Task &task) {
  out << nameOf(task.kind);
  if (task.model >= 0)
    out << " @" << graph.models[task.model].name;
  if (task.index >= 0)
    out << " @" << graph.indexes[task.index].name;
  if (task.tool >= 0)
    out << " @" << graph.tools[task.tool].name;
  if (task.memory >= 0)
    out << " @" << graph.memories[task.memory].name;
  out << llvm::format(", %.6g executions, probability %.6g", task.executions, task.probability);
  if (task.latencyMs)
    out << ", takes " << *task.latencyMs << " ms";
  if (task.kind == Kind::Prefill)
    out << ", new " << task.prompt.newTokens << ", cached " << task.prompt.cachedTokens << ", generated "
        << task.prompt.generatedTokens;
  if (task.kind == Kind::Decode)
    out << ", context " << task.contextTokens << (task.answers ? ", answers" : "");
  if (task.kind != Kind::Prefill && task.kind != Kind::Write)
    out << ", gives " << task.output;
  if (task.background)
    out << ", in the background";
  if (task.pair >= 0)
    out << ", with " << graph.tasks[task.pair].name;
  if (task.placement)
    out << ", on " << task.placement->pool;
  if (!task.together.empty())
    out << ", together " << task.together;
  if (!task.apart.empty())
    out << ", apart " << task.apart;
  for (const auto &[run, prompt] : llvm::enumerate(task.promptByRun))
    if (task.promptByRun.size() > 1)
      out << "\n    run " << run << ": new " << prompt.newTokens << ", cached " << prompt.cachedTokens << ", generated "
          << prompt.generatedTokens;
}

void printRegion(llvm::raw_ostream &out, const Graph &graph, int index, unsigned indent) {
  const Region &region = graph.regions[index];
  out.indent(indent);
  switch (region.kind) {
  case Region::Kind::Task:
    out << graph.tasks[region.task].name;
    break;
  case Region::Kind::Dag:
    out << "dag";
    break;
  case Region::Kind::Branch:
    out << "branch";
    break;
  case Region::Kind::Loop:
    out << "loop" << (region.keepsPrefix ? ", keeps prefix" : "");
    break;
  case Region::Kind::Map:
    out << "map";
    break;
  }
  if (!region.name.empty())
    out << " '" << region.name << "'";
  for (double probability : region.probabilities)
    out << llvm::format(" %.6g", probability);
  for (auto [count, probability] : region.counts)
    out << llvm::format(" %lld:%.6g", static_cast<long long>(count), probability);
  if (region.concurrency)
    out << ", " << *region.concurrency << " at once";
  auto list = [&](const char *what, const std::vector<int> &edges) {
    if (edges.empty())
      return;
    out << ", " << what;
    for (int edge : edges)
      out << " e" << edge;
  };
  list("entry", region.entryEdges);
  list("back", region.backEdges);
  for (const Region::Arc &arc : region.arcs) {
    out << "; " << arc.from << (arc.streaming ? " ~> " : " -> ") << arc.to;
    for (int edge : arc.edges)
      out << " e" << edge;
  }
  out << '\n';
  for (int child : region.children)
    printRegion(out, graph, child, indent + 2);
}

void printGraph(llvm::raw_ostream &out, const Graph &graph) {
  out << "graph " << graph.name;
  if (graph.sla.latencyMs < unlimited)
    out << llvm::format(", p%g %g ms", 100 * graph.sla.percentile, graph.sla.latencyMs);
  if (graph.sla.ttftMs < unlimited)
    out << llvm::format(", ttft %g ms", graph.sla.ttftMs);
  if (graph.sla.tbtMs < unlimited)
    out << llvm::format(", tbt %g ms", graph.sla.tbtMs);
  if (graph.sla.requestsPerSecond > 0)
    out << llvm::format(", %g requests/s", graph.sla.requestsPerSecond);
  out << '\n';
  for (const Task &task : graph.tasks) {
    out << "  task " << task.name << ": ";
    printTask(out, graph, task);
    out << '\n';
  }
  for (auto [number, edge] : llvm::enumerate(graph.edges)) {
    out << "  e" << number << ": " << (edge.from < 0 ? "request" : graph.tasks[edge.from].name)
        << (edge.streaming ? " ~> " : " -> ") << (edge.to < 0 ? "answer" : graph.tasks[edge.to].name) << ", "
        << nameOf(edge.flow) << ", " << edge.amount;
    if (edge.bytes)
      out << llvm::format(", %.6g bytes", *edge.bytes);
    if (edge.every)
      out << ", every " << *edge.every;
    out << '\n';
  }
  printRegion(out, graph, graph.root, 2);
}
} // namespace
} // namespace intarsia::workflow

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
      workflow::printGraph(llvm::outs(), *extracted);
    }
  }
};
} // namespace

void intarsia::testing::registerAgentGraph() { PassRegistration<TestAgentGraph>(); }
