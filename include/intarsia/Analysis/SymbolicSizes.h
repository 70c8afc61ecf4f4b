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
#include "llvm/ADT/StringMap.h"
#include <optional>

namespace mlir {
namespace linalg {
class LinalgOp;
} // namespace linalg
namespace tensor {
class ExtractSliceOp;
} // namespace tensor
} // namespace mlir

namespace intarsia {

/// What sizes must meet for an op to stay within its operands: `left == right` or `left <= right`.
struct SizeConstraint {
  enum class Relation { Equal, AtMost };
  Relation relation;
  mlir::AffineExpr left, right;
  mlir::Operation *op; ///< that needs it
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
/// Ops that need sizes to be equal say so. Where those are two symbols, or a symbol and a number, all expressions have
/// one in place of the other (a name that the user gave before one made here, a number before both). Where an op can
/// hold only so many of a symbol, that is a limit of it. What remains is in `constraints`.
class SymbolicSizes {
public:
  /// A symbol that was found to be something else, and the op that needs it to be.
  struct Replacement {
    unsigned symbol;
    mlir::AffineExpr by;
    mlir::Operation *op;
  };

  /// The first dimension of an argument that carries a symbol.
  struct Origin {
    unsigned argument, dimension;
  };

  /// Sizes of a call are positive, and what ops need of them makes symbols equal or limits them. Those of a launch may
  /// be zero, and `constraints` has all that ops need, as they say it.
  enum class SizesOf { Call, Launch };

  explicit SymbolicSizes(mlir::FunctionOpInterface function, SizesOf sizesOf = SizesOf::Call);

  /// Expressions of all dimensions of a ranked tensor or memref value.
  mlir::ArrayRef<mlir::AffineExpr> of(mlir::Value value) const;
  /// The expression of an index-typed value; null if it is not a function of sizes.
  mlir::AffineExpr ofIndex(mlir::Value value) const;
  /// Names of the symbols, in order: getAffineSymbolExpr(i) is names()[i].
  mlir::ArrayRef<std::string> names() const { return symbolNames; }
  std::optional<Origin> origin(unsigned symbol) const;
  /// False if the expression is null or holds a symbol that stands for an unknown size.
  bool isKnown(mlir::AffineExpr expression) const;
  /// What a call must be checked for besides that equal symbols are equal, and that they are positive and within their
  /// limits: each once, in the order of the ops.
  mlir::ArrayRef<SizeConstraint> constraints() const { return required; }
  /// False if no call can meet it.
  bool isPossible(const SizeConstraint &constraint) const;
  mlir::ArrayRef<Replacement> replacements() const { return replaced; }
  /// The largest value of a symbol: from `nn.size_limits`, or what the ops can hold.
  std::optional<int64_t> limit(unsigned symbol) const;
  /// What the expression can be, given positive symbols within their limits.
  SizeRange range(mlir::AffineExpr expression) const;
  /// Value at the given symbol values (by position in names()).
  static int64_t evaluate(mlir::AffineExpr expression, mlir::ArrayRef<int64_t> symbols);
  /// The same expression as a sorted sum of sorted products, so that equal polynomials are the same object. Divisions
  /// that leave no remainder whatever the symbols are disappear. All expressions that this class gives are normal.
  static mlir::AffineExpr normalize(mlir::AffineExpr expression);
  /// The expression with the names of its symbols: "batch * sequence + 1".
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

  // What ops need (SizeConstraints.cpp).
  void require(SizeConstraint::Relation relation, mlir::AffineExpr left, mlir::AffineExpr right, mlir::Operation *op);
  void requireEqual(mlir::AffineExpr left, mlir::AffineExpr right, mlir::Operation *op);
  void requireAtMost(mlir::AffineExpr left, mlir::AffineExpr right, mlir::Operation *op);
  void requireOfLoops(mlir::linalg::LinalgOp op);
  void requireOfSlice(mlir::tensor::ExtractSliceOp op);
  bool replaceEqualSymbols();
  void settleLimits(mlir::Operation *function);

  mlir::MLIRContext *context;
  int64_t leastKnown; ///< value of a symbol that is known
  llvm::DenseMap<mlir::Value, Sizes> sizes;
  llvm::DenseMap<mlir::Value, mlir::AffineExpr> indices;
  llvm::SmallVector<std::string> symbolNames;
  llvm::SmallVector<bool> isNameGiven;                ///< by the user, for each symbol
  llvm::SmallVector<mlir::AffineExpr> representative; ///< what stands for each symbol
  llvm::SmallVector<std::optional<int64_t>> limits;
  mlir::DictionaryAttr givenLimits;
  llvm::SmallVector<SizeConstraint> required;
  llvm::SmallVector<Replacement> replaced;
  llvm::StringMap<unsigned> symbolIds;
  llvm::DenseMap<unsigned, Origin> origins;
  unsigned unknowns = 0;
};

} // namespace intarsia

#endif
