//===- ConstantTable.h - Weights as a module names them ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_CONSTANTTABLE_H
#define INTARSIA_LIB_LOWER_CONSTANTTABLE_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseMap.h"

namespace intarsia::lower {

/// The constants of a module, one for each different recipe and layout.
class ConstantTable {
public:
  /// Constants go before the op `before`.
  ConstantTable(mlir::SymbolTable &symbols, mlir::Operation *before) : symbols(symbols), before(before) {}

  /// Returns the name of the constant that holds a prepacked tensor; its recipe is a copy of the ops that make the
  /// tensor.
  mlir::FlatSymbolRefAttr add(mlir::Value tensor, rt::LayoutAttrInterface layout);

private:
  mlir::SymbolTable &symbols;
  mlir::Operation *before;
  llvm::DenseMap<size_t, llvm::SmallVector<rt::ConstantOp, 1>> constants; // by their hash
};

} // namespace intarsia::lower

#endif
