//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_FLEET_H
#define INTARSIA_DIALECTS_FLEET_H

#include "dialects/Fleet/Figures.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/Fleet/FleetDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Fleet/FleetAttrs.h.inc"

namespace intarsia::fleet {
/// A number format is one of elementTypes; else the nearest names are said.
mlir::LogicalResult verifyPrecision(EmitError emitError, llvm::StringRef precision);

/// A misspelt attribute would be kept and never read: what has no dialect's prefix (`note.author`) must be one that the
/// op has; else the nearest names are said.
mlir::LogicalResult verifyKnownAttributes(mlir::Operation *op);

template <typename ConcreteType>
class KnownAttributes : public mlir::OpTrait::TraitBase<ConcreteType, KnownAttributes> {
public:
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) { return verifyKnownAttributes(op); }
};
} // namespace intarsia::fleet

#define GET_OP_CLASSES
#include "dialects/Fleet/FleetOps.h.inc"

namespace intarsia::fleet {
/// A placement names a pool that exists, and takes no more devices than it has.
mlir::LogicalResult verifyPlacement(mlir::Operation *op, PlacementAttr placement, mlir::SymbolTableCollection &tables);
} // namespace intarsia::fleet

#endif
