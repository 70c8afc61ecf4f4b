//===- LayoutProblem.h - Which layouts tensors can have, and what that costs --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_LAYOUTPROBLEM_H
#define INTARSIA_LIB_FUSE_LAYOUTPROBLEM_H

#include "lib/Fuse/Fuser.h"
#include "lib/Fuse/LayoutRules.h"
#include "lib/Fuse/LeastCost.h"

namespace intarsia::fuse {

/// A tensor behind all transpositions: `value` is what an op or an argument gives, a permutation of its dimensions
/// away.
struct LayoutOrigin {
  mlir::Value value;
  Layout permutation;
};

/// An operand of an op that has several layouts.
struct LayoutRead {
  unsigned op; ///< in LayoutProblem::ops
  mlir::OpOperand *operand;
  bool isNested; ///< inside a region of the op, which reads it as it is written
  LayoutOrigin origin;
};

/// A tensor that ops compute or arguments give.
struct LaidOutTensor {
  mlir::Value value;
  int producer = -1; ///< in LayoutProblem::ops; -1 for an argument
  llvm::SmallVector<unsigned> reads;
  llvm::SmallVector<Layout> layouts; ///< considered, the one as written first
  llvm::SmallVector<unsigned> kinds; ///< equal for layouts that are the same in memory
  double copyUs = 0;                 ///< of a kernel that copies it
  double acrossUs = 0;               ///< more if it reads across rows
  int variable = -1;                 ///< in LeastCost: the layouts that there are of it
  llvm::SmallVector<uint32_t> sets;  ///< by label
};

struct LaidOutOp {
  mlir::Operation *op;
  LayoutRules rules;
  llvm::SmallVector<Layout> orders; ///< considered, the one as written first
  int preferred = -1;               ///< in orders
  double us = 0;                    ///< of loops
  double slowdown = 1;
  int variable = -1;                 ///< in LeastCost: the order; -1 if there is one
  llvm::SmallVector<unsigned> reads; ///< in LayoutProblem::reads
  std::string why;
};

/// True for tensors that are made in any layout for nothing: fills, splats, constants, weights of archives.
bool isMadeInAnyLayout(mlir::Value value);

/// What a function's ops can be in other layouts, what that costs, and what costs least.
class LayoutProblem {
public:
  explicit LayoutProblem(Fuser &fuser) : fuser(fuser) {}

  /// Returns false if there is nothing to choose.
  bool find();
  /// Takes and records the decisions.
  void choose();

  LayoutOrigin originOf(mlir::Value value) const;
  /// The location of the transposition that gave a tensor this layout; that of `consumer` if none did.
  mlir::Location locationOf(mlir::Value origin, llvm::ArrayRef<int64_t> layout, mlir::Operation *consumer) const;
  /// The chosen order of an op, a position in its orders.
  unsigned orderOf(const LaidOutOp &op) const { return op.variable < 0 ? 0 : solution.labels[unsigned(op.variable)]; }
  /// The layout in which an operand's origin is read.
  Layout chosenLayout(const LayoutRead &read) const;
  /// The layout that an operand is seen in when its origin lies in a layout.
  static Layout seen(const LayoutRead &read, llvm::ArrayRef<int64_t> layout) {
    return compose(inverse(read.origin.permutation), layout);
  }

  std::vector<LaidOutOp> ops;    ///< in the order of the block
  std::vector<LayoutRead> reads; ///< of all ops

private:
  /// A choice for a decision.
  struct Site {
    mlir::Operation *op;
    std::string subject, reason;
    llvm::SmallVector<unsigned> ops; ///< whose orders it is about
  };

  void addOp(mlir::Operation &op);
  bool findLayouts();
  static bool addOrder(LaidOutOp &op, const std::optional<Layout> &order);
  static bool addLayout(LaidOutTensor &tensor, Layout layout, bool isNeeded = false);
  Layout produced(const LaidOutTensor &tensor, unsigned order) const;
  void addVariables();
  void addCosts();
  void addCost(int first, int second, llvm::function_ref<double(unsigned, unsigned)> cost);
  double readUs(const LayoutRead &read, const LaidOutTensor &tensor, unsigned order, const Layout &layout) const;
  std::vector<Site> sites();
  void solveAround(unsigned variable);
  void decide(const Site &site);

  Fuser &fuser;
  std::vector<LaidOutTensor> tensors;
  llvm::DenseMap<mlir::Value, unsigned> tensorOf;
  llvm::DenseMap<mlir::Operation *, unsigned> numberOf;
  llvm::DenseMap<mlir::Value, LayoutOrigin> origins; ///< of results of transpositions
  llvm::SmallVector<mlir::Operation *> transpositions;
  LeastCost costs;
  LeastCost::Allowed allowed;
  LeastCost::Solution solution;
};

} // namespace intarsia::fuse

#endif
