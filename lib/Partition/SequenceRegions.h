//===- SequenceRegions.h - Rows around the norms of a rank --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_SEQUENCEREGIONS_H
#define INTARSIA_LIB_PARTITION_SEQUENCEREGIONS_H

#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <deque>
#include <string>

namespace intarsia::partition {

/// Rewrites the function of a rank whose layers are shared with others: of a sum over the ranks that norms and
/// residuals read, each rank gets some rows, computes these of what follows, and all rows are gathered in front of what
/// needs them (arXiv 2205.05198, section 4.2.2). Rows are all dimensions in front of the features, as one. Each of n
/// ranks has ceil(rows / n) of them; those behind the last row repeat it.
class SequenceRegions {
public:
  /// `shape` is the grid's; `rank` is one of all its ranks.
  SequenceRegions(mlir::func::FuncOp function, llvm::ArrayRef<int64_t> shape, int64_t rank)
      : function(function), shape(shape), rank(rank), sizes(function) {}

  void build();

  /// Counts what the ranks of the first row of the grid do.
  struct Counts {
    int64_t ranks = 0, sums = 0, norms = 0, others = 0, gathers = 0;
    void add(const Counts &more);
  };
  /// Returns what is done in rows by a rank that is the first of those that share its layers; nothing for others.
  const Counts &counts() const { return counted; }
  /// Returns why a sum is left as it is, if one is for its size.
  const std::string &why() const { return reason; }

private:
  /// Dimensions in front of the features that values have in common.
  struct RowSpace {
    llvm::SmallVector<mlir::AffineExpr> leading; ///< sizes
    mlir::Value partial;                         ///< of the first sum, of which all ranks have all rows
    mlir::Operation *sum = nullptr;              ///< the first one
    llvm::SmallVector<mlir::shard::GridAxis, 1> axes;
    mlir::Value count, each; ///< rows, and rows of a rank
    int64_t staticEach = mlir::ShapedType::kDynamic;
  };

  void plan();
  void planSum(mlir::shard::AllReduceOp sum);
  RowSpace *rowsOf(mlir::Operation *op);
  bool isOfRows(mlir::Value value, const RowSpace &rows) const;
  bool isNeeded(mlir::Value value) const;
  bool mayStayWhole(mlir::Operation *op) const;
  void count();
  void makeSizes(RowSpace &rows);
  void scatter(mlir::shard::AllReduceOp sum);
  void compute(mlir::Operation *op);
  void gather(mlir::Value value);
  void replaceSizes(mlir::Value value);
  mlir::Value ownOf(mlir::Value value, const RowSpace &rows, mlir::OpBuilder &builder);
  mlir::RankedTensorType ownType(mlir::Value value, const RowSpace &rows) const;
  int64_t ranksOf(llvm::ArrayRef<mlir::shard::GridAxis> axes) const { return shape[axes.front()]; }
  int64_t placeOf(llvm::ArrayRef<mlir::shard::GridAxis> axes) const;

  mlir::func::FuncOp function;
  llvm::ArrayRef<int64_t> shape;
  int64_t rank;
  SymbolicSizes sizes;
  std::deque<RowSpace> allRows;
  llvm::MapVector<mlir::Value, RowSpace *> owned; ///< values of which a rank has its rows
  llvm::SetVector<mlir::Operation *> region;      ///< ops that compute them
  llvm::DenseSet<mlir::Operation *> wholes;       ///< those of the region that are computed with all rows too
  llvm::DenseMap<mlir::Value, mlir::Value> owns;
  Counts counted;
  std::string reason;
};

} // namespace intarsia::partition

#endif
