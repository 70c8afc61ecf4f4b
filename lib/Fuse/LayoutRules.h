//===- LayoutRules.h - Ops with tensors in other orders of dimensions ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A layout of a tensor is the order of its dimensions in memory, outermost first: the permutation of the
// linalg.transpose that gives the tensor as it lies. An op that can compute the same with tensors in other layouts has
// a layout of its own, its order, from which those of its operands and results follow.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_LAYOUTRULES_H
#define INTARSIA_LIB_FUSE_LAYOUTRULES_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinTypes.h"
#include <optional>

namespace intarsia::fuse {

using Layout = llvm::SmallVector<int64_t, 4>;

Layout identityLayout(int64_t rank);
bool isIdentity(llvm::ArrayRef<int64_t> layout);
/// The layout `inner` of a tensor that lies in `outer`: outer[inner[i]].
Layout compose(llvm::ArrayRef<int64_t> outer, llvm::ArrayRef<int64_t> inner);
Layout inverse(llvm::ArrayRef<int64_t> layout);
mlir::RankedTensorType inLayout(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> layout);
/// True if elements lie in the same order in both layouts: only dimensions of 1 have other positions.
bool areSameInMemory(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);
/// The sizes of a tensor in a layout.
llvm::SmallVector<mlir::OpFoldResult> sizesInLayout(mlir::OpBuilder &builder, mlir::Location location,
                                                    mlir::Value tensor, llvm::ArrayRef<int64_t> layout);

/// A layout in which a tensor is read where the op expects its own order.
struct Stored {
  mlir::Value value;
  Layout layout;
};

/// What an op reads.
enum class Reading {
  AsItLies,   ///< along neighbours in memory, or one element for several results
  AlongSums,  ///< neighbours in memory are factors of one sum, and other operands are read more than once
  Across,     ///< neighbours in the result lie apart
  Impossible, ///< the op reads this operand in one layout only
};

/// How one op computes with tensors in other layouts.
class LayoutRules {
public:
  explicit LayoutRules(mlir::Operation *op);

  /// False if the op reads and gives tensors as they are written only.
  bool hasOrders() const { return kind != Kind::Fixed; }
  /// True if kernels compute results of the op one by one, at the positions of its operands.
  bool isElementByElement() const;
  /// The type of the tensor whose dimensions the order is of; null if there is none.
  mlir::RankedTensorType typeOfOrder() const;
  /// The order of the op as it is written.
  Layout identity() const;

  /// The order in which the op gives a result in a layout; nullopt if it cannot.
  std::optional<Layout> orderOfResult(unsigned result, llvm::ArrayRef<int64_t> layout) const;
  /// The order that suits an operand in a layout; nullopt if there is none, or the operand does not tell.
  std::optional<Layout> orderOfOperand(unsigned operand, llvm::ArrayRef<int64_t> layout) const;
  /// The layout of a result.
  Layout layoutOfResult(llvm::ArrayRef<int64_t> order, unsigned result) const;
  /// The layout that an operand is read in, or read best in.
  Layout layoutOfOperand(llvm::ArrayRef<int64_t> order, unsigned operand) const;
  /// How the op reads an operand in a layout.
  Reading reading(llvm::ArrayRef<int64_t> order, unsigned operand, llvm::ArrayRef<int64_t> layout) const;

  /// Builds the op in another order, with operands that are read as reading() says.
  mlir::Operation *build(mlir::OpBuilder &builder, llvm::ArrayRef<int64_t> order,
                         llvm::ArrayRef<Stored> operands) const;

private:
  enum class Kind {
    Fixed,
    Elementwise, ///< all tensors are in the op's order
    Rows,        ///< the first operand and the result are, and their last dimension is last
    Left,        ///< the same of the left side of a product with a weight
    Matrices,    ///< batches of matrices, whose last two dimensions stay, or change places as they are read
    Concat,
    Slice,    ///< the order is the source's
    Expand,   ///< the order is the source's
    Collapse, ///< the order is the result's
    Loops,    ///< the order is the first result's, and of the loops over it
  };
  static Kind kindOf(mlir::Operation *op);

  mlir::linalg::GenericOp loops() const { return mlir::cast<mlir::linalg::GenericOp>(op); }
  Layout expand(llvm::ArrayRef<int64_t> order) const;
  std::optional<Layout> collapse(llvm::ArrayRef<int64_t> layout) const;
  llvm::SmallVector<unsigned> parallelLoops(llvm::ArrayRef<int64_t> order) const;
  std::optional<unsigned> lane(llvm::ArrayRef<int64_t> order) const;
  mlir::Operation *buildLoops(mlir::OpBuilder &builder, llvm::ArrayRef<int64_t> order,
                              llvm::ArrayRef<Stored> operands) const;

  mlir::Operation *op;
  Kind kind;
};

/// The permutation of an op that copies a tensor and changes nothing but the order of dimensions: result dimension i is
/// dimension permutation[i] of the source. Nullopt for other ops.
std::optional<Layout> transposition(mlir::Operation *op);

} // namespace intarsia::fuse

#endif
