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
/// Verifies that a number format is one of elementTypes; the error names the nearest.
mlir::LogicalResult verifyPrecision(EmitError emitError, llvm::StringRef precision);

/// Verifies that attributes without a dialect's prefix (`note.author`) are the op's own, as a misspelt one would be
/// kept and never read; the error names the nearest. Verifies too that no name or text of the op has control
/// characters: plans and the files that are written from them have them on lines of their own.
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
/// Verifies that a placement names a pool that exists, and takes no more devices than it has.
mlir::LogicalResult verifyPlacement(mlir::Operation *op, PlacementAttr placement, mlir::SymbolTableCollection &tables);
} // namespace intarsia::fleet

#endif
