//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The part of the plan phase that needs no costs: tasks of agent graphs become pieces.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_PLAN_H
#define INTARSIA_PLAN_PLAN_H

#include "intarsia/Plan/AgentGraph.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/PassManager.h"

namespace intarsia {

namespace agent {
class GraphOp;
}

/// Appends the passes that turn the agent graphs of a module into the input of extractAgentGraph: they inline calls,
/// split language models into prefill and decode and retrievals into embedding and search, insert encoders for non-text
/// inputs, and write the expected work.
void buildDecomposePipeline(mlir::OpPassManager &pipeline);

/// Returns a decomposed graph as plain data. Fails, with an error at the op, if something in it is not decomposed.
mlir::FailureOr<workflow::Graph> extractAgentGraph(agent::GraphOp graph, mlir::SymbolTableCollection &tables);

/// Registers the passes of lib/Plan and the pipeline --plan-decompose.
void registerPlanPasses();

} // namespace intarsia

#endif
