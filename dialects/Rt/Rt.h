//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_RT_H
#define INTARSIA_DIALECTS_RT_H

#include "dialects/Nn/Nn.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/Error.h"

#include "dialects/Rt/TensorReader.h"
#include "dialects/Rt/TensorStorage.h"

#include "dialects/Rt/LayoutInterface.h.inc"
#include "dialects/Rt/RtDialect.h.inc"
#include "dialects/Rt/RtEnums.h.inc"
#include "dialects/Rt/RtInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Rt/RtAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Rt/RtTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/Rt/RtOps.h.inc"

namespace intarsia::rt {

/// The device that an op before the lower phase runs on: a FlatSymbolRefAttr.
inline constexpr llvm::StringLiteral deviceAttr = "rt.device";
/// On a function: the name of the function that it stands for on other devices.
inline constexpr llvm::StringLiteral alternativeAttr = "rt.alternative";
/// On a function of a split module: the number of the rank that runs it.
inline constexpr llvm::StringLiteral rankAttr = "rt.rank";
/// On a function of a rank that is one of the stages of a pipeline: their number, an integer.
inline constexpr llvm::StringLiteral stagesAttr = "rt.stages";
/// On the grid of the ranks: a StringAttr "int8" if messages of sums between hosts are rounded to 8 bits.
inline constexpr llvm::StringLiteral messagesAttr = "rt.messages";
/// True if an op computes tensors on a device: weights, views and sizes are wherever they are read.
bool runsOnDevice(mlir::Operation *op);
/// Returns the device whose own memory a buffer is in; null for memory of the host.
mlir::FlatSymbolRefAttr memoryDeviceOf(mlir::Type memref);
/// Returns the ranks of a grid that differ from one of them along an axis only, by their place on it. Ranks are
/// numbered with the last axis fastest.
llvm::SmallVector<int64_t> rowOfRanks(int64_t rank, llvm::ArrayRef<int64_t> shape, int64_t axis);

/// Returns the lifetime of a buffer of a host program, through any views of it; nullopt if it is not known.
std::optional<Lifetime> lifetimeOf(mlir::Value buffer);

/// On a module: the form of IR that it is in, an integer, and the program that wrote it, a string. Files without them
/// were written by hand, and are in the form of the compiler that reads them.
inline constexpr llvm::StringLiteral formAttr = "rt.form", producerAttr = "rt.producer";

/// Attributes that the lower phase leaves on host functions for the manifest. Arguments keep their `nn.*` attributes.
/// Names of the symbolic sizes, in the order in which a call gives them: array of strings.
inline constexpr llvm::StringLiteral hostSymbolsAttr = "rt.symbols";
/// A dictionary for each result: `type` (the tensor type), `nn.name`, `nn.sizes` (a name or expression for each
/// dynamic dimension, "" for static ones).
inline constexpr llvm::StringLiteral hostResultsAttr = "rt.results";

} // namespace intarsia::rt

#endif
