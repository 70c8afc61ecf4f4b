//===- plan.cpp - Fuzz the reader of a plan of before --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Plan.h"
#include "dialects/Agent/Agent.h"
#include "dialects/Fleet/Fleet.h"
#include "intarsia/Plan/AgentGraph.h"
#include "intarsia/Registration/Registration.h"
#include "lib/Import/Mlir/MlirFile.h"
#include "lib/Plan/Planner/Driver.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace intarsia;

namespace {
/// Holds the graphs and the problem of the example whose plans are the seeds.
class Example {
public:
  Example() {
    OwningOpRef<ModuleOp> module = parse("/examples/agents/debate.mlir"),
                          fleetModule = parse("/examples/fleets/dc.mlir");
    PassManager passes(&context);
    buildDecomposePipeline(passes);
    if (failed(passes.run(*module)))
      __builtin_trap();
    SymbolTableCollection tables;
    for (auto graph : module->getOps<agent::GraphOp>())
      graphs.push_back(*extractAgentGraph(graph, tables));
    plan::Fleet fleet =
        *plan::fleetOf(*fleetModule->getOps<fleet::SystemOp>().begin(), INTARSIA_SOURCE "/examples/fleets");
    built = llvm::cantFail(plan::buildProblem(graphs, fleet, {}));
  }

  std::vector<workflow::Graph> graphs;
  plan::BuiltProblem built;

private:
  OwningOpRef<ModuleOp> parse(StringRef file) {
    auto buffer = llvm::MemoryBuffer::getFile(INTARSIA_SOURCE + file);
    llvm::SourceMgr sources;
    return llvm::cantFail(parseMlir(std::move(*buffer), sources, &context));
  }

  static DialectRegistry registry() {
    DialectRegistry all;
    registerAllIntarsia(all);
    return all;
  }

  MLIRContext context{registry()};
};
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const Example example;
  int file = memfd_create("plan", 0);
  if (file < 0 || write(file, data, bytes) != ssize_t(bytes))
    __builtin_trap();
  auto replan = plan::readPrevious("/proc/self/fd/" + std::to_string(file), example.graphs, example.built);
  close(file);
  if (!replan) {
    if (toString(replan.takeError()).empty())
      __builtin_trap();
    return 0;
  }
  // Each current piece has a placement, from its own candidates or none.
  const std::vector<plan::Piece> &pieces = example.built.problem.pieces;
  if (replan->before.size() != pieces.size())
    __builtin_trap();
  for (auto [placed, piece] : llvm::zip_equal(replan->before, pieces))
    if (placed.choice < -1 || placed.choice >= int(piece.candidates.size()) || placed.replicas < 0)
      __builtin_trap();
  return 0;
}
