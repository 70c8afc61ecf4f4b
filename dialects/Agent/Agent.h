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

/// What values of a type of this dialect are counted in.
Unit unitOf(mlir::Type type);

/// What holds for each task: names that are not empty, amounts that can be.
mlir::LogicalResult verifyTask(mlir::Operation *op);
/// The pools that a task is placed on exist.
mlir::LogicalResult verifyTaskSymbols(mlir::Operation *op, mlir::SymbolTableCollection &tables);

} // namespace intarsia::agent

#include "dialects/Agent/AgentInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/Agent/AgentOps.h.inc"

#endif
