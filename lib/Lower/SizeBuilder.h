//===- SizeBuilder.h - Sizes as values of the host program
//-----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_SIZEBUILDER_H
#define INTARSIA_LIB_LOWER_SIZEBUILDER_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include <string>

namespace intarsia::lower {

/// Writes size expressions as index arithmetic, each once, before a given op of the host function.
class SizeBuilder {
public:
  /// names[i] is the name of symbol i.
  SizeBuilder(mlir::Operation *before, mlir::ArrayRef<std::string> names) : builder(before), names(names) {}

  mlir::Value valueOf(mlir::AffineExpr expression);
  /// The expression as the user would write it: "batch", "batch * sequence".
  std::string textOf(mlir::AffineExpr expression) const;

private:
  mlir::OpBuilder builder;
  mlir::ArrayRef<std::string> names;
  llvm::DenseMap<mlir::AffineExpr, mlir::Value> values;
};

} // namespace intarsia::lower

#endif
