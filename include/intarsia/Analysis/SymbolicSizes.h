//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_ANALYSIS_SYMBOLICSIZES_H
#define INTARSIA_ANALYSIS_SYMBOLICSIZES_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/IR/Block.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"
#include <optional>

namespace mlir {
namespace cf {
class AssertOp;
} // namespace cf
namespace linalg {
class LinalgOp;
} // namespace linalg
namespace tensor {
class ExtractSliceOp;
} // namespace tensor
} // namespace mlir

namespace intarsia {

/// A condition on sizes that keeps an op within its operands: `left == right` or `left <= right`.
struct SizeConstraint {
  enum class Relation { Equal, AtMost };
  Relation relation;
  mlir::AffineExpr left, right;
  mlir::Operation *op; ///< op that needs it
};

/// Bounds of a size, both included. The ends of the type stand for infinity.
struct SizeRange {
  int64_t low, high;
};

/// The size of every tensor dimension in a function or kernel, as an expression over its symbols: the names that
/// `nn.sizes` gives to the dynamic dimensions of arguments (dimensions without a name get one of their own,
/// "arg<i>.<d>"). Index values that are computed from sizes have expressions too. Looks into nn.group.
/// A dynamic dimension that no rule covers gets a fresh symbol named "?<n>"; `isKnown` tells.
///
/// Ops may need sizes to be equal. If these are two symbols, or a symbol and a number, one replaces the other in all
/// expressions (a number is preferred, then a name that the user gave). If an op bounds a symbol, the bound becomes its
/// limit. The remaining conditions are in `constraints`.
class SymbolicSizes {
public:
  /// A symbol that was replaced, and the op that needs it.
  struct Replacement {
    unsigned symbol;
    mlir::AffineExpr by;
    mlir::Operation *op;
  };

  /// The first dimension of an argument that carries a symbol.
  struct Origin {
    unsigned argument, dimension;
  };

  /// Sizes of a call are positive, and conditions of ops make symbols equal or limit them. Sizes of a launch may be
  /// zero, and `constraints` holds the conditions of all ops, unsimplified.
  enum class SizesOf { Call, Launch };

  explicit SymbolicSizes(mlir::FunctionOpInterface function, SizesOf sizesOf = SizesOf::Call);

  /// Returns the expressions of all dimensions of a ranked tensor or memref value.
  mlir::ArrayRef<mlir::AffineExpr> of(mlir::Value value) const;
  /// Returns the expression of an index-typed value; null if it is not a function of sizes.
  mlir::AffineExpr ofIndex(mlir::Value value) const;
  /// Names of the symbols, in order: getAffineSymbolExpr(i) is names()[i].
  mlir::ArrayRef<std::string> names() const { return symbolNames; }
  std::optional<Origin> origin(unsigned symbol) const;
  /// False if the expression is null or holds a symbol that stands for an unknown size.
  bool isKnown(mlir::AffineExpr expression) const;
  /// Returns the conditions that a call must be checked for, each once, in the order of the ops. Not among them: equal
  /// symbols are equal, and symbols are positive and within their limits.
  mlir::ArrayRef<SizeConstraint> constraints() const { return required; }
  /// False if no call can meet it.
  bool isPossible(const SizeConstraint &constraint) const;
  mlir::ArrayRef<Replacement> replacements() const { return replaced; }
  /// Returns the largest value of a symbol, from `nn.size_limits` or the conditions of ops.
  std::optional<int64_t> limit(unsigned symbol) const;
  /// True if calls may have 0 for a symbol, as `nn.empty_sizes` says of it and of all symbols that it replaced.
  bool mayBeEmpty(unsigned symbol) const { return symbol < emptySymbols.size() && emptySymbols.test(symbol); }
  /// Returns the range of an expression, given positive symbols within their limits.
  SizeRange range(mlir::AffineExpr expression) const;
  /// Returns the value of an expression for given values of the symbols (by position in names()).
  static int64_t evaluate(mlir::AffineExpr expression, mlir::ArrayRef<int64_t> symbols);
  /// Returns the expression as a sorted sum of sorted products, so that equal polynomials are the same object.
  /// Divisions that never leave a remainder disappear. All expressions that this class returns are normalized.
  static mlir::AffineExpr normalize(mlir::AffineExpr expression);
  /// Returns the expression with the names of its symbols: "batch * sequence + 1".
  std::string toString(mlir::AffineExpr expression) const;

private:
  /// A symbol that equals something else: another symbol or a number.
  struct Solution {
    mlir::AffineSymbolExpr symbol;
    mlir::AffineExpr value;
  };
  static std::optional<Solution> solve(mlir::AffineExpr difference);
  static std::optional<std::pair<unsigned, int64_t>> largest(mlir::AffineExpr difference);

  void visitArguments(mlir::FunctionOpInterface function);
  void visitResults(mlir::FunctionOpInterface function);
  void visitBlock(mlir::Block &block);
  void visit(mlir::Operation *op);
  void visitIndex(mlir::Operation *op);
  bool visitShape(mlir::Operation *op);
  void setSizes(mlir::Value value, mlir::ArrayRef<mlir::AffineExpr> inferred);
  mlir::AffineExpr expressionOf(mlir::OpFoldResult size) const;
  mlir::AffineExpr symbol(llvm::StringRef name, bool isGiven = true);

  // Conditions of ops (SizeConstraints.cpp).
  void require(SizeConstraint::Relation relation, mlir::AffineExpr left, mlir::AffineExpr right, mlir::Operation *op);
  void requireEqual(mlir::AffineExpr left, mlir::AffineExpr right, mlir::Operation *op);
  void requireAtMost(mlir::AffineExpr left, mlir::AffineExpr right, mlir::Operation *op);
  void requireOfLoops(mlir::linalg::LinalgOp op);
  void requireOfSlice(mlir::tensor::ExtractSliceOp op);
  void requireOfAssertion(mlir::cf::AssertOp op);
  bool replaceEqualSymbols();
  void settleLimits(mlir::Operation *function);

  mlir::MLIRContext *context;
  int64_t leastKnown;    ///< least value of a known symbol that is not in `emptySymbols`
  mlir::ArrayAttr empty; ///< names of sizes that may be 0, or null
  llvm::DenseMap<mlir::Value, Sizes> sizes;
  llvm::DenseMap<mlir::Value, mlir::AffineExpr> indices;
  llvm::SmallVector<std::string> symbolNames;
  llvm::SmallVector<bool> isNameGiven;                ///< for each symbol: true if the user named it
  llvm::SmallVector<mlir::AffineExpr> representative; ///< replacement of each symbol
  llvm::SmallVector<std::optional<int64_t>> limits;
  llvm::SmallBitVector emptySymbols; ///< symbols that may be 0
  mlir::DictionaryAttr givenLimits;
  llvm::SmallVector<SizeConstraint> required;
  llvm::SmallVector<Replacement> replaced;
  llvm::StringMap<unsigned> symbolIds;
  llvm::DenseMap<unsigned, Origin> origins;
  unsigned unknowns = 0;
};

} // namespace intarsia

#endif
