//===- Cuts.h - How tensors are cut into the parts of ranks -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_CUTS_H
#define INTARSIA_LIB_PARTITION_CUTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include <optional>
#include <string>

namespace intarsia::partition {

/// A part of a dimension.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  bool operator==(const Range &other) const { return begin == other.begin && end == other.end; }
};

/// A dimension of a tensor of which each rank has a part. Parts of several ranks may overlap: ranks that share a head
/// of keys and values each have all of it.
struct Cut {
  int64_t dimension;
  llvm::SmallVector<Range> ranges; ///< by rank
  bool operator==(const Cut &other) const { return dimension == other.dimension && ranges == other.ranges; }
};

/// Returns `units` of `unit` elements divided over ranks in proportion to their speeds, at least one for each.
llvm::SmallVector<Range> rangesOf(int64_t units, int64_t unit, llvm::ArrayRef<double> speeds);

/// What an op that computes parts of its results needs of each operand: a part, or nullopt for the whole of it.
using OperandCuts = llvm::SmallVector<std::optional<Cut>>;

/// Finds what an op needs to compute parts of its results. Returns why it cannot, or nullopt.
///
/// Products with weights are cut by output features (arXiv 1909.08053, section 3), attention by heads, elementwise ops,
/// norms and views along dimensions that they do not mix.
std::optional<std::string> findOperandCuts(mlir::Operation *op, const Cut &cut, OperandCuts &operands);

/// Values of a function that are computed in parts, each with its cut.
class CutValues {
public:
  explicit CutValues(mlir::func::FuncOp function) : function(function) {}

  /// Cuts a value and all that it is computed from, up to products whose weights are cut instead. Returns why that
  /// cannot be done, or nullopt; nothing is cut then. `reader` reads the parts: what it gives is whole from then on, a
  /// sum over all ranks.
  std::optional<std::string> cut(mlir::Value value, const Cut &cut, mlir::Operation *reader);
  const Cut *lookup(mlir::Value value) const {
    auto found = cuts.find(value);
    return found == cuts.end() ? nullptr : &found->second;
  }
  bool empty() const { return cuts.empty(); }
  /// True if a result of the op is computed in parts.
  bool isCut(mlir::Operation *op) const {
    return llvm::any_of(op->getResults(), [&](mlir::Value result) { return lookup(result); });
  }

private:
  using Cuts = llvm::MapVector<mlir::Value, Cut>;
  std::optional<std::string> demand(mlir::Value value, const Cut &cut, Cuts &wanted);
  std::optional<std::string> demandStateOf(mlir::Operation *append, mlir::Value rows, Cuts &wanted);
  std::optional<std::string> checkReaders(mlir::Operation *reader, Cuts &wanted);

  mlir::func::FuncOp function;
  Cuts cuts;
  llvm::DenseSet<mlir::Operation *> sums; ///< of which each rank computes a part, and then has all
};

} // namespace intarsia::partition

#endif
