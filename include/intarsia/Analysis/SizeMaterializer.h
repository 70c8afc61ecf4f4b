//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_ANALYSIS_SIZEMATERIALIZER_H
#define INTARSIA_ANALYSIS_SIZEMATERIALIZER_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include <functional>

namespace intarsia {

/// Writes size expressions as `arith` ops on index or integer values, each expression once: nothing else makes
/// code of them. Rounds as AffineExpr says: floordiv down, ceildiv up, the result of mod is not negative.
class SizeMaterializer {
public:
  /// Returns the existing value of an expression, null if there is none. It is called for every expression and for its
  /// parts; it must know the symbols.
  using Known = std::function<mlir::Value(mlir::AffineExpr)>;

  SizeMaterializer(mlir::Type type, Known known) : type(type), known(std::move(known)) {}

  /// Returns the value of the expression, written at the builder's insertion point; null if a symbol has none. The
  /// builder may move only to points where earlier values are defined.
  mlir::Value get(mlir::OpBuilder &builder, mlir::Location location, mlir::AffineExpr expression);

private:
  mlir::Value make(mlir::OpBuilder &builder, mlir::Location location, mlir::AffineExpr expression);

  mlir::Type type;
  Known known;
  llvm::DenseMap<mlir::AffineExpr, mlir::Value> values;
};

} // namespace intarsia

#endif
