//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_PROGRAMS_H
#define INTARSIA_LIB_TARGET_WAFER_PROGRAMS_H

#include "dialects/Wafer/Wafer.h"
#include "intarsia/Cost/WaferCatalogue.h"
#include "lib/Runtime/Wafer/Program.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace intarsia::wafer {

/// Cores along a side of the smallest grid: what one core would send to itself has no route.
constexpr int64_t smallestGrid = 2;

/// Returns a wafer of the catalogue by name (`wse-2`), or that of a YAML file if the name ends in `.yaml`.
llvm::Expected<CatalogueWafer> waferNamed(llvm::StringRef nameOrFile);
/// The same as an attribute.
llvm::Expected<TargetAttr> targetNamed(mlir::MLIRContext *context, llvm::StringRef nameOrFile);

/// Returns a program as the plain data that the simulator runs.
Program extractProgram(ProgramOp op);

} // namespace intarsia::wafer

namespace mlir {
class OpPassManager;
}

namespace intarsia {
/// Registers the passes of lib/Target/Wafer.
void registerWaferPasses();
/// Appends the passes from distributed products to programs, which are verified unless only their times are wanted.
void buildWaferPipeline(mlir::OpPassManager &pipeline, llvm::StringRef target, bool verifies = true);
} // namespace intarsia

#endif
