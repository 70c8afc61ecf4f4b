//===- ConstantTable.h - Weights as a module names them ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_CONSTANTTABLE_H
#define INTARSIA_LIB_LOWER_CONSTANTTABLE_H

#include "dialects/Rt/Rt.h"
#include "lib/Lower/WeightExpression.h"
#include "mlir/IR/SymbolTable.h"

namespace intarsia::lower {

/// The constants of a module, one for each different expression and layout.
class ConstantTable {
public:
  /// Constants go before the op `before`.
  ConstantTable(mlir::SymbolTable &symbols, mlir::Operation *before) : symbols(symbols), before(before) {}

  /// The name of the constant.
  mlir::FlatSymbolRefAttr add(const WeightExpression &expression, rt::LayoutAttr layout, mlir::Location location);

private:
  mlir::SymbolTable &symbols;
  mlir::Operation *before;
  llvm::DenseMap<mlir::Attribute, mlir::FlatSymbolRefAttr> names;
};

} // namespace intarsia::lower

#endif
