//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_SYMBOLICSIZES_H
#define INTARSIA_SYMBOLICSIZES_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/IR/Block.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace intarsia {

/// The size of every tensor dimension in a function or kernel, as an expression over its symbols: the names that
/// `nn.sizes` gives to the dynamic dimensions of arguments (dimensions without a name get one of their own,
/// "arg<i>.<d>"). Index values that are computed from sizes have expressions too. Looks into nn.group.
/// A dynamic dimension that no rule covers gets a fresh symbol named "?<n>"; `isKnown` tells.
class SymbolicSizes {
public:
  explicit SymbolicSizes(mlir::FunctionOpInterface function);

  /// Expressions of all dimensions of a ranked tensor or memref value.
  mlir::ArrayRef<mlir::AffineExpr> of(mlir::Value value) const;
  /// The expression of an index-typed value; null if it is not a function of sizes.
  mlir::AffineExpr ofIndex(mlir::Value value) const;
  /// Names of the symbols, in order: getAffineSymbolExpr(i) is names()[i].
  mlir::ArrayRef<std::string> names() const { return symbolNames; }
  /// False if the expression is null or holds a symbol that stands for an unknown size.
  bool isKnown(mlir::AffineExpr expression) const;
  /// Value at the given symbol values (by position in names()).
  static int64_t evaluate(mlir::AffineExpr expression, mlir::ArrayRef<int64_t> symbols);
  /// The same expression as a sorted sum of sorted products, so that equal polynomials are the same object. Divisions
  /// that leave no remainder whatever the symbols are disappear. All expressions that this class gives are normal.
  static mlir::AffineExpr normalize(mlir::AffineExpr expression);
  /// The expression with the names of its symbols: "batch * sequence + 1".
  std::string toString(mlir::AffineExpr expression) const;

private:
  void setSizes(mlir::Value value, mlir::ArrayRef<mlir::AffineExpr> inferred);
  void visitIndex(mlir::Operation *op);
  bool visitShape(mlir::Operation *op);
  mlir::AffineExpr expressionOf(mlir::OpFoldResult size) const;
  void visitBlock(mlir::Block &block);
  void visit(mlir::Operation *op);
  mlir::AffineExpr symbol(llvm::StringRef name);

  mlir::MLIRContext *context;
  llvm::DenseMap<mlir::Value, Sizes> sizes;
  llvm::DenseMap<mlir::Value, mlir::AffineExpr> indices;
  llvm::SmallVector<std::string> symbolNames;
  llvm::StringMap<unsigned> symbolIds;
  unsigned unknowns = 0;
};

} // namespace intarsia

#endif
