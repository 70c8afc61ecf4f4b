//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_WAFER_H
#define INTARSIA_DIALECTS_WAFER_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Wafer/WaferDialect.h.inc"
#include "dialects/Wafer/WaferEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Wafer/WaferAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Wafer/WaferOps.h.inc"

namespace intarsia::wafer {
/// Returns the bytes of a buffer in each core. Memory is read in words of 32 bits.
int64_t bytesOf(mlir::MemRefType buffer);
} // namespace intarsia::wafer

#endif
