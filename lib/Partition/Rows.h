//===- Rows.h - Rows of a call on different ranks -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_ROWS_H
#define INTARSIA_LIB_PARTITION_ROWS_H

#include "dialects/Nn/Nn.h"
#include "intarsia/Analysis/SizeMaterializer.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include <optional>
#include <string>

namespace intarsia::partition {

/// The rows of a function's calls: tokens of a language model, examples of a batch. They are dimensions whose size is
/// that of an input's first one, or a multiple of it.
class Rows {
public:
  explicit Rows(mlir::func::FuncOp function);

  const SymbolicSizes &sizes() const { return symbolicSizes; }
  /// Returns the dimension of a value that rows lie along; nullopt if it has none, or several.
  std::optional<int64_t> dimensionOf(mlir::Value value) const;
  /// True if a dimension of the value depends on the number of rows.
  bool has(mlir::Value value) const;
  bool depends(mlir::AffineExpr size) const;
  bool isCount(unsigned symbol) const { return counts.contains(symbol); }
  /// Returns why an op cannot compute some rows of its results from the same rows of its operands; nullopt if it can.
  std::optional<std::string> whyNotRowWise(mlir::Operation *op) const;
  /// True if an op that computes some rows needs all of an operand: the table that it looks up rows in, for instance.
  bool needsAll(mlir::OpOperand &operand) const;
  /// True for what is computed of inputs alone, without weights and states.
  bool isOfInputs(mlir::Value value) const;

private:
  SymbolicSizes symbolicSizes;
  llvm::DenseSet<mlir::Value> states;
  llvm::DenseSet<unsigned> counts; ///< symbols
};

/// Returns a rank's rows of a tensor of which it has all, from row `first` on: null if that is 0. What is behind the
/// last of all `count` rows repeats it. `extents` are the sizes of the result, whose rows lie along `dimension`.
mlir::Value pickRows(mlir::OpBuilder &builder, mlir::Value all, mlir::RankedTensorType type,
                     llvm::ArrayRef<mlir::OpFoldResult> extents, int64_t dimension, mlir::Value first,
                     mlir::Value count);

/// Builds the function of one rank. Each rank computes as many rows: those of the last ranks repeat the last row where
/// rows are no multiple of the ranks. What needs all rows gets them by a gather: updates of caches, and results.
class RowsFunction {
public:
  /// With `byHeads` the rank has some heads of all caches, whose number is a multiple of the ranks as that of queries
  /// is.
  RowsFunction(mlir::func::FuncOp source, const Rows &rows, int64_t rank, int64_t ranks, bool byHeads);

  mlir::func::FuncOp build();

private:
  mlir::Value local(mlir::Value value);
  mlir::Value whole(mlir::Value value);
  bool isRowWise(mlir::Operation *op) const;
  mlir::Type typeOfArgument(mlir::BlockArgument argument);
  void append(nn::CacheAppendOp op);
  mlir::Value attend(nn::CachedAttentionOp op);
  mlir::Value headsOf(mlir::Value value);
  mlir::Value rowsOf(mlir::Value ofHeads, mlir::Value value);
  mlir::Value exchange(mlir::Value value);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  void finish(llvm::ArrayRef<mlir::Value> returned);
  void copy(mlir::Operation *op, mlir::IRMapping &mapping);
  mlir::Value gather(mlir::Value value);
  mlir::Value ownRows(mlir::Value value);
  mlir::Value symbolValue(mlir::AffineExpr size);
  mlir::Value countOfRank(mlir::AffineExpr size);

  mlir::func::FuncOp source;
  const Rows &rows;
  int64_t rank, ranks;
  bool byHeads;
  mlir::OpBuilder builder;
  SizeMaterializer allSizes, ownSizes;
  mlir::func::FuncOp result;
  mlir::IRMapping wholes, locals;
};

} // namespace intarsia::partition

#endif
