//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_H
#define INTARSIA_DIALECTS_NN_H

#include "dialects/Interfaces/Interfaces.h"
#include "lib/Formats/GgmlTypes.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace intarsia::nn {
/// True if two lists of types have equal element types and shapes that could be the same.
bool areCompatible(mlir::TypeRange a, mlir::TypeRange b);
/// The number of `nn.default`: i1 is 0 or 1, other types without a sign have one.
int64_t numberOf(mlir::IntegerAttr number);
} // namespace intarsia::nn

#include "dialects/Nn/NnDialect.h.inc"
#include "dialects/Nn/NnEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Nn/NnAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Nn/NnOps.h.inc"

namespace intarsia::nn {
/// The layout of a quantized cache: slots of a page, bits of a value.
struct CodeLayout {
  int64_t page, bits;
};
CodeLayout codeLayoutOf(CacheAppendQuantizedOp op);
/// Returns the layout of a float cache: slots of a page, bits of an element.
CodeLayout codeLayoutOf(CachedAttentionOp op);
} // namespace intarsia::nn

#endif
