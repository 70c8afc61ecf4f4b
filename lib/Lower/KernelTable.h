//===- KernelTable.h - One kernel for each different group -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_KERNELTABLE_H
#define INTARSIA_LIB_LOWER_KERNELTABLE_H

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"

namespace intarsia::lower {

/// The arguments of a launch of a kernel.
struct KernelUse {
  rt::KernelOp kernel;
  llvm::SmallVector<mlir::AffineExpr> sizes; ///< value of each of the kernel's symbols
};

/// The kernels of a module. Groups of the same structure share one.
class KernelTable {
public:
  /// New kernels are put before `before`.
  KernelTable(mlir::SymbolTable &symbols, mlir::Operation *before) : symbols(symbols), before(before) {}

  /// Moves the body of `group` into a kernel of a device, or finds one that is equal. `layouts` has the layout of each
  /// operand that is a weight, null for others. Fails with an error if a size of a result is not known from sizes of
  /// the arguments.
  mlir::FailureOr<KernelUse> add(nn::GroupOp group, mlir::FlatSymbolRefAttr device,
                                 mlir::ArrayRef<rt::LayoutAttrInterface> layouts, const SymbolicSizes &sizes);

private:
  mlir::SymbolTable &symbols;
  mlir::Operation *before;
  llvm::StringMap<rt::KernelOp> byStructure;
};

/// The names in the user's model that a group comes from: the names of its root op, or of its first op that has one.
std::string labelOf(nn::GroupOp group);
/// The names in a location, empty if there are none.
std::string labelOf(mlir::Location location);

} // namespace intarsia::lower

#endif
