//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_AGENT_H
#define INTARSIA_DIALECTS_AGENT_H

#include "dialects/Fleet/Fleet.h"
#include "lib/Support/Amount.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Agent/AgentDialect.h.inc"
#include "dialects/Agent/AgentEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Agent/AgentAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Agent/AgentTypes.h.inc"

namespace intarsia::agent {

/// Returns the unit of the values of a type of this dialect.
Unit unitOf(mlir::Type type);

/// Verifies that the names that a task is given are not empty.
mlir::LogicalResult verifyTask(mlir::Operation *op);
/// Verifies that the pools of a task's placement exist.
mlir::LogicalResult verifyTaskSymbols(mlir::Operation *op, mlir::SymbolTableCollection &tables);

} // namespace intarsia::agent

#include "dialects/Agent/AgentInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/Agent/AgentOps.h.inc"

#endif
